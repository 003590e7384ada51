"""Gates: limits of figures (`--fail_above`) that make a run fail once its report is written."""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from hb_dataset.hints import did_you_mean
from hb_metrics.measurements.measurement import Measurement
from hb_metrics.measurements.settings import Settings

GATE_STATUS = 3  # the exit status of a run with a figure above its limit, or one that cannot be judged

FORM_ERROR = "fail_above is {text!r}, with {part!r}; write figure=limit, separated by commas, as in full_gen_bias=12"
ABOVE = "{name} is above its limit {limit:g}: {shown}"
NOT_JUDGED = "{name} cannot be judged against its limit {limit:g}: {why}"
NO_VALUE = "this run has no value of it"
NEVER_ABOVE = "it is a share, which is never above 1; 2% is written 0.02"


class GateError(Exception):
    """A figure is above its limit, or cannot be judged; the report is there."""


def read_gates(text: str | None) -> dict[str, float]:
    """Name of each figure → its limit.

    Args:
        text: `name=limit`, separated by commas, or the same as a JSON object; `None`: no limits.

    Raises:
        ValueError: It is not of that form, or names a figure twice.
    """
    if text is None:
        return {}
    if text.lstrip().startswith("{"):  # a mapping in a YAML file of options
        try:
            parts = [f"{name}={limit}" for name, limit in json.loads(text).items()]
        except ValueError as error:
            raise ValueError(FORM_ERROR.format(text=text, part=text)) from error
    else:
        parts = text.split(",")
    gates: dict[str, float] = {}
    for part in parts:
        name, _, number = part.partition("=")
        try:
            limit = float(number)
        except ValueError as error:
            raise ValueError(FORM_ERROR.format(text=text, part=part)) from error
        if not math.isfinite(limit) or not name.strip():
            raise ValueError(FORM_ERROR.format(text=text, part=part))
        if name.strip() in gates:
            raise ValueError(f"fail_above names the figure '{name.strip()}' twice; give one limit")
        gates[name.strip()] = limit
    return gates


def check_gates(settings: Settings, measurements: Sequence[Measurement]) -> dict[str, float]:
    """The limits of a run, all of figures that these measurements have.

    Raises:
        ValueError: One is of another figure; the message lists those allowed.
    """
    gates = read_gates(settings.run.fail_above)
    allowed = [name for measurement in measurements for name in measurement.gate_names(settings)] if gates else []
    for name in gates:
        if name not in allowed:
            hint = did_you_mean(name, allowed)
            raise ValueError(
                f"fail_above names the figure '{name}', which this run does not have; {hint}allowed: "
                f"{', '.join(allowed)}"
            )
    return gates


def exceeded(results: Mapping[str, Any], measurements: Sequence[Measurement], gates: Mapping[str, float]) -> list[str]:
    """A sentence for each figure that is above its limit, or cannot be judged.

    What counts is the upper end of its interval, or the value of a figure that never has one. A figure whose interval
    could not be estimated is not judged by its value, which may be far off.
    """
    figures = {
        figure.key: figure
        for measurement in measurements
        if measurement.name in results
        for figure in measurement.figures(results)
        if figure.key is not None
    }
    sentences = []
    for name, limit in gates.items():
        figure = figures.get(name)
        if figure is None or figure.value is None or not math.isfinite(figure.value):
            sentences.append(NOT_JUDGED.format(name=name, limit=limit, why=NO_VALUE))
        elif figure.unit in ("share", "small_share") and limit >= 1:  # it was meant in percent
            sentences.append(NOT_JUDGED.format(name=name, limit=limit, why=NEVER_ABOVE))
        elif figure.interval is None and figure.confidence_level is not None:  # it was to have one
            why = f"it is {figure.value:.6g}, and its interval could not be estimated from so few replies"
            sentences.append(NOT_JUDGED.format(name=name, limit=limit, why=why))
        elif figure.interval is None:
            if figure.value > limit:
                shown = f"it is {figure.value:.6g}, and has no interval"
                sentences.append(ABOVE.format(name=name, limit=limit, shown=shown))
        elif figure.interval[1] > limit:
            low, high = figure.interval
            shown = f"it is {figure.value:.6g}, with an interval from {low:.6g} to {high:.6g}"
            sentences.append(ABOVE.format(name=name, limit=limit, shown=shown))
    return sentences
