"""Full, Partial and Summed-Cluster Gen Bias (paper, 2.3.3 and A.7), without `evaluate`.

With m_tds the mean probability of style s over the replies to template t with descriptor d, and Var_d the variance over
descriptors:

    FGB = mean over t of Σ_s Var_d(m_tds)
    PGB(C) = mean over t of Σ_{s in C} Var_d(m_tds)
    SCGB(C) = mean over t of Var_d(Σ_{s in C} m_tds)

Feed a `CellSums` with the replies, then call `gen_bias` as often as needed.
"""

import math
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from .cell_sums import NOT_KEPT_ERROR, NUM_LABELS_ERROR, Cell, CellSums
from .inputs import as_python, check_ddof, check_flag, is_number
from .intervals import Intervals, groups_of, intervals
from .style_clusters import PAPER_CLUSTERS, check_labels, cluster_columns, known_columns, read_metrics

__all__ = ["PAPER_CLUSTERS", "Cell", "CellSums", "GenBias", "cluster_columns", "gen_bias"]

NO_ROWS_ERROR = "there are no replies; give style probabilities, descriptors and templates"
NO_TEMPLATE_ERROR = (
    "none of the {count} templates has replies to two descriptors, so there is nothing to compare; "
    "give replies to at least two descriptors of the same template"
)
OTHER_LABELS_ERROR = "labels differ from those that were given before the replies; give them once"
SCALE_ERROR = "scale is {scale}; give a finite number greater than 0, such as 1000"
CONFIDENCE_ERROR = "confidence_level is {level}; give a number between 0 and 1, such as 0.95, or None for no intervals"
NO_REPEATS_ERROR = (
    "debias=True needs the spread of the replies within a cell, but in {count} templates (such as {template!r}) no "
    "descriptor has two replies; generate at least two replies for each descriptor, or leave it off"
)
CLUSTERS_CAME_LATE_ERROR = (
    "the sampling noise of a cluster's sum is gathered while replies come, and these clusters were not known then; "
    "give labels and clusters with the replies in one compute, or before them: {how}"
)
SKIPPED_WARNING = "{count} templates without replies to two descriptors are skipped: {templates}"


class GenBias(NamedTuple):
    """What `gen_bias` finds; plain Python values. Bias values and noise are multiplied by `scale`.

    Attributes:
        full_gen_bias: FGB.
        partial_gen_bias: Cluster → PGB; `None` without clusters.
        summed_cluster_gen_bias: Cluster → SCGB; `None` without clusters, or if it cannot be debiased: see `CellSums`.
        by_axis: Axis → FGB among the axis's descriptors (Table 10); `None` for an axis without two descriptors in any
            template, and as a whole if no axes were given.
        partial_by_axis: Axis → cluster → PGB, likewise.
        summed_cluster_by_axis: Axis → cluster → SCGB, likewise.
        by_style: Label → its part of FGB; they sum to it. `None` without labels.
        noise_floor: The estimated sampling noise in the plain FGB, which `debias` subtracts; `None` if it cannot be
            estimated, since in some template no descriptor has two replies.
        partial_noise_floor: Cluster → the same in PGB.
        summed_cluster_noise_floor: Cluster → the same in SCGB; `None` also where its debiased value would be.
        intervals: The keys `full_gen_bias` … `summed_cluster_by_axis`, each with [lowest, highest] in place of a value:
            intervals for the value with endless replies (see `intervals.py`). Plain values hold sampling noise and can
            lie above. `None` for those that the replies cannot give, and as a whole without `confidence_level`.
        no_intervals: The same keys, each with the reason why it has no interval; `None` for those that have one.
        clusters: Cluster → labels of its styles; `None` without clusters.
        num_descriptors: Descriptors (of an axis) with replies.
        num_templates: Templates with replies, the skipped ones included.
        num_cells: Combinations of the two with replies.
        num_replies: Replies.
        mean_replies_per_cell: Replies, on average over cells.
        min_replies_per_cell: In the cell with the fewest.
        max_replies_per_cell: In the cell with the most.
        num_single_reply_cells: Cells whose replies have no spread. For the noise floor they take the mean of their
            template's other cells; intervals count in that this is a guess.
        num_missing_cells: Combinations of descriptor and template without replies.
        skipped_templates: Templates where fewer than two descriptors have replies.
        skipped_axes: Axes without two descriptors in any template.
        ddof: As given, like all that follow.
        debias: Whether sampling noise is subtracted.
        scale: What values are multiplied by.
        confidence_level: Of the intervals.
    """

    full_gen_bias: float
    partial_gen_bias: dict[str, float] | None
    summed_cluster_gen_bias: dict[str, float] | None
    by_axis: dict[str, float | None] | None
    partial_by_axis: dict[str, dict[str, float] | None] | None
    summed_cluster_by_axis: dict[str, dict[str, float] | None] | None
    by_style: dict[str, float] | None
    noise_floor: float | None
    partial_noise_floor: dict[str, float] | None
    summed_cluster_noise_floor: dict[str, float] | None
    intervals: dict[str, Any] | None
    no_intervals: dict[str, Any] | None
    clusters: dict[str, list[str]] | None
    num_descriptors: int
    num_templates: int
    num_cells: int
    num_replies: int
    mean_replies_per_cell: float
    min_replies_per_cell: int
    max_replies_per_cell: int
    num_single_reply_cells: int
    num_missing_cells: int
    skipped_templates: list[str]
    skipped_axes: list[str]
    ddof: int
    debias: bool
    scale: float
    confidence_level: float | None


