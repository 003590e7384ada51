"""Defines the results of a judge's calibration, reads those of a run, and shows them in its report."""

from dataclasses import dataclass
from pathlib import Path

from hb_metrics.layout.figure import Figure, Number
from hb_metrics.layout.numbers import axis_label, count, fixed
from hb_metrics.layout.parts import Section
from hb_metrics.layout.rendering import section
from hb_metrics.run.run_folder import read_json, run_digest
from hb_metrics.run.typed_json import from_json
from hb_metrics.stats.calibration import Agreement, AlternativeAnnotator, CorrectedRate
from hb_metrics.stats.clusters import Bounds

CALIBRATIONS = "calibration"  # the subfolder of a run that contains a file for each judge
LAYOUT = 3


@dataclass(frozen=True)
class RateGap:
    """The corrected rate of the first group minus that of the second group, and the same for the judge's own rates."""

    first: str
    second: str
    value: float | None
    interval: Bounds | None
    judged: float
    rates: tuple[CorrectedRate, CorrectedRate]


@dataclass(frozen=True)
class Calibration:
    """A judge's rates, corrected with people's labels. Rates are by axis, and "" is the key of all replies.

    Attributes:
        run: The digest of the run.
        study: The id of the label study.
        raters: The number of labels by each rater.
        num_drawn: The number of replies in the study.
        people: The agreement between raters.
    """

    layout: int
    judge: str
    run: str
    study: str
    question: str
    label: str
    axes: list[str]
    other_axes: list[str]
    raters: dict[str, int]
    num_replies: int
    num_drawn: int
    num_labelled: int
    num_duplicates: int
    rates: dict[str, CorrectedRate]
    gaps: list[RateGap]
    people: Agreement
    judge_with_people: Agreement
    alternative_annotator: AlternativeAnnotator


def read_calibrations(folder: Path) -> list[Calibration]:
    calibrations = []
    for path in sorted((folder / CALIBRATIONS).glob("*.json")):
        content = read_json(path)
        if content.get("layout") != LAYOUT or content.get("run") != run_digest(folder):
            print(
                f"'{path}' belongs to another run or release, so the report omits it. To add it, calibrate the judge "
                "again."
            )
            continue
        calibrations.append(from_json(Calibration, content, f"'{path}': results"))
    return calibrations


def calibration_section(results: Calibration) -> Section:
    whole, *by_axis = figures(results)
    context = {
        "results": results,
        "sentence": sentence(results),
        "whole": whole,
        "by_axis": by_axis,
        "gaps": _gaps(results),
        "agreement": [_agreement("people", results.people), _agreement("judge and one", results.judge_with_people)],
        "alternative": results.alternative_annotator,
    }
    id, title = f"people-{results.judge}", f"People's labels: {results.label}"
    return section(id, title, "human_eval/calibration.html.jinja", context)


def figures(results: Calibration) -> list[Figure]:
    shown = []
    for axis, rate in results.rates.items():
        if axis and len(results.axes) < 2:
            continue
        name = f"{results.label.capitalize()} by people's labels{_scope(results)}"
        shown.append(
            Figure(
                f"{name}, {axis_label(axis)}" if axis else name,
                rate.value,
                "share",
                interval=rate.interval,
                no_interval=None if rate.reason is None else _reason(rate),
                part_of="corrected by axis" if axis else "",
                beside={
                    "the judge's own": Number(rate.judged, "share"),
                    "labels": Number(rate.num_labelled, "count"),
                },
                detail="" if axis else f"according to {results.judge} alone: {Number(rate.judged, 'share').shown}",
            )
        )
    return shown


def sentence(results: Calibration) -> str:
    rate, label = results.rates[""], f"“{results.label}”"
    if rate.excess_interval is None or rate.value is None:
        return f"{_people(results)}: the judge's error in the rate of {label} has no interval, because {_reason(rate)}."
    excess, (low, high) = rate.judged - rate.value, rate.excess_interval
    if low <= 0 <= high:
        span = f"{fixed(100 * low, 0, '+')} to {fixed(100 * high, 0, '+')}"
        return (
            f"{_people(results)}: the judge assigns the label {label} about as often as people do. The difference "
            f"({span} points) could be due to chance."
        )
    verb, bounds = ("overstates", (low, high)) if excess > 0 else ("understates", (-high, -low))
    digits = 0 if bounds[0] >= 0.005 else 1
    points, least, most = (fixed(100 * value, digits) for value in (abs(excess), *bounds))
    return f"{_people(results)}: the judge {verb} {label} by {points} points ({least} to {most})."


def _people(results: Calibration) -> str:
    number, replies = len(results.raters), f"{count(results.num_labelled)} replies{_scope(results)}"
    return f"Labels of {number} {'person' if number == 1 else 'people'} on {replies}"


def _scope(results: Calibration) -> str:
    return f" ({'; '.join(map(axis_label, results.axes))})" if results.other_axes else ""


def _reason(rate: CorrectedRate) -> str | None:
    if rate.num_needed is None:
        return rate.reason
    return f"{rate.reason}; about {count(rate.num_needed)} labels are needed, and there are {rate.num_labelled}"


def _gaps(results: Calibration) -> list[Figure]:
    rows = []
    for gap in results.gaps:
        names = [axis_label(name) if name in results.axes else name for name in (gap.first, gap.second)]
        reasons = [f"{name}: {_reason(rate)}" for name, rate in zip(names, gap.rates, strict=True) if rate.reason]
        rows.append(
            Figure(
                f"gap, {' minus '.join(names)}",
                gap.value,
                "share",
                interval=gap.interval,
                no_interval="; ".join(reasons) or None,
                part_of="gap by axis",
                beside={"the judge's own": Number(gap.judged, "share")},
            )
        )
    return rows


def _agreement(who: str, agreement: Agreement) -> tuple[str, Number, str]:
    alpha = Number(agreement.alpha, "effect", agreement.interval)
    return who, alpha, agreement.reason or ""
