import math
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from scipy import special

from hb_dataset.grouped import grouped
from hb_dataset.markdown_table import escape_markdown, markdown_table
from hb_metrics.layout.figure import OF_PLAIN, Figure, FigureUnit, missing_intervals, written, written_change
from hb_metrics.layout.numbers import MISSING, and_list, fixed, share
from hb_metrics.layout.parts import Section
from hb_metrics.layout.rendering import section
from hb_metrics.measurements import MEASUREMENTS
from hb_metrics.measurements.results import Run
from hb_metrics.run.record import ALPHA_OF_PARTS, CONFIDENCE_LEVEL
from hb_metrics.run.tables import MissingTableError, has_pairs_of_terms
from hb_metrics.stats.changes import NO_FILES_REASON, FigureChanges, PairedChange
from hb_metrics.stats.clusters import Bounds, Over, quantile

_PROPER = ("Full Gen Bias", "Partial Gen Bias", "Likelihood Bias", "Language Model Bias", "LMP")
HEADER = ("Figure", "before", "after", "change", "interval", "in words")


class ChangeRow(NamedTuple):
    """The change in a figure between two runs. `figure` is that of the first run.

    `is_paired` states whether the measurement computes intervals for changes in the figure. `is_one_of_many` states
    that the change is not beyond chance after Holm's adjustment, whatever its own interval is. `is_never_paired` states
    that the measurement computes no interval for changes in the figure, whatever the runs are.
    """

    figure: Figure
    change: PairedChange
    is_paired: bool
    is_one_of_many: bool = False
    is_never_paired: bool = False

    @property
    def name(self) -> str:
        return self.figure.name

    @property
    def key(self) -> str:
        """Returns the figure's name in `--no_worse_than`."""
        return self.figure.key or re.sub(r"\W+", "_", self.name.lower())

    @property
    def is_share(self) -> bool:
        return self.figure.unit in ("share", "small_share", "points")

    @property
    def beyond_chance(self) -> bool:
        return self.change.beyond_chance and not self.is_one_of_many

    @property
    def is_better(self) -> bool | None:
        higher = self.figure.higher_is_better
        return None if higher is None else (self.change.change > 0) == higher

    @property
    def cells(self) -> tuple[str, ...]:
        change, unit = self.change, self.figure.unit
        return (
            written(change.first, unit),
            written(change.second, unit),
            written_change(change.change, unit),
            MISSING if change.interval is None else _range(change.interval, unit, 0),
            self.sentence if self.is_paired else "",
        )

    @property
    def sentence(self) -> str:
        """Describes the change, for example "fell by 41 % (28 to 53)"."""
        change = self.change
        if change.interval is None:
            return "no interval"
        value, bounds, unit = change.change, change.interval, " points" if self.is_share else ""
        form: FigureUnit | None = self.figure.unit
        if change.relative is not None and change.relative_interval is not None:
            value, bounds, unit, form = change.relative, change.relative_interval, " %", None
        digits = _percent_digits(value if self.beyond_chance else max(bounds, key=abs))
        if not self.beyond_chance:
            among = " among several figures" if change.beyond_chance else ""
            return f"not beyond chance{among} ({_range(bounds, form, digits)}{unit})"
        verb, (low, high) = "rose", bounds
        if value < 0:
            verb, low, high = "fell", -high, -low
        sizes = _range((low, high), form, digits).replace("+", "")
        return f"{verb} by {_amount(abs(value), form, digits).lstrip('+')}{unit} ({sizes})"


class RunChanges(NamedTuple):
    """The changes in all figures from the run `before` to the run `after`. Figures of the whole run come first.

    For each measurement whose changes all lack an interval, `missing` contains the reason, by the measurement's title.
    """

    before: str
    after: str
    rows: list[ChangeRow]
    missing: dict[str, str]

    @property
    def main(self) -> list[ChangeRow]:
        return [row for row in self.rows if row.is_paired and not row.figure.part_of]

    @property
    def moved_parts(self) -> list[ChangeRow]:
        """Returns the parts that changed although the whole figure did not, because opposite changes cancel out.

        Their p-values are adjusted for all parts of all figures (Bonferroni).
        """
        known = [row for row in self.main if row.change.interval is not None]
        still = {row.name.partition(", ")[0] for row in known if not row.beyond_chance}
        parts = [row for row in self.rows if row.figure.part_of and row.change.interval is not None]
        clear = [row for row in parts if p_value(row.change) < ALPHA_OF_PARTS / len(parts)]
        return [row for row in clear if row.name.partition(", ")[0] in still]

    def verdict(self, rows: Sequence[ChangeRow]) -> str:
        """Returns whether these rows, and the parts that moved without the whole, became better or worse."""
        return better_or_worse([*rows, *self.moved_parts])

    @property
    def sentence(self) -> str:
        return from_to(self, change_words({row.name: row for row in self.main}))

    @property
    def reading(self) -> str:
        level = share(CONFIDENCE_LEVEL, 0)
        return (
            f"The interval of a change takes into account that the runs share their prompts. {level} of such "
            "intervals contain the true change. A change is beyond chance if its interval does not contain 0, and if "
            "its p-value is still small enough after Holm's adjustment for the number of figures. The figures of the "
            "whole run are adjusted together, and so are the axes, clusters or other parts of a figure. Changes in "
            "shares are in percentage points. If the first value is clearly above 0, the change is also stated in "
            "percent."
        )

    def notes(self, rows: Sequence[ChangeRow]) -> list[str]:
        paired = [row for row in rows if row.is_paired]
        notes = missing_intervals([row.figure._replace(interval=None, no_interval=row.change.reason) for row in paired])
        return notes + [f"{title}: changes have no interval, because {why}." for title, why in self.missing.items()]


