from typing import Any

from hb_metrics.identity_leakage.leakage import Leakage
from hb_metrics.layout import paper
from hb_metrics.layout.figure import PLAIN, Figure, Number, pair
from hb_metrics.layout.numbers import axis_label, bias, counted, share
from hb_metrics.measurements.generation.turn_figures import names_figure, turn_figures
from hb_metrics.measurements.generation.typed_results import Debiased, Generation, TellingShare
from hb_metrics.measurements.group_shares import group_figures
from hb_metrics.measurements.results import Results
from hb_metrics.measurements.turn_shares import reply_share, shares_by_axis
from hb_metrics.stats.gen_bias import ByMetric, GenBias

AXES = "Full Gen Bias by axis"
NOUNS = "Bias between nouns by gender"
UPTAKE = "Replies that name the term"
TELLING = "Replies whose style tells the term"
CLUSTER_METRICS = {"Partial Gen Bias": "partial_gen_bias", "Summed-Cluster Gen Bias": "summed_cluster_gen_bias"}
KINDS = ("refusals", "disclaimers")
_PRINTED = {
    "by_axis": paper.PRINTED.gen_bias_by_axis,
    "partial_gen_bias": paper.PARTIAL_GEN_BIAS,
    "summed_cluster_gen_bias": paper.SUMMED_CLUSTER_GEN_BIAS,
}
_VARIES = "The dependence of reply styles on the term in the prompt"
_MEANING = {
    "refusals": "The share of replies in which the model declines to respond to the prompt.",
    "disclaimers": "The share of replies in which the model states that it is an AI.",
}


def figures(results: Results) -> list[Figure]:
    generation = results.generation
    return [
        *_full(generation),
        *_telling(generation.telling),
        *([names_figure(generation.name_groups)] if generation.name_groups else []),
        *_nouns(generation),
        *_whole_replies(generation),
        *_axes(generation),
        *_clusters(generation),
        *shares_by_axis(UPTAKE, generation.uptake),
        *shares_by_axis("Refusals", generation.refusals.refusals),
        *shares_by_axis("Disclaimers", generation.refusals.disclaimers),
        *group_figures("Refusals", generation.refusals.refusals.groups),
        *group_figures("Disclaimers", generation.refusals.disclaimers.groups),
        *(turn_figures(generation.turns) if generation.turns else []),
    ]