def gen_bias(
    cells: CellSums,
    *,
    labels: Sequence[str] | None = None,
    clusters: Mapping[str, Sequence[str]] | None = None,
    ddof: int = 0,
    debias: bool = False,
    scale: float = 1000,
    confidence_level: float | None = None,
) -> GenBias:
    """Computes Full, Partial and Summed-Cluster Gen Bias (paper, A.7).

    A plain estimate from N replies a cell holds about (variance within the cell) / N of sampling noise. Exactly, for a
    template with D descriptors: E[Var_d(m̂)] = Var_d(m) + (1 − 1/D) Σ_d (s²_td / N_td) / (D − ddof), with s² the
    unbiased variance over the replies of a cell. `debias=True` subtracts the second term; what is left can be negative.

    Args:
        cells: The replies.
        labels: [styles] names of the styles; `None`: those that `cells` was made with.
        clusters: Styles of each cluster, by their full label or its text before " ("; `None`: those of `cells`, else
            the paper's six if the labels have them.
        ddof: Var_d divides by the number of descriptors less this; 0 or 1. The paper does not say which.
        debias: Whether to subtract the sampling noise.
        scale: What to multiply values by. 1000 in the paper.
        confidence_level: Of intervals (see `intervals.py`), such as 0.95; `None`: none. `cells` has to keep its
            replies.

    Returns:
        All values, plain Python numbers.

    Raises:
        ValueError: There are no replies or no template with two descriptors, an argument is not allowed, labels and
            clusters do not fit, `debias` lacks a second reply, or intervals lack the replies.
    """
    debias = check_flag("debias", debias)
    ddof = check_ddof(ddof)
    _check_scale_and_level(scale, confidence_level)
    scale, confidence_level = as_python(scale), as_python(confidence_level)
    if len(cells) == 0:
        raise ValueError(NO_ROWS_ERROR)
    if confidence_level is not None and not cells.keep_replies:
        raise ValueError(NOT_KEPT_ERROR.format(what=f"confidence_level={confidence_level}"))
    labels, columns = _labels_and_columns(cells, labels, clusters)
    by_template = cells.by_template()
    used = {name: axes for name, axes in by_template.items() if sum(map(len, axes.values())) > 1}
    skipped = [name for name in by_template if name not in used]
    if not used:
        raise ValueError(NO_TEMPLATE_ERROR.format(count=len(by_template)))
    if skipped:
        named = ", ".join(map(repr, skipped))
        warnings.warn(SKIPPED_WARNING.format(count=len(skipped), templates=named), stacklevel=2)

    variances, without_repeats = _mean_variances(cells, used, columns, ddof)
    if without_repeats and debias:
        raise ValueError(NO_REPEATS_ERROR.format(count=len(without_repeats), template=without_repeats[0]))

    axes = sorted({cell.axis for cell in cells.cells() if cell.axis is not None})
    names = list(columns)
    plain = {axis: scale * read_metrics(parts[0], columns) for axis, parts in variances.items()}
    noise = {axis: scale * read_metrics(parts[1], columns) for axis, parts in variances.items()}
    values = {axis: plain[axis] - noise[axis] for axis in plain} if debias else plain
    sections = _sections({axis: _known(each) for axis, each in values.items()}, names, axes)
    sections = _without_unknown(sections)
    bounds = reasons = None
    if confidence_level is not None:
        found = intervals(cells, columns, plain, noise, ddof=ddof, scale=scale, confidence_level=confidence_level)
        bounds = _sections({axis: _pairs(each) for axis, each in found.items()}, names, axes)
        reasons = _sections({axis: each.reasons for axis, each in found.items()}, names, axes)
    of_styles = scale * variances[None][:, : cells.num_styles]
    by_style = of_styles[0] - of_styles[1] if debias else of_styles[0]
    noise_floor, *noise_of_clusters = _split(_known(noise[None]), names)
    partial_noise_floor, summed_cluster_noise_floor = map(_any_known, noise_of_clusters)
    return GenBias(
        **sections,
        by_style=None if labels is None else dict(zip(labels, by_style.tolist(), strict=True)),
        noise_floor=noise_floor,
        partial_noise_floor=partial_noise_floor,
        summed_cluster_noise_floor=summed_cluster_noise_floor,
        intervals=bounds,
        no_intervals=reasons,
        clusters={name: [(labels or [])[at] for at in wanted] for name, wanted in columns.items()} or None,
        **_counts(cells),
        skipped_templates=skipped,
        skipped_axes=[axis for axis in axes if axis not in variances],
        ddof=ddof,
        debias=debias,
        scale=scale,
        confidence_level=confidence_level,
    )