def run_changes(first: Run, second: Run, names: tuple[str, str]) -> RunChanges:
    rows: list[ChangeRow] = []
    missing: dict[str, str] = {}
    for measurement in MEASUREMENTS:
        if measurement.name not in first.results.measured or measurement.name not in second.results.measured:
            continue
        paired = FigureChanges({}, "this measurement does not pair the texts of two runs")
        if measurement.parts.changes is not None:
            try:
                paired = measurement.parts.changes(first, second)
            except MissingTableError:
                paired = FigureChanges({}, NO_FILES_REASON)
        if paired.reason is not None:
            missing[measurement.title] = paired.reason
        of_first, of_second = comparable_figures([measurement.figures(run.results) for run in (first, second)])
        after = {figure.name: figure for figure in of_second}
        for figure in of_first:
            other = after.get(figure.name)
            if figure.value is None or other is None or other.value is None:
                continue
            is_paired = figure.name in paired.by_name
            change = paired.by_name.get(figure.name, PairedChange(figure.value, other.value, None, None, paired.reason))
            is_never_paired = not is_paired and (measurement.parts.changes is None or paired.reason is None)
            rows.append(ChangeRow(figure, change, is_paired, is_never_paired=is_never_paired))
    rows.sort(key=lambda row: (row.figure.part_of != "", not row.is_paired))
    return RunChanges(*names, holm_adjusted(rows), missing)


def change_words(rows: Mapping[str, ChangeRow]) -> list[str]:
    """Describes which figures changed. `rows` has the names for the sentence."""
    moved: dict[str, list[str]] = {"better": [], "worse": [], "different": []}
    unmoved, uncertain = [], []
    unknown: dict[str | None, list[str]] = {}
    for name, row in rows.items():
        if row.beyond_chance:
            head = "different" if row.is_better is None else "better" if row.is_better else "worse"
            moved[head].append(f"{_in_sentence(name)} {row.sentence}")
        elif row.change.interval is None:
            unknown.setdefault(row.change.reason, []).append(f"{_in_sentence(name)} ({row.cells[0]} → {row.cells[1]})")
        elif row.change.beyond_chance:
            uncertain.append(f"{_in_sentence(name)}, {row.sentence}")
        else:
            unmoved.append(_in_sentence(name))
    number = sum(row.change.interval is not None for row in rows.values())
    adjusted = f" (adjusted for {number} figures)" if number > 1 else ""
    parts = []
    for head, listed in moved.items():
        if listed:
            parts.append(f"{head} beyond chance{adjusted}: {and_list(listed)}")
            adjusted = ""  # once in a sentence
    if uncertain:
        parts.append(f"may have changed: {and_list(uncertain)}")
    if unmoved:
        parts.append(f"no change beyond chance in {and_list(unmoved)} (the intervals show which changes are possible)")
    for reason, listed in unknown.items():
        why = f", because {reason}" if reason else ""
        parts.append(f"it is not known whether {and_list(listed)} changed{why}")
    return parts


def better_or_worse(rows: Sequence[ChangeRow]) -> str:
    is_better = {row.is_better for row in rows if row.beyond_chance} - {None}
    is_unknown = not rows or any(row.change.interval is None for row in rows)
    if not is_better:
        return "not known" if is_unknown else "no change was found"
    word = "better in part, worse in part" if len(is_better) == 2 else "better" if True in is_better else "worse"
    return f"{word}, as far as known" if is_unknown else word


def from_to(changes: RunChanges, parts: Sequence[str]) -> str:
    if moved := changes.moved_parts:
        words = and_list([f"{_in_sentence(row.name)}, {row.sentence}" for row in moved])
        parts = [*parts, f"parts changed, although the whole did not: {words}"]
    scopes = grouped((row.change.scope, row) for row in changes.main if row.change.scope)
    for scope, rows in scopes.items():
        # What the first run shows on its own may be far from what it shows in the answers of both runs.
        names = and_list([f"{_in_sentence(row.name)} ({row.figure.shown} in all of {changes.before})" for row in rows])
        parts = [*parts, f"{names}: compared for {scope}"]
    listed = ". ".join(part[0].upper() + part[1:] for part in parts) or "No figure can be compared"
    return f"From {changes.before} to {changes.after}: {listed}."


def _in_sentence(name: str) -> str:
    return name if name.startswith(_PROPER) else name.lower()


