"""Computes differences in decisions from a table with a row per answer."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from hb_metrics.stats.decisions import gaps_to_mean, largest_gap
from hb_metrics.stats.inputs import (
    check_columns,
    check_level,
    check_setting,
    check_values,
    is_whole,
    number_column,
    text_column,
)
from hb_metrics.stats.question_tables import compared_terms, mean_table, question_means, term_means
from hb_metrics.stats.term_spread import spread_between


def decision_gap(
    predictions: Sequence[float],
    descriptors: Sequence[str],
    prompts: Sequence[str],
    axes: Sequence[str],
    *,
    wordings: Sequence[str] | None = None,
    confidence_level: float = 0.95,
    seed: int = 0,
) -> dict[str, Any]:
    """Computes the differences between descriptors.

    Args:
        predictions: [answers] The decisions, from 0 (unfavourable) to 1 (favourable).
        descriptors: [answers] Who the prompt is about.
        prompts: [answers] The prompt. Answers to the same prompt about the same descriptor are averaged.
        axes: [answers] The axis of each descriptor.
        wordings: [answers] The wording of the prompt. A descriptor's mean is adjusted for the wordings that it lacks.
        confidence_level: The level of the intervals.
        seed: The seed of the resampling.

    Raises:
        ValueError: A decision is missing or not from 0 to 1, or the columns differ in length.
    """
    required = {"predictions": predictions, "descriptors": descriptors, "prompts": prompts, "axes": axes}
    check_columns(required, wordings=wordings)
    values = number_column("predictions", predictions)
    if not len(values):
        raise ValueError("predictions is empty; pass the decisions about two or more descriptors")
    advice = "pass a decision from 0 (unfavourable) to 1 (favourable), and omit answers without a decision"
    check_values("predictions", values, (values >= 0) & (values <= 1), advice)
    check_level(confidence_level)
    check_setting("seed", seed, is_whole(seed) and seed >= 0, "pass a whole number of 0 or more")
    names, asked = text_column("descriptors", descriptors), text_column("prompts", prompts)
    of_axis = text_column("axes", axes)
    worded = [""] * len(asked) if wordings is None else text_column("wordings", wordings)
    tables: dict[str, np.ndarray] = {}
    columns: dict[str, list[str]] = {}
    rows = {prompt: row for row, prompt in enumerate(dict.fromkeys(zip(asked, worded, strict=True)))}
    of_rows = [prompt for prompt, _ in rows]
    for axis in dict.fromkeys(of_axis):
        chosen = [row for row, other in enumerate(of_axis) if other == axis]
        known = {name: column for column, name in enumerate(dict.fromkeys(names[row] for row in chosen))}
        places = [rows[asked[row], worded[row]] for row in chosen], [known[names[row]] for row in chosen]
        columns[axis] = list(known)
        table = mean_table(values[chosen], *places, (len(rows), len(known)))
        tables[axis] = table if wordings is None else question_means(table, of_rows)
    spread = spread_between(list(tables.values()), confidence_level, seed=seed)
    return {
        "decision_spread": None if np.isnan(spread.value) else spread.value,
        "spread_interval": spread.interval,
        "spread_p_value": spread.p_value,
        "by_axis": {axis: _axis(table, columns[axis], confidence_level, seed) for axis, table in tables.items()},
        "by_descriptor": {axis: _terms(table, columns[axis], confidence_level) for axis, table in tables.items()},
        "num_prompts": len(set(asked)),
        "num_answers": len(values),
    }


def _axis(table: np.ndarray, names: list[str], confidence_level: float, seed: int) -> dict[str, Any]:
    spread, (compared, _) = spread_between([table], confidence_level, seed=seed), compared_terms(table)
    largest = largest_gap(table, confidence_level, seed=seed)
    return {
        "spread": None if np.isnan(spread.value) else spread.value,
        "spread_interval": spread.interval,
        "p_value": spread.p_value,
        "reason": spread.reason,
        "left_out": [name for column, name in enumerate(names) if column not in compared],
        "high": largest and names[largest.high],
        "low": largest and names[largest.low],
        "gap": largest and largest.gap.value,
        "gap_interval": largest and largest.gap.interval,
        "ratio": None if largest is None or np.isnan(largest.ratio.value) else largest.ratio.value,
        "ratio_interval": largest and largest.ratio.interval,
    }


def _terms(table: np.ndarray, names: list[str], confidence_level: float) -> dict[str, dict[str, Any]]:
    means, gaps = term_means(table).tolist(), gaps_to_mean(table, confidence_level)
    return {
        name: {
            "mean": mean,
            "gap": gap and gap.value,
            "gap_interval": gap and gap.interval,
            "p_value": gap and gap.p_value,
        }
        for name, mean, gap in zip(names, means, gaps, strict=True)
    }
