from collections.abc import Collection
from pathlib import Path

from hb_metrics.human_eval.analysis import FEW_RATERS, LAYOUT, HumanEvaluation
from hb_metrics.human_eval.calibration import Calibration
from hb_metrics.human_eval.pairs import REASONS
from hb_metrics.layout.figure import Figure, Number
from hb_metrics.layout.numbers import axis_label, count, fixed, share
from hb_metrics.layout.parts import Section
from hb_metrics.layout.rendering import section
from hb_metrics.run.run_folder import read_json
from hb_metrics.run.typed_json import from_json
from hb_metrics.stats.calibration import Agreement, CorrectedRate

_LEVEL = 0.95


def calibration_section(results: Calibration) -> Section:
    whole, *by_axis = figures(results)
    context = {
        "results": results,
        "sentence": sentence(results),
        "whole": whole,
        "by_axis": by_axis,
        "gaps": _gaps(results),
        "errors": _errors(results),
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
                confidence_level=_LEVEL,
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
    return f" ({', '.join(map(axis_label, results.axes))})" if results.other_axes else ""


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


def _errors(results: Calibration) -> list[Figure]:
    """Returns, for each axis, two shares of replies to which people give the label.

    The value is the share among replies to which the judge also assigns the label. The number beside the value is the
    share among all other replies.
    """
    rows = []
    for axis in results.rates if len(results.axes) > 1 else [""]:
        name = f"called so by people, {axis_label(axis) if axis else 'All'}"
        rates = [by_axis.get(axis) for by_axis in (results.called, results.not_called)]
        of_called, of_others = (Number(rate and rate.value, "share", rate and rate.interval) for rate in rates)
        beside = {"of the other replies": of_others}
        value, bounds = of_called.value, of_called.interval
        rows.append(Figure(name, value, "share", interval=bounds, part_of="right by axis", beside=beside))
    return rows


def _agreement(who: str, agreement: Agreement) -> tuple[str, Number, str]:
    alpha = Number(agreement.alpha, "effect", agreement.interval)
    return who, alpha, agreement.reason or ""


def read_results(path: Path, digests: Collection[str]) -> HumanEvaluation:
    content = read_json(path)
    if content.get("layout") != LAYOUT or "raters" not in content:
        raise ValueError(f"'{path}' contains no human evaluation; pass the file that `human-eval analyse` wrote")
    results = from_json(HumanEvaluation, content, f"'{path}': results")
    if not {run.run for run in results.runs} <= set(digests):
        names = " and ".join(run.name for run in results.runs)
        raise ValueError(
            f"'{path}' compares {names}, but at least one of them is missing from these runs; pass both of them"
        )
    return results


def human_evaluation_section(results: HumanEvaluation) -> Section:
    context = {
        "results": results,
        "before": results.runs[0].name,
        "after": results.runs[1].name,
        "sentences": answers(results),
        "left_out": [(REASONS[name], number) for name, number in results.left_out.items() if number],
        "few": results.num_raters < FEW_RATERS,
    }
    return section("human", "Human evaluation", "human_eval/section.html.jinja", context)


def answers(results: HumanEvaluation) -> list[str]:
    before, after = (run.name for run in results.runs)
    sentences = []
    for question in results.questions:
        if question.win_rate is None:
            sentences.append(f"{question.title}: there are no ratings.")
            continue
        chosen = f"{question.title}: {after} was chosen over {before} in {share(question.win_rate)} of ratings"
        if question.interval is None:
            sentences.append(f"{chosen}; there is no interval ({question.interval_reason}).")
            continue
        low, high = question.interval
        verdict = "beyond chance" if low > 0.5 or high < 0.5 else "not beyond chance"
        sentences.append(f"{chosen} ({share(low)} to {share(high)}). The difference from 50% is {verdict}.")
    return sentences