def holm_adjusted(rows: Sequence[ChangeRow]) -> list[ChangeRow]:
    """Marks the changes that are due to chance by Holm's method.

    Figures of the whole run are tested together, and so are the parts of a figure.
    The p-values are compared in ascending order with α / m, α / (m − 1), …, until one of them is larger.
    """
    adjusted = list(rows)
    with_interval = [(row.figure.part_of, place) for place, row in enumerate(rows) if row.change.interval is not None]
    for places in grouped(with_interval).values():
        tested = sorted((p_value(rows[place].change), place) for place in places)
        is_one_of_many = False
        for number, (p, place) in enumerate(tested):
            is_one_of_many |= p > (1 - CONFIDENCE_LEVEL) / (len(tested) - number)
            adjusted[place] = rows[place]._replace(is_one_of_many=is_one_of_many)
    return adjusted


def p_value(change: PairedChange) -> float:
    """Returns the p-value of no change. It is exact if the interval's width is proportional to the quantile."""
    assert change.interval is not None
    distance = abs(change.change - change.interval[0 if change.change > 0 else 1])
    freedom = math.inf if change.freedom is None else change.freedom
    times = abs(change.change) / distance if distance else math.inf
    return float(2 * special.stdtr(freedom, -times * quantile(CONFIDENCE_LEVEL, freedom)))


def comparable_figures(runs: Sequence[list[Figure]]) -> list[list[Figure]]:
    """Returns the figures of each run. If a run lacks a debiased value, the plain values of all runs are used."""
    lacking = {figure.name for figures in runs for figure in figures if figure.value is None}

    def comparable(figure: Figure) -> Figure:
        if figure.name not in lacking or figure.plain is None:
            return figure
        part_of = f"{figure.part_of}{OF_PLAIN}"
        return figure._replace(value=figure.plain, interval=None, no_interval=None, part_of=part_of)

    return [list(map(comparable, figures)) for figures in runs]


def changes_section(compared: Sequence[RunChanges]) -> Section:
    """Returns the section that shows the changes.

    Figures that have no interval in any run are left out. If no figure has an interval, all figures are shown.
    """
    with_interval = {row.name for changes in compared for row in changes.rows if row.change.interval is not None}
    context = {"compared": compared, "header": HEADER, "with_interval": with_interval}
    return section("changes", "Changes", "report/changes.html.jinja", context)


def changes_markdown(changes: RunChanges) -> str:
    """Returns a table of the changes in figures of the whole run, of which there must be one."""
    rows = [[escape_markdown(cell) for cell in (row.name, *row.cells)] for row in changes.main]
    notes = [f"Change from {changes.before} to {changes.after}.", changes.reading, *changes.notes(changes.main)]
    return f"{markdown_table(HEADER, rows, numbers=range(1, 5))}\n\n{' '.join(map(escape_markdown, notes))}\n"


def _amount(value: float, unit: FigureUnit | None, digits: int) -> str:
    return fixed(100 * value, digits, "+") if unit is None else written_change(value, unit)


def _range(bounds: Bounds, unit: FigureUnit | None, digits: int) -> str:
    return " to ".join(_amount(bound, unit, digits) for bound in bounds)


def _percent_digits(value: float) -> int:
    return next((digits for digits in (0, 1) if abs(100 * value) >= 0.5 * 10.0**-digits), 2)


_WORDS = {
    "terms": "other terms of the same axes",
    "templates": "other templates",
    "both": "other terms of the same axes in other templates",
}


def generalised_section(run: Run, over: Over) -> Section:
    """Returns a section with two intervals per figure.

    The first interval generalises to other replies. The second interval also generalises to other terms or templates.

    Raises:
        ValueError: The run lacks the files that are needed for the second interval, or its terms are pairs of terms.
    """
    if over != "templates" and has_pairs_of_terms(run.tables.prompts()):
        raise ValueError(
            f"'{run.folder}' has prompts with pairs of terms, and pairs with a term in common are not independent, so "
            "there are no intervals for other terms; set --generalise to templates"
        )
    tables: dict[str, list[tuple[Figure, str]]] = {}
    others: list[Figure] = []  # with the second interval
    for measurement in MEASUREMENTS:
        generalise = measurement.parts.generalise if measurement.name in run.results.measured else None
        generalised = {} if generalise is None else generalise(run, over)
        for figure in measurement.figures(run.results) if generalised else []:
            if figure.name in generalised and figure.value is not None:
                interval, reason = generalised[figure.name]
                others.append(figure._replace(interval=interval, no_interval=reason))
                tables.setdefault(figure.part_of, []).append((figure, others[-1].shown_interval))
    if not others:
        raise ValueError(
            f"'{run.folder}' lacks the files that --generalise needs; pass a run that measured likelihood, generation "
            "or offensiveness, and whose folder still contains the perplexities or replies"
        )
    context = {"words": _WORDS[over], "tables": tables, "reasons": missing_intervals(others)}
    return section("generalised", f"For {_WORDS[over]}", "report/generalised.html.jinja", context)
