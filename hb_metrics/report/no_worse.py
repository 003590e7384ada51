"""Checks whether figures became worse by more than a margin (`--no_worse_than`, a test of non-inferiority).

A figure passes if the whole interval of its paired change is on the better side of the margin (Piaggio et al., 2012,
https://doi.org/10.1001/jama.2012.87802). With 95 % intervals, a figure whose true change equals the margin passes in
2.5 % of comparisons. All figures must pass, so no correction for the number of figures is necessary.
"""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from hb_dataset.command_line import check_known, did_you_mean
from hb_metrics.layout.figure import written_change
from hb_metrics.layout.numbers import fixed, signed_share
from hb_metrics.report.changes import ChangeRow, RunChanges

_MARGIN = re.compile(r"(?P<name>[^=]+)=(?P<size>\d+\.?\d*|\.\d+)(?P<unit>%|pt|)")


class Margin(NamedTuple):
    """The margin by which a figure may become worse.

    `unit` is "%" (percent of the first run's value), "pt" (percentage points) or "" (the unit of the figure). `size` is
    a fraction for "%" and "pt". `text` is the margin as the user wrote it.
    """

    size: float
    unit: str
    text: str


class MarginVerdict(NamedTuple):
    is_shown: bool
    sentence: str


def read_margins(words: Sequence[str]) -> dict[str, Margin]:
    """Parses margins such as "dialogue_perplexity=5%". The keys of the result are the names of the figures."""
    margins: dict[str, Margin] = {}
    for word in words:
        margin = _MARGIN.fullmatch(word)
        if margin is None or margin["name"] in margins:
            raise ValueError(
                f"no_worse_than contains '{word}'; write each figure once, as figure=margin, for example "
                "dialogue_perplexity=5% (percent of the first run's value), offensive_replies=0.5pt (percentage "
                "points) or full_gen_bias_debiased=2 (in the figure's unit)"
            )
        size = float(margin["size"]) / (100 if margin["unit"] else 1)
        margins[margin["name"]] = Margin(size, margin["unit"], margin["size"] + margin["unit"])
    return margins


def check_margins(margins: Mapping[str, Margin], units: Mapping[str, str]) -> None:
    """Checks margins before any run exists. `units` are those of `Measurement.margin_units`."""
    for name, margin in margins.items():
        fault = f"no_worse_than names the figure '{name}', which the runs do not have or whose changes have no interval"
        check_known(name, units, fault)
        _check_unit(name, margin, units[name])


def _check_unit(name: str, margin: Margin, unit: str) -> None:
    if margin.unit not in ("%", unit):
        raise ValueError(
            f"no_worse_than contains {name}={margin.text}, but the figure is {'' if unit else 'not '}a share; write, "
            f"for example, {name}=1{unit} or {name}=5%"
        )


def verdicts(changes: RunChanges, margins: Mapping[str, Margin]) -> list[MarginVerdict]:
    rows = {row.key: row for row in changes.rows if not row.figure.part_of}
    allowed = [row.key for row in changes.main]
    judged = []
    for name, margin in margins.items():
        if name not in rows:
            raise ValueError(
                f"no_worse_than names the figure '{name}', which is missing from {changes.before} or {changes.after}; "
                f"{did_you_mean(name, allowed)}allowed: {', '.join(allowed)}"
            )
        if rows[name].is_never_paired:
            raise ValueError(
                f"no_worse_than names the figure '{name}', which would never pass, because its changes have no "
                f"interval; allowed: {', '.join(allowed)}"
            )
        judged.append(_verdict(rows[name], margin, changes))
    return judged


def _verdict(row: ChangeRow, margin: Margin, changes: RunChanges) -> MarginVerdict:
    _check_unit(row.key, margin, "pt" if row.is_share else "")
    bounds = row.change.relative_interval if margin.unit == "%" else row.change.interval
    if bounds is None:
        why = (
            "its change in percent has no interval, because its value in the first run is not clearly above 0 or its "
            "variance is unknown"
        )
        if row.change.interval is None:
            why = f"its change has no interval ({row.change.reason})"
        return MarginVerdict(False, f"{row.name} of {changes.after} may be more than {margin.text} worse: {why}")
    # The signs of changes that are losses.
    losses = {True: (-1,), False: (1,), None: (-1, 1)}[row.figure.higher_is_better]
    loss, worst = max((sign * bound, bound) for sign in losses for bound in bounds)
    is_shown = loss <= margin.size
    # Percent and points are shown with two decimals. With fewer, a rounded bound could look equal to the margin.
    shown = written_change(worst, row.figure.unit)
    if margin.unit == "%":
        shown = f"{fixed(100 * worst, 2, '+')} %"
    elif margin.unit == "pt":
        shown = f"{signed_share(worst, 2)} points"
    end = "lower" if worst == bounds[0] else "upper"
    scope = f" (compared for {row.change.scope})" if row.change.scope else ""
    return MarginVerdict(
        is_shown,
        f"{row.name} of {changes.after} {'is at most' if is_shown else 'may be more than'} {margin.text} worse: the "
        f"{end} end of the interval for its change is {shown}{scope}",
    )
