"""Defines and formats figures, which are numbers that describe a run. No other file formats figures."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, Protocol, get_args

from hb_dataset.grouped import grouped
from hb_metrics.layout import numbers
from hb_metrics.run.record import CONFIDENCE_LEVEL

_MOST_NAMED = 12  # in a sentence below a table
FigureUnit = Literal["share", "small_share", "points", "bias", "mean", "signed", "effect", "nats", "count", "p_value"]
Bounds = tuple[float, float]
PLAIN = "plain"  # the key of the plain Gen Bias value (with sampling noise) in `Figure.beside`
OF_PLAIN = " (plain)"  # the end of the heading of plain values in place of debiased ones

# The units outside of reports, where 0.05 is 5 percent, or 5 points.
EXPORTED: dict[FigureUnit, str] = {unit: unit for unit in get_args(FigureUnit)}
EXPORTED |= {"points": "share", "small_share": "share", "signed": "effect"}
_VALUES: dict[FigureUnit, Callable[[float | None], str]] = {
    "share": numbers.share,
    "small_share": partial(numbers.share, digits=2),
    "points": numbers.points,
    "bias": numbers.bias,
    "mean": numbers.bias,
    "signed": partial(numbers.fixed, digits=2, sign="+"),
    "effect": partial(numbers.fixed, digits=2),
    "nats": partial(numbers.fixed, digits=3),
    "count": numbers.count,
    "p_value": numbers.p_value,
}
_CHANGES: dict[FigureUnit, Callable[[float | None], str]] = {
    "share": numbers.signed_share,
    "small_share": partial(numbers.signed_share, digits=2),
    "points": numbers.signed_share,
    "bias": numbers.signed_bias,
    "mean": numbers.signed_bias,
    "signed": _VALUES["signed"],
    "effect": _VALUES["signed"],
    "nats": partial(numbers.fixed, digits=3, sign="+"),
    "count": partial(numbers.fixed, digits=0, sign="+"),
    "p_value": numbers.p_value,
}


class Number(NamedTuple):
    value: float | None
    unit: FigureUnit
    interval: Bounds | None = None

    @property
    def shown(self) -> str:
        return written(self.value, self.unit)

    @property
    def shown_interval(self) -> str:
        return written_interval(self.interval, self.unit)


class Figure(NamedTuple):
    """A number that describes a whole run, or a part of the run such as an axis.

    Attributes:
        name: The name, which is the same in all runs. The name of a part begins with the name of the figure: "Full Gen
            Bias, Age".
        value: The value as in results.json, or `None` if this run lacks it.
        unit: The unit, which determines the format: "share" (84.7%), "small_share" (0.52%), "points" (a difference of
            shares: 5.7 points), "bias" (9.72; a Gen Bias value ×1000 or a perplexity), "mean" (14.2; in what the name
            states, such as words), "signed" (+0.07), "effect" (0.43), "nats" (0.142), "count" (1,560) or "p_value"
            (0.012).
        interval: The bounds, or `None` if the figure has no interval.
        no_interval: The reason why the figure has no interval in this run, or `None` if such figures never have an
            interval.
        part_of: For a part, the heading of its table and plot, such as "Full Gen Bias by axis". Empty for a figure of
            the whole run.
        is_main: Whether model cards and the Hub show the figure.
        beside: Numbers that are shown beside the value, by their names. If a run lacks the debiased value, runs are
            compared by the number named `PLAIN`.
        printed: The paper's values, by the name of the model.
        detail: A few words below the value, such as the number of tests.
        task: The figure's name in the Hub's evaluation results, or `None` if the Hub does not show the figure.
        notes: Notes for the Hub, in addition to the settings of the measurement.
        gate: The figure's name in `--fail_above`, if it differs from `task`.
        higher_is_better: Whether higher values are better, as for the share of replies that name the term. `None` if
            no direction is better.
    """

    name: str
    value: float | None
    unit: FigureUnit
    meaning: str = ""
    interval: Bounds | None = None
    no_interval: str | None = None
    part_of: str = ""
    is_main: bool = True
    beside: Mapping[str, Number] = MappingProxyType({})
    printed: Mapping[str, float | None] = MappingProxyType({})
    detail: str = ""
    task: str | None = None
    notes: tuple[str, ...] = ()
    gate: str | None = None
    higher_is_better: bool | None = False

    @property
    def key(self) -> str | None:
        return self.gate or self.task

    @property
    def title(self) -> str:
        """Returns the name, which states whether the value is plain in place of a debiased one."""
        return f"{self.name}{OF_PLAIN}" if self.part_of.endswith(OF_PLAIN) else self.name

    @property
    def label(self) -> str:
        return self.name.partition(", ")[2] if self.part_of else self.name

    @property
    def plain(self) -> float | None:
        """Returns the plain Gen Bias value, which includes sampling noise, or `None`."""
        return self.beside[PLAIN].value if PLAIN in self.beside else None

    @property
    def known(self) -> float | None:
        return self.plain if self.value is None else self.value

    @property
    def shown(self) -> str:
        return written(self.value, self.unit)

    @property
    def shown_interval(self) -> str:
        return written_interval(self.interval, self.unit)

    def as_printed(self, value: float | None) -> str:
        return numbers.fixed(value, 2) if self.unit == "bias" else written(value, self.unit)

    @property
    def interval_words(self) -> str:
        """Returns the interval and its level, or the reason why there is no interval.

        The result is empty for figures that never have an interval.
        """
        if self.interval is not None:
            return f"{CONFIDENCE_LEVEL:.0%} interval {self.shown_interval}"
        return f"no interval: {self.no_interval}" if self.no_interval else ""

    @property
    def words(self) -> str:
        """Returns the value with its interval, for a sentence: "10.8 (95% interval 7.4 to 14.8)"."""
        return f"{self.shown} ({self.interval_words})" if self.interval_words else self.shown


class Estimated(Protocol):
    """A value with its interval, or with the reason why it has none."""

    @property
    def value(self) -> float | None: ...

    @property
    def interval(self) -> Bounds | None: ...

    @property
    def reason(self) -> str | None: ...


def estimated(name: str, estimate: Estimated, unit: FigureUnit, **more: Any) -> Figure:
    return Figure(name, estimate.value, unit, interval=estimate.interval, no_interval=estimate.reason, **more)


def written(value: float | None, unit: FigureUnit) -> str:
    return _VALUES[unit](value)


def written_interval(bounds: Bounds | None, unit: FigureUnit) -> str:
    if bounds is None or unit in ("bias", "mean"):
        return numbers.interval(bounds)
    if unit == "points":
        return " to ".join(numbers.fixed(100 * bound, 1) for bound in bounds)
    return " to ".join(written(bound, unit) for bound in bounds)


def written_change(change: float | None, unit: FigureUnit) -> str:
    """Formats a change. Changes in shares are in percentage points."""
    return _CHANGES[unit](change)


def pair(bounds: Any) -> Bounds | None:
    return None if bounds is None else (bounds[0], bounds[1])


def by_part(figures: list[Figure]) -> dict[str, list[Figure]]:
    """Groups figures by `part_of`, and keeps their order. Figures of the whole run have the key ""."""
    return grouped((figure.part_of, figure) for figure in figures)


def missing_intervals(figures: Sequence[Figure]) -> list[str]:
    lacking = [figure for figure in figures if figure.interval is None]
    names = grouped((figure.no_interval, figure.name) for figure in lacking if figure.no_interval)
    return [f"No interval for {joined_names(of_reason)}: {reason}." for reason, of_reason in names.items()]


def table_notes(rows: Sequence[Figure]) -> list[str]:
    """Returns the reasons why rows of a table have no interval, to show them below the table."""
    labels = grouped((row.no_interval, row.label) for row in rows if row.interval is None and row.no_interval)
    notes = []
    for reason, of_reason in labels.items():
        number = len(of_reason)
        named = numbers.and_list(of_reason) if number <= _MOST_NAMED else f"{numbers.count(number)} rows"
        notes.append(f"No interval{'' if number == len(rows) else f' for {named}'}: {reason}.")
    return notes


def joined_names(names: list[str]) -> str:
    """Joins names, and puts the parts of a figure in brackets: "Full Gen Bias (Age, Religion)"."""
    parts: dict[str, list[str]] = {}
    for name in names:
        whole, _, part = name.partition(", ")
        parts.setdefault(whole, []).extend([part] if part else [])
    return "; ".join(f"{whole} ({', '.join(of_whole)})" if of_whole else whole for whole, of_whole in parts.items())