def _check_scale_and_level(scale: float, confidence_level: float | None) -> None:
    if not is_number(scale) or not 0 < scale < math.inf:
        raise ValueError(SCALE_ERROR.format(scale=repr(scale)))
    # Halves, so that levels are refused that differ from 0 or 1 by less than a tail can.
    if confidence_level is not None and not (is_number(confidence_level) and 0.5 < (1 + confidence_level) / 2 < 1):
        raise ValueError(CONFIDENCE_ERROR.format(level=repr(confidence_level)))


def _labels_and_columns(
    cells: CellSums, labels: Sequence[str] | None, clusters: Mapping[str, Sequence[str]] | None
) -> tuple[list[str] | None, dict[str, list[int]]]:
    names = cells.labels if labels is None else check_labels(labels)
    if cells.labels is not None and names != cells.labels:
        raise ValueError(OTHER_LABELS_ERROR)
    if names is not None and len(names) != cells.num_styles:
        raise ValueError(NUM_LABELS_ERROR.format(labels=len(names), styles=cells.num_styles))
    return names, cells.columns if clusters is None and cells.columns else known_columns(names, clusters)


def _mean_variances(
    cells: CellSums,
    by_template: Mapping[str, Mapping[str | None, Sequence[Cell]]],
    columns: Mapping[str, Sequence[int]],
    ddof: int,
) -> tuple[dict[str | None, np.ndarray], list[str]]:
    """Variances over descriptors and the sampling noise in them, as means over templates.

    Returns:
        Axis (`None`: all descriptors) → [2, styles + clusters] variances and noise (NaN where unknown); and the
        templates without any cell of two replies.
    """
    totals: dict[str | None, np.ndarray] = {}
    templates: Counter[str | None] = Counter()
    without_repeats = []
    for template, groups in by_template.items():
        everyone = [cell for members in groups.values() for cell in members]
        means, within = cells.moments(everyone, columns)
        counts = cells.counts(everyone)
        repeated = counts > 1
        if not repeated.any():
            without_repeats.append(template)
        elif not repeated.all():
            within[~repeated] = within[repeated].mean(axis=0)
        noise = within / counts[:, None]
        for axis, part in groups_of({axis: len(members) for axis, members in groups.items()}).items():
            totals[axis] = totals.get(axis, 0.0) + _variances(means[part], noise[part], ddof)
            templates[axis] += 1
    return {axis: total / templates[axis] for axis, total in totals.items()}, without_repeats


