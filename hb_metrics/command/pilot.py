"""Predicts the half-widths of a longer run's figures from a pilot run."""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hb_dataset.prompt_columns import has_names
from hb_metrics.layout.numbers import axis_label
from hb_metrics.measurements.generation.figures import UPTAKE, value_at
from hb_metrics.measurements.generation.results import refusal_flags
from hb_metrics.measurements.generation.run_changes import naming
from hb_metrics.measurements.offensiveness.compute import classified_replies
from hb_metrics.measurements.results import Run
from hb_metrics.run.record import CONFIDENCE_LEVEL
from hb_metrics.run.replies import cell_counts
from hb_metrics.run.run_folder import STYLES
from hb_metrics.stats.cell_sums import CellSums, cluster_columns
from hb_metrics.stats.clusters import quantile
from hb_metrics.stats.gen_bias_intervals import (
    Size,
    ValueVariance,
    at_size,
    change_half_width,
    half_width,
    run_templates,
    value_variance,
)
from hb_metrics.stats.reply_shares import share_interval
from hb_metrics.stats.u_statistic import MIN_REPLIES, template_covariances

FULL = "Full Gen Bias"
MOST_REPLIES = 2000
# Nine in ten half-widths of later runs are within this number, divided by the root of the pilot's degrees of freedom,
# of the prediction, relative to it. The number was chosen by simulation (tests/hb_metrics/stats/test_planned.py).
_ERROR = 2.5


class PlannedFigure(NamedTuple):
    """A figure of the longer run. Numbers are multiplied by `scale` when they are printed.

    Attributes:
        value: The figure's value in the pilot, or `None` for a change.
        at: The half-width for a number of replies per cell, or `None` if there is no interval.
        error: The relative error of these half-widths, which nine in ten later runs do not exceed.
    """

    value: float | None
    scale: int
    at: Callable[[int], float | None]
    error: float


def planned_figures(
    run: Run, table: pa.Table, spreads: dict[str, ValueVariance], sizes: np.ndarray
) -> dict[str, PlannedFigure]:
    num_questions, templates = 1, spreads[FULL].size.templates
    if run.record.cue in ("system", "memory", "history") and run.record.settings.prompts is None:
        num_questions = len(run.record.generation.questions or [])
        templates = len(table["template"].unique())

    def gen_bias(spread: ValueVariance, half: Callable[[ValueVariance, float], float | None]) -> PlannedFigure:
        def at(replies: int) -> float | None:
            asked = max(1, min(replies // MIN_REPLIES, num_questions))  # as `draw_questions` does
            return half(at_size(spread, Size(replies / asked, templates * asked, spread.size.terms)), CONFIDENCE_LEVEL)

        return PlannedFigure(spread.value, 1000, at, _ERROR / math.sqrt(spread.freedom))

    planned = {FULL: gen_bias(spreads[FULL], half_width)}
    planned[f"change of {FULL}"] = gen_bias(spreads[FULL], change_half_width)._replace(value=None)
    planned |= {name: gen_bias(spread, half_width) for name, spread in spreads.items()}
    flagged = {UPTAKE: naming(table)}
    replies = flagged[UPTAKE].replies
    flagged |= refusal_flags(run.tables, replies)
    if "offensiveness" in run.results.measured and (offensive := classified_replies(run)) is not None:
        flagged["Offensive replies"] = offensive
    for name, flags in flagged.items():
        planned[name] = planned_share(*cell_counts(flags)[1:], sizes, CONFIDENCE_LEVEL)
    return planned


def planned_share(
    hits: np.ndarray, num_replies: np.ndarray, sizes: np.ndarray, confidence_level: float
) -> PlannedFigure:
    def at(replies: int) -> float:
        times = float(np.minimum(sizes, replies).sum() / num_replies.sum())
        low, high = share_interval(hits, num_replies, confidence_level, times)
        return (high - low) / 2

    value, (low, high) = float(hits.sum() / num_replies.sum()), share_interval(hits, num_replies, confidence_level)
    if not 0 < value < 1:
        return PlannedFigure(value, 100, at, math.inf)
    # The variance of rare events is their number, whose relative error is one divided by its root.
    deviation = num_replies.sum() * (high - low) / 2 / quantile(confidence_level)
    return PlannedFigure(value, 100, at, quantile(0.9) * abs(1 - 2 * value) / (2 * deviation))


def pilot_spreads(run: Run, table: pa.Table) -> tuple[dict[str, ValueVariance], list[str]]:
    """Computes the variances of Full Gen Bias (for all terms and by axis) and of each cluster's Partial Gen Bias.

    Also returns the names of the figures that have no interval in the pilot.
    """
    generation = run.results.generation
    reason = generation.gen_bias.no_intervals and generation.gen_bias.no_intervals.full_gen_bias
    if reason is not None:
        raise ValueError(f"'{run.folder}' has no interval for {FULL}: {reason}; pass a pilot with more replies")
    labels = [style.style for style in generation.styles]
    clusters = generation.gen_bias.clusters
    cells, replies = CellSums(labels, clusters, keep_replies=True), run.tables.styled_replies(table)
    cells.add(run.tables.vectors_of(STYLES, replies.ids), replies.descriptors, replies.templates, replies.axes)
    columns = cluster_columns(labels, clusters) if clusters else {}
    spreads, missing = {}, []
    for axis, templates in template_covariances(run_templates(cells), columns).items():
        figures: dict[str, tuple[str, ...]] = {}
        if axis is not None:
            figures[f"{FULL}, {axis_label(axis)}"] = "by_axis", axis
        else:
            figures[FULL] = ("full_gen_bias",)
            figures |= {f"Partial Gen Bias, {name}": ("partial_gen_bias", name) for name in columns}
        for index, (name, path) in enumerate(figures.items()):
            if value_at(generation.gen_bias.intervals, path) is None:
                missing.append(name)
            else:
                value, plain = (value_at(values, path) / 1000 for values in (generation.debiased, generation.gen_bias))
                spreads[name] = value_variance([of_template[index] for of_template in templates], value, plain)
    return spreads, missing


def prompts_per_cell(run: Run, table: pa.Table) -> np.ndarray:
    """Returns the most replies that each cell (a term in a template) can have."""
    prompts = run.tables.prompts()
    if has_names(prompts):  # the prompts of a name are alike, so there are as many as needed
        return np.full(len(table) // (run.record.settings.replies_per_cell or 1), MOST_REPLIES)
    used = prompts.filter(pc.is_in(prompts["template"], table["template"].unique()))
    return used.group_by(["axis", "descriptor", "template"]).aggregate([("id", "count")])["id_count"].to_numpy()
