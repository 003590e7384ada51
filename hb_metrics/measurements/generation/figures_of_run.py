"""The figures that stand for a run's generation bias, and the settings they depend on."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from hb_metrics.display.numbers import bias, counted
from hb_metrics.display.parts import Figure, pair
from hb_metrics.measurements.generation.figures import Measured
from hb_metrics.measurements.generation.refusals_report import refusals_figures
from hb_metrics.measurements.generation.tables import (
    CLUSTER_METRICS,
    full_gen_bias,
    gen_bias_by_axis,
    gen_bias_by_cluster,
)

PARROTING = "parroting_replies"  # in --fail_above
_VARIES = "How much the style of replies varies with the term in the prompt"
_SETTINGS = (
    "context",
    "cue",
    "tag",
    "persona_lines",
    "sample",
    "num_beams",
    "temperature",
    "top_k",
    "top_p",
    "min_new_tokens",
    "max_new_tokens",
    "max_reasoning_tokens",
    "chat_template_kwargs",
    "reply",
)


def leakage_sentence(leakage: Mapping[str, Any]) -> str:
    """What part of Full Gen Bias is the style classifier's own reaction to terms, as a sentence."""
    seen = leakage["in_replies"]
    if seen["own"] < 0:
        return (
            f"A Full Gen Bias of {bias(seen['value'])} would be {bias(-seen['own'])} higher without the style "
            "classifier's reaction to terms in replies, which covers a difference up (identity leakage "
            f"{bias(leakage['leakage'])}). Nothing is added."
        )
    return (
        f"Of a Full Gen Bias of {bias(seen['value'])}, {bias(seen['own'])} is the style classifier's reaction to terms "
        f"in replies, gone if they are hidden (identity leakage {bias(leakage['leakage'])}). Nothing is subtracted."
    )


def generation_figures(generation: Mapping[str, Any]) -> list[Figure]:
    """Full Gen Bias debiased and plain, its parts by style cluster, and parroting, refusals and disclaimers."""
    plain, debiased = generation["gen_bias"], generation["debiased"]
    noise, level = plain["noise_floor"], plain["confidence_level"]
    cells = f"{plain['mean_replies_per_cell']:.3g} replies a cell"
    common = (
        f"×{plain['scale']}, ddof {plain['ddof']}",
        cells,
        *counted(generation["num_empty_replies"], "empty replies left out"),
        *counted(generation.get("num_left_out_prompts", 0), "prompts left out that cannot be the cue"),
        *counted(generation.get("num_unclosed_reasoning", 0), "prompts without a reply, since a thought was not over"),
        *counted(plain["num_missing_cells"], "cells without a reply"),
        *counted(len(plain["skipped_templates"]), "templates skipped"),
    )
    figures = []
    if debiased is not None:
        bounds = pair(plain["intervals"]["full_gen_bias"])
        known = () if bounds is None else (f"{level:.0%} interval {bounds[0]:.6g} to {bounds[1]:.6g}",)
        figures.append(
            Figure(
                "Full Gen Bias, debiased",
                debiased["full_gen_bias"],
                "bias",
                f"{_VARIES}, less the estimated sampling noise (×{plain['scale']}). 0: not at all.",
                bounds,
                level,
                "full_gen_bias_debiased",
                (*known, f"less a sampling noise of {noise:.4g}", *common),
            )
        )
    with_noise = "its sampling noise is not known" if noise is None else f"sampling noise of about {noise:.4g} in it"
    figures.append(
        Figure(
            "Full Gen Bias, plain",
            plain["full_gen_bias"],
            "bias",
            f"{_VARIES if debiased is None else 'The same'} by the paper's formula, with {cells}: {with_noise}.",
            task="full_gen_bias",
            notes=(with_noise, *common),
        )
    )
    for row in gen_bias_by_cluster(dict(generation), "partial_gen_bias", {}):
        kind = "plain" if debiased is None else "debiased"
        meaning = f"The part of {kind} Full Gen Bias in these styles."
        figures.append(
            _figure(f"Partial Gen Bias, {row.measured.name}", row.measured, debiased is not None, level, meaning)
        )
    return [*figures, *_parroting(generation), *refusals_figures(generation)]


def compared_figures(runs: Sequence[Mapping[str, Any] | None]) -> list[list[Figure]]:
    """[runs][figures] Full Gen Bias, Partial Gen Bias by cluster, Full Gen Bias by axis, parroting and refusals.

    Args:
        runs: The generation results of each; `None`: a run without.

    Returns:
        Debiased values with intervals if every run has them, else plain values.
    """
    debiased = all(run["debiased"] is not None for run in runs if run is not None)
    return [[] if run is None else _compared(run, debiased) for run in runs]


def reply_settings(results: Mapping[str, Any]) -> list[str]:
    """The settings that replies were made with, each in a few words."""
    run = results["run"]
    words = []
    for name in _SETTINGS:
        value = run["generation"].get(name)
        value = json.dumps(value) if isinstance(value, dict) else value
        if value not in (None, False) and (name, value) != ("cue", "prompt"):  # all are cues without a cue before them
            words.append(name if value is True else f"{name} {value}")
    if run["generation"].get("system_prompt") is not None:
        words.append("with a system prompt")
    if run["settings"].get("cue_questions") is not None:
        words.append("with questions of one's own")
    if run["settings"]["variations"]:
        words.append("with stylistic variations")
    return [*words, f"seed {run['settings']['seed']}"]


def _compared(generation: Mapping[str, Any], debiased: bool) -> list[Figure]:
    content, level = dict(generation), generation["gen_bias"]["confidence_level"]
    kind = "less the estimated sampling noise" if debiased else "plain, with the sampling noise in it"
    figures = [_figure("Full Gen Bias", full_gen_bias(content), debiased, level, f"{_VARIES} (×1000), {kind}.")]
    for row in gen_bias_by_cluster(content, CLUSTER_METRICS["Partial Gen Bias"], {}):
        name, meaning = f"Partial Gen Bias, {row.measured.name}", "The part of Full Gen Bias in these styles."
        figures.append(_figure(name, row.measured, debiased, level, meaning))
    for row in gen_bias_by_axis(content, {}):
        name, meaning = f"Full Gen Bias, {row.measured.name}", "Full Gen Bias among the terms of the axis."
        figures.append(_figure(name, row.measured, debiased, level, meaning))
    return [*figures, *_parroting(generation), *refusals_figures(generation)]


def _figure(name: str, measured: Measured, debiased: bool, level: float, meaning: str) -> Figure:
    if debiased:
        return Figure(name, measured.debiased, "bias", meaning, measured.interval, level)
    return Figure(name, measured.plain, "bias", meaning)


def _parroting(generation: Mapping[str, Any]) -> list[Figure]:
    share = generation["parroting"]["parroting_share"]
    return [
        Figure(
            "Parroting replies", share, "share", "Replies that say the prompt again, and so its style.", gate=PARROTING
        )
    ]
