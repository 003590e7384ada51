from collections.abc import Sequence
from typing import Any

from hb_metrics.layout import paper
from hb_metrics.layout.figure import PLAIN, Figure, Number, estimated, pair
from hb_metrics.layout.numbers import axis_label, bias, counted, p_words, share
from hb_metrics.measurements.generation.name_groups import NameGroups
from hb_metrics.measurements.generation.results import Generation, RefusalShares, Turns
from hb_metrics.measurements.generation.styles import Biases
from hb_metrics.measurements.identity_leakage import Leakage
from hb_metrics.measurements.results import Results
from hb_metrics.measurements.shares import (
    change_figure,
    group_figures,
    reply_share,
    share_below,
    shares_by_axis,
    turn_share_figures,
)
from hb_metrics.run.record import ALPHA, CONFIDENCE_LEVEL, GenerationSettings
from hb_metrics.stats.changes import PairedChange
from hb_metrics.stats.gen_bias import ByMetric, GenBias

AXES = "Full Gen Bias by axis"
NOUNS = "Bias between nouns by gender"
UPTAKE = "Replies that name the term"
TELLING = "Replies whose style tells the term"
CLUSTER_METRICS = {"Partial Gen Bias": "partial_gen_bias", "Summed-Cluster Gen Bias": "summed_cluster_gen_bias"}
BY_TURN = "Full Gen Bias by turn"
REFUSALS = "Refusals"
EMPTY = "Empty replies"
_PRINTED = {
    "by_axis": paper.PRINTED.gen_bias_by_axis,
    "partial_gen_bias": paper.PARTIAL_GEN_BIAS,
    "summed_cluster_gen_bias": paper.SUMMED_CLUSTER_GEN_BIAS,
}
# Later turns are tested together at this level. The tests are two-sided, but only one side counts.
ALPHA_OF_TURNS = ALPHA / 4
SIZES = {0.54: "very small", 0.6: "small", 0.655: "medium"}
_VARIES = "The dependence of reply styles on the term in the prompt"
_MEANING = {
    "refusals": "The share of replies in which the model declines to respond to the prompt.",
    "disclaimers": "The share of replies in which the model states that it is an AI.",
}


def figures(results: Results) -> list[Figure]:
    generation = results.generation
    kinds: dict[str, RefusalShares] = vars(generation.refusals)
    return [
        *_full(generation, results.record.generation),
        *_telling(generation),
        *([names_figure(generation.name_groups)] if generation.name_groups else []),
        *_nouns(generation),
        *_whole_replies(generation),
        *_axes(generation),
        *_clusters(generation),
        *shares_by_axis(UPTAKE, generation.uptake, higher_is_better=True),
        *(row for kind, shares in kinds.items() for row in shares_by_axis(kind.capitalize(), shares)),
        *(row for kind, shares in kinds.items() for row in group_figures(kind.capitalize(), shares.groups)),
        *([] if generation.empty is None else _empty(generation, generation.empty)),
        *(turn_figures(generation.turns) if generation.turns else []),
    ]


def _full(generation: Generation, asked: GenerationSettings) -> list[Figure]:
    plain, debiased = generation.gen_bias, generation.debiased
    noise, scale = plain.noise_floor, f"{plain.scale:g}"
    number = f"{plain.mean_replies_per_cell:.3g}"
    per_cell = f"{number} {'reply' if number == '1' else 'replies'} per cell"
    common = (
        f"×{scale}, ddof {plain.ddof}",
        per_cell,
        *counted(generation.num_empty_replies, "empty replies left out"),
        *counted(generation.num_filtered_replies, "replies removed by a content filter of the server"),
        *counted(asked.num_left_out_prompts, "prompts left out that cannot be the cue"),
        *counted(generation.num_unclosed_reasoning, "prompts without a reply because of an unfinished thought"),
        *counted(generation.num_invented_turns, "replies whose text after the model's turn was removed"),
        *counted(plain.num_missing_cells, "cells without a reply"),
        *counted(len(plain.skipped_templates), "templates skipped"),
    )
    figures = []
    if debiased is not None:
        full = _figure(
            generation,
            "Full Gen Bias, debiased",
            "full_gen_bias",
            meaning=f"{_VARIES}, minus the estimated sampling noise (×{scale}). 0 means no dependence.",
            beside={},
            detail=_own_part(generation.identity_leakage),
            task="full_gen_bias_debiased",
        )
        bounds = full.interval
        known = () if bounds is None else (f"{CONFIDENCE_LEVEL:.0%} interval {bounds[0]:.6g} to {bounds[1]:.6g}",)
        figures.append(full._replace(notes=(*known, f"less a sampling noise of {noise:.4g}", *common)))
    if noise is None:
        with_noise, detail = "sampling noise unknown", per_cell
    else:
        with_noise = f"including sampling noise of about {noise:.4g}"
        detail = f"of which about {bias(noise)} is sampling noise"
    figures.append(
        Figure(
            "Full Gen Bias, plain",
            plain.full_gen_bias,
            "bias",
            f"{_VARIES}, computed with the paper's formula. The value is based on {per_cell} ({with_noise}).",
            printed=paper.FULL_GEN_BIAS,
            detail=detail,
            task="full_gen_bias",
            notes=(with_noise, *common),
        )
    )
    return figures


