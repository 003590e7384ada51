from typing import Any

from hb_metrics.layout.figure import Estimated, Figure, Number, estimated, written
from hb_metrics.layout.numbers import axis_label, count, share
from hb_metrics.measurements.decisions.results import (
    AxisDecisions,
    Decisions,
    TermPair,
    is_significant,
    left_out_reason,
    widest_pair,
)
from hb_metrics.measurements.results import Results
from hb_metrics.stats.decisions import DecisionEstimate

MEAN, SPREAD, GAP = "Favourable decisions", "Decision spread", "Largest gap in decisions"
PREDICTION, UNANSWERED = "Correlation of decisions with", "Answers without a decision"
UNANSWERED_GAP = "Largest gap in answers without a decision"
BASELINE, TERMS, TERM_GAP = "Decisions compared with no term", "Decisions by term", "Gap to the axis"


def figures(results: Results) -> list[Figure]:
    decisions = results.decisions
    clear, rows = decisions.clear_parts, _of_all(decisions)
    for axis, of_axis in decisions.by_axis.items():
        rows += _of_axis(axis_label(axis), of_axis)
    for name, pair in decisions.names_by_part.items():
        rows.append(_gap_of_part(name, pair, is_clear=name in clear))
    for name, part in decisions.by_part.items():
        gate = "decision_spread" if name in clear else None
        high, low = part.ends or ("", "")
        detail = "" if high == low else f"highest mean: {high}, lowest mean: {low}"
        heading = f"{SPREAD} by {name.split()[0]}"
        rows.append(_part(heading, f"{SPREAD}, {name}", part.spread, detail=detail, gate=gate))
    rows += [_gap_of_part(name, part.pair) for name, part in decisions.by_part.items() if part.pair is not None]
    for axis, of_axis in decisions.by_axis.items():
        rows += _of_terms(axis_label(axis), of_axis)
    if decisions.order_effect is not None:
        meaning = "The change in the mean decision if the favourable option is named first instead of last."
        rows.append(estimated("Effect of the options' order", decisions.order_effect, "points", meaning=meaning))
    for name, correlation in decisions.predictions.items():
        meaning = "The correlation of decisions with these scores over terms, without the noise of both."
        rows.append(estimated(f"{PREDICTION} {name}", correlation, "signed", meaning=meaning))
    if decisions.option_mass is not None:
        meaning = "The mean probability that the options have together. Below one half, the model would often answer "
        rows.append(Figure("Probability of the options", decisions.option_mass, "share", meaning + "something else."))
    without = decisions.num_unanswered / decisions.num_answers if decisions.num_answers else None
    detail = f"{count(decisions.num_unanswered)} of {count(decisions.num_answers)}"
    rows.append(Figure(UNANSWERED, without, "share", "No option, or several, or a refusal.", detail=detail))
    return rows


def _of_all(decisions: Decisions) -> list[Figure]:
    """Lists the figures of all axes. Spread and gap have no interval if terms were left out, which may exceed it."""
    rows = []
    if decisions.mean is not None:
        meaning = "The mean decision about people. The interval generalises to other questions of the same kind."
        detail = _on_scale(decisions, decisions.mean.value)
        rows.append(estimated(MEAN, decisions.mean, "share", meaning=meaning, detail=detail, higher_is_better=True))
    several = {axis: of_axis.pair for axis, of_axis in decisions.by_axis.items() if len(of_axis.terms) > 1}
    unknown = [axis_label(axis) for axis, pair in several.items() if pair is None or pair.gap.interval is None]
    why = left_out_reason([*decisions.left_out, *unknown]) if decisions.left_out or unknown else None
    if decisions.has_low_mass:
        why = f"the options have only {share(decisions.option_mass, 0)} of the probability"

    def bounded(estimate: DecisionEstimate) -> DecisionEstimate:
        return estimate if why is None or estimate.interval is None else estimate._replace(interval=None, reason=why)

    if decisions.spread is not None:
        meaning = (
            "The standard deviation between the terms of an axis, in their mean decision. It would be 0 if all terms "
            "had the same decisions. The interval generalises to other questions of the same kind."
        )
        detail = f"{count(decisions.num_questions)} questions"
        spread = estimated(SPREAD, bounded(decisions.spread), "points", meaning=meaning, detail=detail)
        rows.append(spread._replace(gate="decision_spread"))
    if (widest := widest_pair(decisions.by_axis)) is not None:
        axis, pair = widest
        meaning = (
            f"The largest difference between two terms of an axis, or between two groups of names: {axis_label(axis)}, "
            f"{pair.words}. The interval takes into account that these two were chosen."
        )
        detail = _on_scale(decisions, *pair.means[::-1])
        rows.append(estimated(GAP, bounded(pair.gap), "points", meaning=meaning, detail=detail, gate="decision_gap"))
    unread = [axis.unanswered_pair for axis in decisions.by_axis.values() if axis.unanswered_pair is not None]
    if unread:
        pair = max(unread, key=lambda pair: pair.gap.value)
        meaning = f"The largest difference between two terms of an axis, or two groups of names: {pair.words}. "
        meaning += "Answers without a decision, such as refusals, are not part of the decisions."
        rows.append(estimated(UNANSWERED_GAP, pair.gap, "points", meaning=meaning, gate="unanswered_gap"))
    elif decisions.by_axis and not any(axis.unanswered for axis in decisions.by_axis.values()):
        meaning = "All answers about people have a decision."  # no limit for the gap is exceeded
        rows.append(Figure(UNANSWERED_GAP, 0.0, "points", meaning, gate="unanswered_gap"))
    return rows


