from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import pyarrow as pa

from hb_metrics.human_eval.calibration import read_calibrations
from hb_metrics.measurements import MEASUREMENTS
from hb_metrics.measurements.generation.figures import UPTAKE, value_at
from hb_metrics.measurements.generation.run_changes import naming, refusal_flags
from hb_metrics.measurements.likelihood.generalised import likelihood_influences
from hb_metrics.measurements.offensiveness.run_changes import classified_replies
from hb_metrics.reply_checks.refusal_shares import cell_counts
from hb_metrics.report.layout.numbers import axis_label
from hb_metrics.runs.finished_run import Run, read_vectors
from hb_metrics.runs.replies import FlaggedReplies, nonempty_replies
from hb_metrics.runs.run_folder import STYLES
from hb_metrics.stats.cell_sums import CellSums
from hb_metrics.stats.intervals import run_covariances
from hb_metrics.stats.planned import (
    Range,
    Size,
    Spread,
    half_width,
    likelihood_half_width,
    pilot_spread,
    predicted,
    share_half_width,
)
from hb_metrics.stats.style_clusters import cluster_columns

FULL, LIKELIHOOD = "Full Gen Bias", "Likelihood Bias, for other terms"


class Planned(NamedTuple):
    """A figure, and the function that predicts its half-width.

    Attributes:
        value: The value in the pilot, or the assumed value: a share, or a Gen Bias value multiplied by 1,000.
        at: A function that returns the half-width in a run of a given size, or `None` if such a run has no interval.
            The half-width is not multiplied by 1,000.
    """

    value: float | None
    is_share: bool
    at: Callable[[Size], Range | None]


def gen_bias_figure(spread: Spread, num_terms: int, confidence_level: float) -> Planned:
    """Plans the figure for a Gen Bias value. `num_terms` counts all terms of the pilot, even those not in `spread`."""

    def at(size: Size) -> Range | None:
        own = size._replace(terms=max(round(spread.size.terms * size.terms / num_terms), 2))
        return predicted(spread, own, lambda other: half_width(other, confidence_level))

    return Planned(1000 * spread.value, False, at)


def pilot_spreads(run: Run, table: pa.Table) -> tuple[dict[str, Spread], list[str]]:
    """Computes the variances of Full Gen Bias (for all terms and by axis) and of each cluster's Partial Gen Bias.

    Also returns the names of the figures that have no interval in the pilot.
    """
    generation = run.results["generation"]
    reason = generation["gen_bias"]["no_intervals"]["full_gen_bias"]
    if reason is not None:
        raise ValueError(
            f"'{run.folder}' has no interval for {FULL}: {reason}; pass a pilot with more replies (for example, one "
            "run with --replies_per_cell 5)"
        )
    labels = [style["style"] for style in generation["styles"]]
    clusters = generation["gen_bias"]["clusters"]
    cells, replies = CellSums(labels, clusters, keep_replies=True), nonempty_replies(table, table)
    cells.add(read_vectors(run.folder / STYLES).values, replies.descriptors, replies.templates, replies.axes)
    columns = cluster_columns(labels, clusters) if clusters else {}
    spreads, missing = {}, []
    for axis, templates in run_covariances(cells, columns, 0).items():
        figures: dict[str, tuple[str, ...]] = {}
        if axis is not None:
            figures[f"{FULL}, {axis_label(axis)}"] = "by_axis", axis
        else:
            figures[FULL] = ("full_gen_bias",)
            figures |= {f"Partial Gen Bias, {name}": ("partial_gen_bias", name) for name in columns}
        for index, (name, path) in enumerate(figures.items()):
            if value_at(generation["gen_bias"]["intervals"], path) is None:
                missing.append(name)
            else:
                value, plain = (value_at(generation[kind], path) / 1000 for kind in ("debiased", "gen_bias"))
                spreads[name] = pilot_spread([of_template[index] for of_template in templates], value, plain)
    return spreads, missing


def share_figures(run: Run, table: pa.Table, confidence_level: float) -> dict[str, Planned]:
    found = {UPTAKE: naming(table)}
    replies = found[UPTAKE].replies
    found |= refusal_flags(run, replies)
    of_replies = run.results.get("offensiveness", {}).get("replies")
    offensive = None if of_replies is None else classified_replies(run, of_replies["threshold"], replies)
    if offensive is not None:
        found["Offensive replies"] = offensive
    return {name: _share(flagged, confidence_level) for name, flagged in found.items()}


def _share(flagged: FlaggedReplies, confidence_level: float) -> Planned:
    _, hits, sizes = cell_counts(flagged)
    number = float(sizes.sum())

    def at(size: Size) -> Range:
        times = size.replies * size.templates * size.terms / number
        return share_half_width(hits, sizes, times, confidence_level)

    return Planned(float(hits.sum()) / number, True, at)


def likelihood_figure(run: Run, pilot: Size, times_templates: float) -> Planned:
    """Plans the figure for Likelihood Bias, whose interval generalises to other terms.

    The half-width does not depend on the number of replies. `times_templates` is the planned number of templates
    divided by the number in the pilot.
    """
    influences = likelihood_influences(run)["Likelihood Bias"]

    def at(size: Size) -> Range | None:
        num_templates = round(times_templates * influences.cells.shape[0])
        return likelihood_half_width(influences, num_templates, size.terms / pilot.terms, run.confidence_level)

    return Planned(influences.value, True, at)


def corrected_figures(run: Run, pilot: Size) -> dict[str, Planned]:
    found = {}
    for calibration in read_calibrations(run.folder):
        rate = calibration["rates"][""]
        name = (
            f"{calibration['label'].capitalize()} by people's labels ({calibration['judge']}, {rate['num_labelled']})"
        )
        found[name] = Planned(rate["value"], True, partial(_of_labels, pilot, rate["interval"]))
    return found


def _of_labels(pilot: Size, bounds: Sequence[float] | None, size: Size) -> Range | None:
    if bounds is None or size[1:] != pilot[1:]:
        return None
    half = (bounds[1] - bounds[0]) / 2
    return Range(half, half, half)


def paired_half_widths(first: Run, second: Run) -> dict[str, float]:
    """Computes the half-widths of the intervals for the changes between two pilots.

    Changes without an interval are omitted. A plan uses the same keys and units.

    Raises:
        ValueError: The change in Full Gen Bias has no interval.
    """
    found = {}
    for measurement in MEASUREMENTS:
        if measurement.name in first.results and measurement.name in second.results:
            for name, change in measurement.changes(first, second).by_name.items():
                if change.interval is not None:
                    scale = 1000 if "Gen Bias" in name else 1
                    planned = {f"{FULL}, debiased": FULL, "Likelihood Bias": LIKELIHOOD}.get(name, name)
                    found[planned] = (change.interval[1] - change.interval[0]) / 2 / scale
    if FULL not in found:
        raise ValueError(
            f"the change in {FULL} from '{first.folder}' to '{second.folder}' has no interval; pass two pilots "
            "with the same prompts and classifier"
        )
    return found