def _telling(generation: Generation) -> list[Figure]:
    meaning = (
        "The share of replies whose style is nearer to their own term's style than to another term's, averaged over "
        "all pairs of terms. Styles are learnt from replies to other templates. Guessing gives 50%."
    )
    figure = estimated(TELLING, generation.telling, "share", meaning=meaning, detail="guessing gives 50%")
    return [] if figure.value is None else [figure._replace(interval=pair(figure.interval))]


def _nouns(generation: Generation) -> list[Figure]:
    meaning = (
        "Debiased Full Gen Bias with nouns in place of terms. It shows how much the style of replies depends on the "
        "noun."
    )
    rows = [estimated("Bias between nouns", generation.nouns, "bias", meaning=meaning)]
    for gender, of_gender in generation.nouns.by_gender.items():
        rows.append(estimated(f"Bias between nouns, {gender}", of_gender, "bias", part_of=NOUNS, is_main=False))
    return [row for row in rows if row.value is not None]


def _whole_replies(generation: Generation) -> list[Figure]:
    figures = [
        reply_share(
            UPTAKE,
            generation.uptake,
            meaning="The share of replies that name the prompt's term. A model that ignores the term has little bias, "
            "but it also does not respond to the person.",
            higher_is_better=True,
        ),
        Figure(
            "Parroting replies",
            generation.parroting.parroting_share,
            "share",
            "The share of replies that repeat the prompt, and therefore the prompt's style.",
            generation.parroting.interval,
            gate="parroting_replies",
        ),
    ]
    for kind, of_kind in vars(generation.refusals).items():
        figures.append(reply_share(kind.capitalize(), of_kind, meaning=_MEANING[kind]))
    per_cell = f"{generation.gen_bias.mean_replies_per_cell:.3g} per term and template"
    return [*figures, Figure("Replies", generation.num_replies, "count", is_main=False, detail=per_cell)]


def _axes(generation: Generation) -> list[Figure]:
    rows = []
    for axis, value in (generation.gen_bias.by_axis or {}).items():
        if value is not None:
            row = _figure(generation, f"Full Gen Bias, {axis_label(axis)}", "by_axis", axis)
            meaning = "Full Gen Bias among the terms of the axis."
            rows.append(row._replace(part_of=AXES, is_main=False, meaning=meaning, printed=_printed("by_axis", axis)))
    return sorted(rows, key=lambda row: -(row.known or 0.0))


def _clusters(generation: Generation) -> list[Figure]:
    kind = "plain" if generation.debiased is None else "debiased"
    rows = []
    for heading, metric in CLUSTER_METRICS.items():
        is_partial = metric == "partial_gen_bias"
        meaning = f"The part of {kind} Full Gen Bias that comes from these styles." if is_partial else ""
        for cluster in generation.gen_bias.clusters or {}:
            row = _figure(generation, f"{heading}, {cluster}", metric, cluster, printed=_printed(metric, cluster))
            rows.append(row._replace(part_of=f"{heading} by cluster", is_main=is_partial, meaning=meaning))
    return rows


def style_figures(generation: Generation, number: int) -> list[Figure]:
    rows = []
    for style in generation.styles:
        row = _figure(generation, style.style, "by_style", style.style)
        mean, variance = Number(style.mean, "small_share"), Number(style.variance, "effect")
        rows.append(row._replace(beside={**row.beside, "mean probability": mean, "variance across terms": variance}))
    return sorted(rows, key=lambda row: -(row.known or 0.0))[:number]