def _variances(means: np.ndarray, noise: np.ndarray, ddof: int) -> np.ndarray:
    """Variance over descriptors, and how much of it is sampling noise.

    Args:
        means: [descriptors, columns] mean over the replies of each.
        noise: [descriptors, columns] variance of these means.
        ddof: As in `gen_bias`.

    Returns:
        [2, columns].
    """
    number = len(means)
    return np.stack([means.var(axis=0, ddof=ddof), (1 - 1 / number) * noise.sum(axis=0) / (number - ddof)])


def _sections(
    found: Mapping[str | None, Sequence[Any]], clusters: Sequence[str], axes: Sequence[str]
) -> dict[str, Any]:
    """What is known of each metric (in the order of `read_metrics`) as it stands in the results."""
    full, partial, summed = _split(found[None], clusters)
    split = {axis: _split(found[axis], clusters) if axis in found else (None, None, None) for axis in axes}
    by_axis = [{axis: parts[at] for axis, parts in split.items()} if axes else None for at in range(3)]
    return {
        "full_gen_bias": full,
        "partial_gen_bias": partial,
        "summed_cluster_gen_bias": summed,
        "by_axis": by_axis[0],
        "partial_by_axis": by_axis[1] if clusters else None,
        "summed_cluster_by_axis": by_axis[2] if clusters else None,
    }


def _split(found: Sequence[Any], clusters: Sequence[str]) -> tuple[Any, dict[str, Any] | None, dict[str, Any] | None]:
    """Full, and by cluster Partial and Summed-Cluster Gen Bias."""
    if not clusters:
        return found[0], None, None
    partial, summed = found[1 : 1 + len(clusters)], found[1 + len(clusters) :]
    return found[0], dict(zip(clusters, partial, strict=True)), dict(zip(clusters, summed, strict=True))


def _without_unknown(found: dict[str, Any]) -> dict[str, Any]:
    """Values with `None` in place of clusters of which none is known."""
    kept = {name: _any_known(found[name]) for name in ("partial_gen_bias", "summed_cluster_gen_bias")}
    for name, whole in (("partial_by_axis", "partial_gen_bias"), ("summed_cluster_by_axis", "summed_cluster_gen_bias")):
        of_axes = None if kept[whole] is None else found[name]
        kept[name] = of_axes and {axis: _any_known(clusters) for axis, clusters in of_axes.items()}
    return {**found, **kept}


def _any_known(found: dict[str, Any] | None) -> dict[str, Any] | None:
    return found if found is not None and any(value is not None for value in found.values()) else None


def _known(values: np.ndarray) -> list[float | None]:
    return [None if math.isnan(value) else value for value in values.tolist()]


def _pairs(found: Intervals) -> list[list[float] | None]:
    return [None if math.isnan(bounds[0]) else bounds for bounds in found.bounds.tolist()]


def _counts(cells: CellSums) -> dict[str, Any]:
    found = cells.cells()
    counts = cells.counts(found)
    num_descriptors = len({(cell.axis, cell.descriptor) for cell in found})
    num_templates = len({cell.template for cell in found})
    return {
        "num_descriptors": num_descriptors,
        "num_templates": num_templates,
        "num_cells": len(found),
        "num_replies": int(counts.sum()),
        "mean_replies_per_cell": float(counts.mean()),
        "min_replies_per_cell": int(counts.min()),
        "max_replies_per_cell": int(counts.max()),
        "num_single_reply_cells": int((counts == 1).sum()),
        "num_missing_cells": num_descriptors * num_templates - len(found),
    }
