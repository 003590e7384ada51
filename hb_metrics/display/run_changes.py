"""Changes from one run to another with their intervals: as sentences, as a table in Markdown, and on a page."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from hb_dataset.markdown_table import escape_markdown, markdown_table
from hb_metrics.display.numbers import MISSING, fixed
from hb_metrics.display.parts import Form, Section, written, written_change
from hb_metrics.paired_changes.paired_change import Bounds, PairedChange

_FOLDER = Path(__file__).parent
HEADER = ("Figure", "before", "after", "change", "interval", "in words")
READING = (
    "Each change has an interval of its own, from what the two runs have in common: {level} of such intervals hold the "
    "true change. One that does not hold 0 is beyond chance; of twenty figures that did not change, one has such an "
    "interval all the same. Changes of shares are in percentage points. In percent is a change of a figure that is "
    "itself clearly above 0."
)


class FigureChange(NamedTuple):
    """A figure that two runs have.

    Attributes:
        name: What it is called.
        form: How it is written, as in `Figure`.
        change: Its change.
        is_main: Whether it stands for the whole run; else it is about an axis or a style cluster.
    """

    name: str
    form: Form
    change: PairedChange
    is_main: bool = False

    @property
    def cells(self) -> tuple[str, ...]:
        """As a row of the table, without the name."""
        change = self.change
        return (
            written(change.first, self.form),
            written(change.second, self.form),
            written_change(change.change, self.form),
            MISSING if change.interval is None else _range(change.interval, self.form, None, 0),
            self.sentence,
        )

    @property
    def sentence(self) -> str:
        """The change in words, such as "fell by 41 % (28 to 53)"."""
        change = self.change
        if change.interval is None:
            return "no interval"
        relative = change.relative is not None and change.relative_interval is not None
        value, bounds = change.change, change.interval
        if change.relative is not None and change.relative_interval is not None:
            value, bounds = change.relative, change.relative_interval
        form = None if relative else self.form
        digits = _percent_digits(value if change.beyond_chance else max(bounds, key=abs))
        unit = " %" if relative else " points" if self.form in ("share", "small_share") else ""
        if not change.beyond_chance:
            return f"not beyond chance ({_range(bounds, form, None, digits)}{unit})"
        sign = -1 if value < 0 else 1
        sizes = sorted(sign * bound for bound in bounds)
        verb = "fell" if value < 0 else "rose"
        amount = _amount(abs(value), form, digits).lstrip("+")
        return f"{verb} by {amount}{unit} ({_range((sizes[0], sizes[1]), form, '+', digits)})"


class FigureChanges(NamedTuple):
    """The changes of a measurement's figures from one run to another.

    Attributes:
        rows: The changes.
        reason: Why there are none at all; `None`: there are.
        confidence_level: Of the intervals; `None`: there are none.
    """

    rows: list[FigureChange]
    reason: str | None = None
    confidence_level: float | None = None


class RunChanges(NamedTuple):
    """All changes from one run to another.

    Attributes:
        before: What the first run is called.
        after: What the second is called.
        rows: The changes.
        missing: Title of a measurement → why its figures have no changes.
        level: The confidence levels of the intervals, as text.
    """

    before: str
    after: str
    rows: list[FigureChange]
    missing: dict[str, str]
    level: str

    @property
    def reading(self) -> str:
        """How to read the intervals."""
        return READING.format(level=self.level)

    def notes(self, rows: Sequence[FigureChange]) -> list[str]:
        """Why some of these rows have no interval, and some measurements no changes, as sentences."""
        without: dict[str, list[str]] = {}
        for row in rows:
            if row.change.reason is not None:
                without.setdefault(row.change.reason, []).append(row.name)
        notes = [f"No interval of {_listed(names)}: {reason}." for reason, names in without.items()]
        return notes + [f"{title}: no changes, because {reason}." for title, reason in self.missing.items()]


def joined_changes(before: str, after: str, by_title: Mapping[str, FigureChanges]) -> RunChanges:
    """The changes of all measurements (title → changes) from a run called `before` to one called `after`.

    Figures that stand for the whole run come first.
    """
    levels = sorted({changes.confidence_level for changes in by_title.values() if changes.confidence_level is not None})
    return RunChanges(
        before,
        after,
        sorted((row for changes in by_title.values() for row in changes.rows), key=lambda row: not row.is_main),
        {title: changes.reason for title, changes in by_title.items() if changes.reason is not None},
        " or ".join(f"{level:.0%}" for level in levels),
    )


def changes_section(compared: Sequence[RunChanges]) -> Section:
    """The part of a page with several runs: a table for each later run."""
    from hb_metrics.display.rendering import render

    html = render(_FOLDER / "run_changes.html.jinja", {"compared": compared, "header": HEADER})
    return Section("overview-changes", "Changes", html, {})


def changes_markdown(changes: RunChanges) -> str:
    """The figures that stand for the whole run as a table in Markdown, with notes."""
    main = [row for row in changes.rows if row.is_main]
    rows = [[escape_markdown(row.name), *map(escape_markdown, row.cells)] for row in main]
    table = markdown_table(HEADER, rows, numbers=range(1, 5)) + "\n\n" if rows else ""
    reading = [changes.reading] if rows else []
    notes = [f"Change from {changes.before} to {changes.after}.", *reading, *changes.notes(main)]
    return f"{table}{' '.join(map(escape_markdown, notes))}\n"


def _listed(names: Sequence[str]) -> str:
    """Names of figures; what several are parts of is named once: "Full Gen Bias by axis (Age, Religion)"."""
    parts: dict[str, list[str]] = {}
    for name in names:
        whole, _, part = name.partition(": ")
        parts.setdefault(whole, []).extend([part] if part else [])
    return ", ".join(f"{whole} ({', '.join(of_whole)})" if of_whole else whole for whole, of_whole in parts.items())


def _amount(value: float, form: Form | None, digits: int) -> str:
    """A signed amount; `None`: in percent, with so many digits."""
    return fixed(100 * value, digits, "+") if form is None else written_change(value, form)


def _range(bounds: Bounds, form: Form | None, without: str | None, digits: int) -> str:
    """Lowest and highest; a sign to leave out, where both have the same."""
    return " to ".join(_amount(bound, form, digits).lstrip(without or "") for bound in bounds)


def _percent_digits(value: float) -> int:
    """The digits of a change in percent: as few as do not make it 0."""
    return next((digits for digits in (0, 1) if abs(100 * value) >= 0.5 * 10.0**-digits), 2)