def names_figure(groups: NameGroups) -> Figure:
    names = ", ".join(f"{group} {number}" for group, number in groups.num_names.items())
    if groups.p is not None:
        names += f"; variance between names of the same group {bias(groups.within)}; {p_words(groups.p)}"
    if number := groups.num_left_out:
        names += f"; {number} of {number + groups.num_questions} questions left out, because a name lacks a reply"
    meaning = (
        "Debiased Full Gen Bias with groups of names in place of terms. The variance between names of the same group "
        "is subtracted."
    )
    return estimated("Bias between groups of names", groups, "bias", meaning=meaning, detail=names)


def _empty(generation: Generation, empty: RefusalShares) -> list[Figure]:
    meaning = (
        "The share of prompts without a reply: the model wrote nothing, a filter removed the reply, or a thought did "
        "not end."
    )
    by_turn = generation.empty_by_turn
    return [
        reply_share(EMPTY, empty, meaning=meaning, gate="empty_replies"),
        *shares_by_axis(EMPTY, empty),
        *group_figures(EMPTY, empty.groups),
        *([] if by_turn is None else turn_share_figures(EMPTY, by_turn)),
    ]


def turn_figures(turns: Turns) -> list[Figure]:
    last = len(turns.by_turn)
    notes = counted(turns.num_ended, "conversations left out because a later turn has no reply")
    figures = [
        _figure(of_turn, f"{BY_TURN}, turn {turn}", "full_gen_bias", part_of=BY_TURN, notes=notes)
        for turn, of_turn in enumerate(turns.by_turn, start=1)
    ]
    if turns.change is not None:
        figures.append(change_figure(f"Full Gen Bias, change from turn 1 to turn {last}", turns.change, "bias"))
        figures += _axes_at_last(turns)
    for turn, of_turn in enumerate(turns.name_groups or [], start=1):
        figure = names_figure(of_turn)
        name = f"{figure.name} by turn"
        figures.append(figure._replace(name=f"{name}, turn {turn}", part_of=name))
    figures += turn_share_figures(UPTAKE, turns.uptake, higher_is_better=True)
    figures += turn_share_figures(REFUSALS, turns.refusals)
    return [figure._replace(is_main=False) for figure in figures]


def _axes_at_last(turns: Turns) -> list[Figure]:
    heading, rows = by_axis_heading(len(turns.by_turn)), []
    for axis, change in turns.change_by_axis.items():
        first, row = (
            _figure(of_turn, f"Full Gen Bias at turn {len(turns.by_turn)}, {axis_label(axis)}", "by_axis", axis)
            for of_turn in (turns.by_turn[0], turns.by_turn[-1])
        )
        beside = {
            "at turn 1": Number(first.value, "bias", first.interval),
            "change": Number(change.change, "bias", change.interval),
        }
        rows.append(row._replace(part_of=heading, beside=beside))
    return sorted(rows, key=lambda row: -(row.value or 0.0))


def by_axis_heading(last: int) -> str:
    return f"Full Gen Bias at turn {last} by axis"


def _printed(metric: str, part: str) -> dict[str, float | None]:
    return {model: of_model.get(part) for model, of_model in _PRINTED[metric].items()}


def _figure(biases: Biases, name: str, *path: str, **more: Any) -> Figure:
    plain = biases.gen_bias
    return Figure(
        name,
        value_at(biases.debiased, path),
        "bias",
        interval=pair(value_at(plain.intervals, path)),
        no_interval=value_at(plain.no_intervals, path),
        **{"beside": {PLAIN: Number(value_at(plain, path), "bias")}, **more},
    )


def value_at(values: GenBias | ByMetric[Any] | None, path: tuple[str, ...]) -> Any:
    """Returns what `path` names: a metric and, for a part of it, the cluster, axis or style."""
    content: Any = None if values is None else values._asdict()
    for key in path:
        content = None if content is None else content.get(key)
    return content


def _own_part(leakage: Leakage | None) -> str:
    if leakage is None or leakage.in_replies is None:
        return ""
    own = leakage.in_replies.own
    return f"{bias(abs(own))} {'lower' if own >= 0 else 'higher'} if terms in replies are masked"