def _on_scale(decisions: Decisions, *means: float) -> str:
    if decisions.scale is None:
        return ""
    numbers = " and ".join(written(decisions.scale.number(mean), "mean") for mean in means)
    return f"{numbers} on {decisions.scale.words}"


def _gap_of_part(name: str, pair: TermPair, *, is_clear: bool = True) -> Figure:
    """Returns the gap in a topic or wording. A limit for the whole run also applies to it, if it is clear."""
    heading, gate = f"{GAP} by {name.split()[0]}", "decision_gap" if is_clear else None
    return _part(heading, f"{GAP}, {name}", pair.gap, detail=pair.words, gate=gate)


def _of_axis(label: str, axis: AxisDecisions) -> list[Figure]:
    """Returns the figures of an axis. A limit for the largest gap of the run applies to each axis."""
    rows = []
    more: dict[str, Any]
    if axis.spread is not None:
        more = {"detail": f"{count(len(axis.left_out))} terms left out" if axis.left_out else ""}
        more["gate"] = "decision_spread" if is_significant(axis.adjusted_p) else None
        more["beside"] = {"adjusted p": Number(axis.adjusted_p, "p_value")}
        rows.append(_part(f"{SPREAD} by axis", f"{SPREAD}, {label}", axis.spread, **more))
    if (pair := axis.pair) is not None:
        more = {"detail": pair.words, "gate": "decision_gap"}
        if pair.ratio is not None:
            more["beside"] = {"ratio of rates": Number(pair.ratio.value, "effect", pair.ratio.interval)}
        rows.append(_part(f"{GAP} on each axis", f"{GAP}, {label}", pair.gap, **more))
    if axis.baseline is not None:
        rows.append(_part(f"{BASELINE} on each axis", f"{BASELINE}, {label}", axis.baseline))
    if (pair := axis.unanswered_pair) is not None:
        more = {"detail": pair.words, "gate": "unanswered_gap"}
        more["beside"] = {"of all answers": Number(axis.unanswered, "share"), "refusals": Number(axis.refused, "share")}
        name = f"{UNANSWERED}: largest gap"
        rows.append(_part(f"{name} on each axis", f"{name}, {label}", pair.gap, **more))
    return rows


def _of_terms(label: str, axis: AxisDecisions) -> list[Figure]:
    """Lists the gap of each term to the mean of its axis. Groups of names have only their mean decision."""
    rows = []
    for term in axis.terms:
        more: dict[str, Any] = {"part_of": TERMS, "is_main": False, "detail": f"{count(term.num_answers)} answers"}
        if term.gap is None:
            rows.append(Figure(f"{MEAN}, {term.name} ({label})", term.mean, "share", **more))
        else:
            more["beside"] = {"mean": Number(term.mean, "share"), "adjusted p": Number(term.adjusted_p, "p_value")}
            name = f"{TERM_GAP}, {term.name} ({label})"
            rows.append(estimated(name, term.gap, "points", higher_is_better=None, **more))
    return sorted(rows, key=lambda row: -(row.value or 0.0))


def _part(heading: str, name: str, estimate: Estimated, **more: Any) -> Figure:
    return estimated(name, estimate, "points", part_of=heading, is_main=False, **more)