def _full(generation: Generation) -> list[Figure]:
    plain, debiased = generation.gen_bias, generation.debiased
    noise, level, scale = plain.noise_floor, plain.confidence_level, plain.scale
    number = f"{plain.mean_replies_per_cell:.3g}"
    per_cell = f"{number} {'reply' if number == '1' else 'replies'} per cell"
    common = (
        f"×{scale}, ddof {plain.ddof}",
        per_cell,
        *counted(generation.num_empty_replies, "empty replies left out"),
        *counted(generation.num_filtered_replies, "replies removed by a content filter of the server"),
        *counted(generation.num_left_out_prompts, "prompts left out that cannot be the cue"),
        *counted(generation.num_unclosed_reasoning, "prompts without a reply because of an unfinished thought"),
        *counted(generation.num_invented_turns or 0, "replies whose text after the model's turn was removed"),
        *counted(plain.num_missing_cells, "cells without a reply"),
        *counted(len(plain.skipped_templates), "templates skipped"),
    )
    found = []
    if debiased is not None:
        full = _figure(generation, "Full Gen Bias, debiased", ("full_gen_bias",))
        bounds = full.interval
        known = () if bounds is None else (f"{share(level, 0)} interval {bounds[0]:.6g} to {bounds[1]:.6g}",)
        found.append(
            full._replace(
                meaning=f"{_VARIES}, minus the estimated sampling noise (×{scale}). 0 means no dependence.",
                beside={},
                detail=_own_part(generation.identity_leakage),
                task="full_gen_bias_debiased",
                notes=(*known, f"less a sampling noise of {noise:.4g}", *common),
            )
        )
    if noise is None:
        with_noise, detail = "sampling noise unknown", per_cell
    else:
        with_noise = f"including sampling noise of about {noise:.4g}"
        detail = f"of which about {bias(noise)} is sampling noise"
    found.append(
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
    return found


def _telling(telling: TellingShare) -> list[Figure]:
    if telling.value is None:
        return []
    return [
        Figure(
            TELLING,
            telling.value,
            "share",
            "The share of replies whose style is nearer to their own term's style than to another term's, averaged "
            "over all pairs of terms. Styles are learnt from replies to other templates. Guessing gives 50%.",
            telling.interval,
            no_interval=telling.reason,
            confidence_level=telling.confidence_level,
            detail="guessing gives 50%",
        )
    ]


def _nouns(generation: Generation) -> list[Figure]:
    nouns = generation.nouns
    meaning = (
        "Debiased Full Gen Bias with nouns in place of terms. It shows how much the style of replies depends on the "
        "noun."
    )
    rows = []
    for name, found in {"Bias between nouns": nouns, **nouns.by_gender}.items():
        if found.value is not None:
            rows.append(
                Figure(
                    name if found is nouns else f"Bias between nouns, {name}",
                    found.value,
                    "bias",
                    meaning if found is nouns else "",
                    found.interval,
                    no_interval=found.no_interval,
                    confidence_level=nouns.confidence_level,
                    part_of="" if found is nouns else NOUNS,
                    is_main=found is nouns,
                )
            )
    return rows


def _whole_replies(generation: Generation) -> list[Figure]:
    found = [
        reply_share(UPTAKE, generation.uptake, generation.uptake.confidence_level)._replace(
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
            confidence_level=generation.parroting.confidence_level,
            gate="parroting_replies",
        ),
    ]
    for kind, of_kind in vars(generation.refusals).items():
        figure = reply_share(kind.capitalize(), of_kind, of_kind.confidence_level)
        found.append(figure._replace(meaning=_MEANING[kind]))
    per_cell = f"{generation.gen_bias.mean_replies_per_cell:.3g} per term and template"
    return [*found, Figure("Replies", generation.num_replies, "count", is_main=False, detail=per_cell)]


def _axes(generation: Generation) -> list[Figure]:
    by_axis = generation.gen_bias.by_axis or {}
    rows = []
    for axis, value in by_axis.items():
        if value is not None:
            row = _figure(generation, f"Full Gen Bias, {axis_label(axis)}", ("by_axis", axis))
            meaning = "Full Gen Bias among the terms of the axis."
            rows.append(row._replace(part_of=AXES, is_main=False, meaning=meaning))
    return sorted(rows, key=lambda row: -(row.known or 0.0))


def _clusters(generation: Generation) -> list[Figure]:
    kind = "plain" if generation.debiased is None else "debiased"
    rows = []
    for heading, metric in CLUSTER_METRICS.items():
        is_partial = metric == "partial_gen_bias"
        for cluster in value_at(generation.gen_bias, (metric,)) or {}:
            row = _figure(generation, f"{heading}, {cluster}", (metric, cluster))
            meaning = f"The part of {kind} Full Gen Bias that comes from these styles." if is_partial else ""
            rows.append(row._replace(part_of=f"{heading} by cluster", is_main=is_partial, meaning=meaning))
    return rows


def style_figures(generation: Generation, number: int) -> list[Figure]:
    rows = []
    for style in generation.styles:
        row = _figure(generation, style.style, ("by_style", style.style))
        more = {
            "mean probability": Number(style.mean, "small_share"),
            "variance across terms": Number(style.variance, "effect"),
        }
        rows.append(row._replace(beside={**row.beside, **more}))
    return sorted(rows, key=lambda row: -(row.known or 0.0))[:number]


def leakage_sentence(leakage: Leakage) -> str:
    seen = leakage.in_replies
    assert seen is not None  # only judges lack it
    hides, raises = (", and this reaction hides part of the bias", "raises") if seen.own < 0 else ("", "lowers")
    return (
        f"The style classifier reacts to terms in replies{hides}. Masking these terms {raises} Full Gen Bias by "
        f"{bias(abs(seen.own))} from {bias(seen.value)} (identity leakage {bias(leakage.leakage)}). The "
        "figures are not corrected for this effect."
    )


def _own_part(leakage: Leakage | None) -> str:
    if leakage is None or leakage.in_replies is None:
        return ""
    own = leakage.in_replies.own
    return f"{bias(abs(own))} {'lower' if own >= 0 else 'higher'} if terms in replies are masked"


def _figure(generation: Generation, name: str, path: tuple[str, ...]) -> Figure:
    values = generation.gen_bias
    printed = {}
    if path[0] in _PRINTED:
        printed = {model: of_model.get(path[1]) for model, of_model in _PRINTED[path[0]].items()}
    return Figure(
        name,
        value_at(generation.debiased, path),
        "bias",
        interval=pair(value_at(values.intervals, path)),
        no_interval=value_at(values.no_intervals, path),
        confidence_level=values.confidence_level,
        beside={PLAIN: Number(value_at(values, path), "bias")},
        printed=printed,
    )


def value_at(values: GenBias | Debiased | ByMetric[Any] | None, path: tuple[str, ...]) -> Any:
    """Returns what `path` names: a metric and, for a part of it, the cluster, axis or style."""
    content: Any = None if values is None else values._asdict()
    for key in path:
        content = None if content is None else content.get(key)
    return content