def telling_sentence(telling: Figure) -> str:
    """Describes the size of a difference, in the words for Cohen's d (0.2, 0.5, 0.8), whose share is Φ(d / 2)."""
    text = (
        f"Told to which of two people the model may have replied, one can tell from the style of a single reply in "
        f"{telling.words} of cases"
    )
    if telling.interval is None or telling.interval[0] <= 0.5:
        return f"{text}; guessing gives 50%."
    size = next((word for bound, word in SIZES.items() if telling.value is not None and telling.value < bound), "large")
    return f"{text}; guessing gives 50%. A difference of this size is called {size}."


def clear_figures(figures: Sequence[Figure], alpha: float) -> list[Figure]:
    """Returns the figures that are above 0, although all of them were tested (Bonferroni).

    `alpha` is the level of two-sided tests.
    """
    clear = []
    known = [figure for figure in figures if figure.interval is not None]
    for figure in known:
        assert figure.value is not None
        assert figure.interval is not None
        if figure.interval[0] > max(0.0, figure.value * share_below(alpha / len(known))):
            clear.append(figure)
    return clear


def clear_turns(turns: Turns) -> list[int]:
    """Returns the turns after the first in which style clearly differs between terms, or between groups of names."""
    later = range(2, len(turns.by_turn) + 1)
    if turns.name_groups is not None:
        p_values = {turn: turns.name_groups[turn - 1].p for turn in later}
        return [turn for turn, p in p_values.items() if p is not None and p < ALPHA_OF_TURNS / 2 / len(later)]
    figures = [_figure(turns.by_turn[turn - 1], f"{turn}", "full_gen_bias") for turn in later]
    return [int(figure.name) for figure in clear_figures(figures, ALPHA_OF_TURNS)]


def turn_sentences(generation: Generation, turns: Turns) -> list[str]:
    """States whether replies depend on the user at the last turn (or the last turn at which they clearly do)."""
    last, clear = len(turns.by_turn), clear_turns(turns)
    first = value_at(generation.gen_bias.intervals, ("full_gen_bias",))
    still = " still" if first is not None and first[0] > 0 else ""
    if turns.change is None:
        return [
            "In at least one template, no term has a second reply, so the sampling noise is unknown. It is therefore "
            f"unknown whether replies{still} depend on the user's identity at turn {last}."
        ]
    change = change_figure("", turns.change, "bias")
    turn = last if still else max(clear, default=last)
    value, at_turn = _figure(turns.by_turn[turn - 1], "", "full_gen_bias"), f"At turn {turn}, "
    axes = (value_at(generation.gen_bias.intervals, ("by_axis",)) or {}).values()
    is_same = first is not None and not any(bounds is not None and bounds[0] > 0 for bounds in axes)
    on, but = "on the user's identity", ", although no dependence was found at turn 1" if is_same else ""
    if value.interval is None:
        sentence = f"It is unknown whether replies{still} depend {on} at turn {turn}: {value.words}."
    elif value.interval[0] <= 0:
        sentence = f"{at_turn}no dependence of replies {on} was found beyond chance: {value.words}."
    elif still:
        ratio = _ratio(turns.change) if turn == last else ""
        sentence = f"{at_turn}replies still depend {on}: {value.words}{ratio}."
    elif turn in clear:
        sentence = f"{at_turn}replies depend {on}{but}: {value.words}."
    else:
        sentence = (
            f"{at_turn}replies may depend {on}{but}: {value.words}. As several turns were tested, this may be chance."
        )
    return [sentence, f"{_since(turns, change)}."]


def _since(turns: Turns, change: Figure) -> str:
    last = len(turns.by_turn)
    if change.interval is None:
        return f"The change from turn 1 to turn {last} is unknown: {change.no_interval}"
    low, high = change.interval
    if low <= 0 <= high:
        words = f"did not change beyond chance: {change.words}"
    elif high < 0:
        words = f"fell by {change._replace(value=-(change.value or 0.0), interval=(-high, -low)).words}"
    else:
        words = f"grew by {change.words}"
    return f"From turn 1 to turn {last}, Full Gen Bias {words}"


def _ratio(change: PairedChange) -> str:
    if change.relative_interval is None:
        return ""
    low, high = (share(1 + bound, 0) for bound in change.relative_interval)
    return f", {share(change.second / change.first, 0)} ({low} to {high}) of the value at turn 1"
