"""Compares a run's figures with the limits set by `--fail_above` and `--until`. The code calls these limits gates.

If a figure exceeds its limit, the run fails after it has written its report.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from hb_dataset.hints import check_known
from hb_metrics.measurements.measurement import Measurement
from hb_metrics.measurements.settings import Settings
from hb_metrics.report.layout.figure import Figure
from hb_metrics.report.layout.numbers import share

GATE_STATUS = 3  # the exit status of a run for which `exceeded` returns a sentence

_QUESTIONS = ("full_gen_bias", "half_width(full_gen_bias)")


class GateError(Exception): ...


def read_gates(text: str | None) -> dict[str, float]:
    """Parses the value of `--fail_above`, such as "full_gen_bias=12". Returns the limits by the name of the figure."""
    gates: dict[str, float] = {}
    for part in [] if text is None else text.split(","):
        name, limit = _name_and_limit(part, "=")
        if not math.isfinite(limit) or not name or name in gates:
            raise ValueError(
                f"fail_above contains {part!r}; write each limit as figure=limit, such as full_gen_bias=12, separate "
                "limits with commas, and set only one limit per figure"
            )
        gates[name] = limit
    return gates


class Until(NamedTuple):
    """The condition of `--until`: Full Gen Bias, or the half-width of its interval, is below a limit."""

    text: str
    is_half_width: bool
    limit: float


def read_until(text: str) -> Until:
    name, limit = _name_and_limit(text, "<")
    if name not in _QUESTIONS or not 0 < limit < math.inf:
        raise ValueError(
            f"until is {text!r}, which is not a valid condition; write, for example, 'full_gen_bias<12' or "
            "'half_width(full_gen_bias)<2', with a limit above 0"
        )
    return Until(text, name == _QUESTIONS[1], limit)


def until_sentence(until: Mapping[str, Any]) -> str:
    question = read_until(until["question"])
    subject = "The half-width of the Full Gen Bias interval" if question.is_half_width else "Full Gen Bias"
    look, limit = f"look {until['look']} of {until['num_looks']}", f"{question.limit:g}"
    if until["answer"] is None and question.is_half_width:
        return f"{subject} is not below {limit}, even with all replies ({look})."
    if until["answer"] is None:
        return f"It is undecided whether {subject} is below {limit}, even with all replies ({look})."
    verb = "is" if until["answer"] else "is not"
    return f"{subject} {verb} below {limit}: the run stopped at {look}, with {share(until['share'])} of the replies."


def _name_and_limit(text: str, sign: str) -> tuple[str, float]:
    name, _, number = (word.strip() for word in text.partition(sign))
    try:
        return name, float(number)
    except ValueError:
        return name, math.nan


def check_gates(settings: Settings, measurements: Sequence[Measurement]) -> dict[str, float]:
    if settings.run.until is not None:
        read_until(settings.run.until)
        if "generation" not in [measurement.name for measurement in measurements]:
            raise ValueError(
                f"until is {settings.run.until!r}, but this run does not measure generation; add generation to "
                "--measurements, or remove --until"
            )
    gates = read_gates(settings.run.fail_above)
    allowed = [name for measurement in measurements for name in measurement.gate_names(settings)] if gates else []
    for name in gates:
        check_known(name, allowed, f"fail_above names the figure '{name}', which this run does not have")
    return gates


def exceeded(results: Mapping[str, Any], measurements: Sequence[Measurement], gates: Mapping[str, float]) -> list[str]:
    """Returns a sentence for each figure that exceeds its limit or that cannot be compared with it.

    The limit is compared with the upper end of the figure's interval. For a gap ("signed"), it is compared with the end
    that is further from 0. If figures of a kind never have an interval, their values are compared. If only this
    figure's interval could not be computed, the figure cannot be compared. If the condition of `--until` was missed, a
    sentence about it is added.
    """
    figures: dict[str | None, Figure] = {}
    for measurement in measurements:
        if measurement.name in results:
            figures |= {figure.key: figure for figure in measurement.figures(results)}
    sentences = []
    for name, limit in gates.items():
        figure = figures.get(name)
        why = shown = None
        if figure is None or figure.value is None or not math.isfinite(figure.value):
            why = "this run has no value for it"
        elif figure.unit in ("share", "small_share") and limit >= 1:  # the limit was meant in percent
            why = "the figure is a share, which is never above 1; write 2% as 0.02"
        elif figure.interval is None and figure.confidence_level is not None:
            why = f"its value is {figure.value:.6g}, and its interval could not be estimated from so few replies"
        elif figure.interval is None:
            shown = f"its value is {figure.value:.6g}, and it has no interval" if figure.value > limit else None
        elif max(map(abs, figure.interval) if figure.unit == "signed" else figure.interval) > limit:
            low, high = figure.interval
            shown = f"its value is {figure.value:.6g}, with an interval from {low:.6g} to {high:.6g}"
        if why is not None:
            sentences.append(f"{name} cannot be judged against its limit {limit:g}: {why}")
        if shown is not None:
            sentences.append(f"{name} is above its limit {limit:g}: {shown}")
    until = results.get("generation", {}).get("until")
    if until is not None and until["answer"] is not True:
        sentences.append(until_sentence(until))
    return sentences
