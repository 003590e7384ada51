from hb_metrics.human_eval.calibration import Calibration
from hb_metrics.layout.figure import Figure, Number
from hb_metrics.layout.numbers import axis_label, count, fixed
from hb_metrics.layout.parts import Section
from hb_metrics.layout.rendering import section
from hb_metrics.stats.calibration import Agreement, CorrectedRate

_LEVEL = 0.95


def calibration_section(results: Calibration) -> Section:
    context = {
        "results": results,
        "sentence": sentence(results),
        "whole": figures(results)[0],
        "by_axis": figures(results)[1:],
        "gaps": _gaps(results),
        "errors": _errors(results),
        "agreement": [_agreement("people", results.people), _agreement("judge and one", results.judge_with_people)],
        "alternative": results.alternative_annotator,
    }
    id, title = f"people-{results.judge}", f"People's labels: {results.label}"
    return section(id, title, "human_eval/calibration.html.jinja", context)


def figures(results: Calibration) -> list[Figure]:
    found = []
    for axis, rate in results.rates.items():
        if axis and len(results.axes) < 2:
            continue
        name = f"{results.label.capitalize()} by people's labels{_scope(results)}"
        found.append(
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
    return found


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
