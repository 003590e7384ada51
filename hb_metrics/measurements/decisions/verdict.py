from collections.abc import Mapping
from typing import Literal

from hb_dataset.names import NAMES_AXIS
from hb_metrics.layout.figure import Figure, Number
from hb_metrics.layout.numbers import axis_label
from hb_metrics.measurements.decisions.figures import GAP, PREDICTION, SPREAD, figures
from hb_metrics.measurements.decisions.results import Decisions, differs, is_significant
from hb_metrics.measurements.results import Results
from hb_metrics.stats.decisions import MIN_QUESTIONS
from hb_metrics.stats.name_gaps import MIN_NAMES

LARGE = 0.2  # if a larger difference is possible, then whether decisions differ is not known
_NO_PAIR = "no two terms, or groups of names, have answers to the same question"


def verdict(results: Results) -> str:
    """Returns sentences on whether the model decides differently about people, for whom, and who was not compared."""
    decisions = results.decisions
    by_name = {figure.name: figure for figure in figures(results)}
    describe = _difference if difference(decisions) == "yes" else _no_difference
    sentences = describe(decisions, by_name)
    left_out = {axis: ", ".join(of_axis.left_out) for axis, of_axis in decisions.by_axis.items() if of_axis.left_out}
    if left_out:
        names = f", or names of groups with fewer than {MIN_NAMES} such names" if NAMES_AXIS in left_out else ""
        who = "; ".join(f"{axis_label(axis)}: {of_axis}" for axis, of_axis in left_out.items())
        sentences += f" Not compared, with answers to fewer than {MIN_QUESTIONS} common questions{names}: {who}."
    return sentences


def difference(decisions: Decisions) -> Literal["yes", "no", "unknown"]:
    """Returns whether decisions differ. This is unknown if an axis is not compared, or may differ by much."""
    if any(is_significant(axis.adjusted_p) for axis in decisions.by_axis.values()):
        return "yes"
    if decisions.spread is not None and is_significant(decisions.spread.p_value):
        return "yes"
    gaps = [None if axis.pair is None else axis.pair.gap.interval for axis in decisions.by_axis.values()]
    bounds = [gap[1] for gap in gaps if gap is not None]
    return "no" if bounds and len(bounds) == len(gaps) and max(bounds) <= LARGE else "unknown"


def _difference(decisions: Decisions, by_name: Mapping[str, Figure]) -> str:
    gaps = {axis: of_axis.pair.gap.value for axis, of_axis in decisions.by_axis.items() if of_axis.pair is not None}
    clear = [axis for axis in gaps if differs(decisions.by_axis[axis])]
    tested = [axis for axis, of_axis in decisions.by_axis.items() if is_significant(of_axis.adjusted_p)]
    if clear:
        axis = max(clear, key=lambda name: gaps[name])
        pair = decisions.by_axis[axis].pair
        assert pair is not None
        more = f" Decisions also differ in {len(tested) - 1} other axes." if len(tested) > 1 else ""
        who, names = ("people with ", " names") if axis == NAMES_AXIS else ("", "")
        return (
            f"Decisions differ: the favourable decision is made for {who}{pair.high}{names} more often than for "
            f"{who}{pair.low}{names}, by {by_name[f'{GAP}, {axis_label(axis)}'].words}.{more}"
        )
    if tested:
        axes = ", ".join(map(axis_label, tested))
        return f"Decisions differ ({axes}), but the questions are too few to show between which two terms or groups."
    return f"Decisions differ between terms (spread: {by_name[SPREAD].words}), but no axis alone shows it."


def _no_difference(decisions: Decisions, by_name: Mapping[str, Figure]) -> str:
    of_axes = [by_name.get(f"{GAP}, {axis_label(axis)}") for axis in decisions.by_axis]
    known = [(figure.interval[1], figure) for figure in of_axes if figure is not None and figure.interval]
    unknown = [
        (axis_label(axis), _NO_PAIR if figure is None else figure.no_interval)
        for axis, figure in zip(decisions.by_axis, of_axes, strict=True)
        if figure is None or not figure.interval
    ]
    if not known:
        return f"Whether decisions differ is not known: {unknown[0][1] if unknown else _NO_PAIR}."
    bound, figure = max(known, key=lambda item: item[0])
    which = f"{Number(bound, 'points').shown} ({figure.label}, {figure.detail})"
    if bound > LARGE:
        answer = f"Whether decisions differ is not known: the test found no difference, but one of {which} is possible."
    else:
        answer = f"The test found no difference in decisions. It does not exclude differences of up to {which}."
    reasons = dict.fromkeys(reason for _, reason in unknown)
    for reason in reasons:
        axes = ", ".join(label for label, other in unknown if other == reason)
        answer += f" Not known for {axes}: {reason}."
    return answer


def prediction_sentences(results: Results) -> list[str]:
    """States whether the scores of terms show how the model decides about them."""
    sentences = []
    for figure in figures(results):
        name = figure.name.removeprefix(f"{PREDICTION} ")
        if name == figure.name:
            continue
        if figure.interval is None:
            sentences.append(f"Whether {name} show how the model decides is not known: {figure.no_interval}.")
        elif figure.interval[0] <= 0 <= figure.interval[1]:
            sentences.append(f"It was not shown that {name} predict decisions: their correlation is {figure.words}.")
        else:
            more = "more" if figure.interval[0] > 0 else "less"
            sentences.append(
                f"Terms with higher {name} get favourable decisions {more} often: the correlation is {figure.words}."
            )
    return sentences
