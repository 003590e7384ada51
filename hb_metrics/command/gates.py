"""Compares a run's figures with the limits set by `--fail_above`. The code calls these limits gates.

If a figure exceeds its limit, the run fails after it has written its report.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hb_dataset.command_line import check_known
from hb_dataset.grouped import grouped
from hb_metrics.measurements.measurement import Measurement
from hb_metrics.measurements.settings import Settings
from hb_metrics.run.run_folder import write_json

if TYPE_CHECKING:
    from hb_metrics.layout.figure import Figure
    from hb_metrics.measurements.results import Results

GATE_STATUS = 3  # the exit status of a run for which `exceeded` returns a sentence

GATES_FILE = "gates.json"  # in the folder of a run with --fail_above


class GateError(Exception): ...


def read_gates(text: str | None) -> dict[str, float]:
    """Parses the value of `--fail_above`, such as "full_gen_bias=12". Returns the limits by the name of the figure."""
    gates: dict[str, float] = {}
    for part in [] if text is None else text.split(","):
        name, _, number = (word.strip() for word in part.partition("="))
        try:
            limit = float(number.removesuffix("pt")) / (100 if number.endswith("pt") else 1)
        except ValueError:
            limit = math.nan
        if not math.isfinite(limit) or not name or name in gates:
            raise ValueError(
                f"fail_above contains {part!r}; write each figure once, such as full_gen_bias=12,decision_spread=3pt"
            )
        gates[name] = limit
    return gates


def check_gates(settings: Settings, measurements: Sequence[Measurement]) -> dict[str, float]:
    gates = read_gates(settings.run.fail_above)
    allowed = [name for measurement in measurements for name in measurement.gate_names(settings)] if gates else []
    for name in gates:
        check_known(name, allowed, f"fail_above names the figure '{name}', which this run does not have")
    return gates


def write_gates(path: Path, gates: Sequence[tuple[bool, str]]) -> None:
    """Writes whether each gate was passed, and a sentence about it, for programs that read the result of a run."""
    listed = [{"passed": passed, "sentence": sentence} for passed, sentence in gates]
    write_json(path, {"passed": all(passed for passed, _ in gates), "gates": listed})


def exceeded(results: "Results", measurements: Sequence[Measurement], gates: Mapping[str, float]) -> list[str]:
    """Returns a sentence for each limit that a figure exceeds or that cannot be compared with it.

    The limit is compared with the upper end of the figure's interval. For a gap ("signed"), it is compared with the end
    that is further from 0. If figures of a kind never have an interval, their values are compared. If only this
    figure's interval could not be computed, the figure cannot be compared. A limit also applies to the parts of a
    figure that have its name in `--fail_above`, such as topics in which decisions clearly differ.
    """
    figures = grouped((figure.key, figure) for part in measurements for figure in part.figures(results))
    sentences = []
    for name, limit in gates.items():
        judged = [_exceeded(name, figure, limit) for figure in figures.get(name, [None])]
        sentences += [sentence for sentence in judged if sentence is not None][:1]
    return sentences


def _exceeded(name: str, figure: "Figure | None", limit: float) -> str | None:
    if figure is None or figure.value is None or not math.isfinite(figure.value):
        return f"{name} cannot be judged against its limit {limit:g}: this run has no value for it"
    name = f"{name} ({figure.label})" if figure.part_of else name
    why = f"{name} cannot be judged against its limit {limit:g}:"
    if figure.unit in ("share", "small_share", "points") and limit >= 1:  # the limit was meant in percent
        return f"{why} the figure is a share, which is never above 1; write 2% as 0.02"
    bounds = figure.interval
    if bounds is None and figure.no_interval:
        return f"{why} its value is {figure.value:.6g} (no interval: {figure.no_interval})"
    low, high = bounds or (figure.value, figure.value)
    value, highest = figure.value, high
    if figure.unit == "signed":
        value, highest = abs(value), max(abs(low), abs(high))
    if highest <= limit:
        return None
    verb = "is" if value > limit else "may be"
    shown = (
        "and it has no interval"
        if bounds is None
        else f"but its interval reaches from {bounds[0]:.6g} to {bounds[1]:.6g}"
    )
    return f"{name} {verb} above its limit {limit:g}: its value is {figure.value:.6g}, {shown}"
