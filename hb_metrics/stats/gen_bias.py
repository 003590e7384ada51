"""Computes Full, Partial and Summed-Cluster Gen Bias (paper, 2.3.3 and A.7), without `evaluate`.

m_tds is the mean probability of style s over the replies to template t with descriptor d. Var_d is the variance over
descriptors, and C is a cluster of styles. The metrics are

    Full Gen Bias = mean over t of Σ_s Var_d(m_tds)
    Partial Gen Bias of C = mean over t of Σ_{s in C} Var_d(m_tds)
    Summed-Cluster Gen Bias of C = mean over t of Var_d(Σ_{s in C} m_tds)

Add the replies to a `CellSums`, then call `gen_bias` as often as needed.
"""

import math
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from hb_metrics.stats.cell_sums import PAPER_CLUSTERS, Cell, CellSums, cluster_columns, read_metrics
from hb_metrics.stats.gen_bias_intervals import intervals
from hb_metrics.stats.inputs import as_python, check_ddof, check_flag, check_level, check_setting, is_number
from hb_metrics.stats.u_statistic import groups_of

__all__ = ["PAPER_CLUSTERS", "Cell", "CellSums", "GenBias", "cluster_columns", "gen_bias"]


T = TypeVar("T")


class ByMetric(NamedTuple, Generic[T]):
    """Something about each metric. The keys of the dictionaries are clusters or axes."""

    full_gen_bias: T
    partial_gen_bias: dict[str, T] | None
    summed_cluster_gen_bias: dict[str, T] | None
    by_axis: dict[str, T | None] | None
    partial_by_axis: dict[str, dict[str, T] | None] | None
    summed_cluster_by_axis: dict[str, dict[str, T] | None] | None


class GenBias(NamedTuple):
    """The results of `gen_bias`. Bias values and noise are multiplied by `scale`.

    The keys of the dictionaries are clusters or axes. A dictionary is `None` if the replies have no clusters or axes. A
    cell is a descriptor in a template.

    Attributes:
        by_axis: Full Gen Bias among the descriptors of each axis (Table 10). The value is `None` if no template has two
            descriptors of the axis.
        by_style: The part of Full Gen Bias that comes from each style. The parts sum to Full Gen Bias. `None` if there
            are no labels.
        noise_floor: The estimated sampling noise in the plain Full Gen Bias, which `debias` subtracts. `None` if there
            is a template in which no descriptor has two replies.
        intervals: For each of the six values that are listed before `by_style`, [lowest, highest]. The interval is for
            the value that an unlimited number of replies would give. A plain value contains sampling noise and can be
            above its interval.
        no_intervals: For the same values, the reason why there is no interval, or `None`.
        num_templates: The number of templates with replies, including skipped ones.
        num_single_reply_cells: The number of cells with one reply, whose variance is unknown. For these cells, the
            noise floor uses the mean variance of the template's other cells. The noise floor of an axis uses those on
            the axis, if there are any.
        skipped_templates: Templates in which fewer than two descriptors have replies.
        skipped_axes: Axes that have no template with two descriptors.
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
    intervals: ByMetric[list[float] | None] | None
    no_intervals: ByMetric[str | None] | None
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
    ddof: int = 0,
    debias: bool = False,
    scale: float = 1000,
    confidence_level: float | None = None,
) -> GenBias:
    """Computes Full, Partial and Summed-Cluster Gen Bias (paper, A.7).

    A cell is a descriptor in a template. A plain estimate from N replies per cell contains sampling noise of about
    (variance within the cell) / N. For a template with D descriptors, the exact formula is E[Var_d(m̂)] = Var_d(m) + (1
    − 1/D) Σ_d (s²_td / N_td) / (D − ddof). Here, s² is the unbiased variance over the replies of a cell. `debias=True`
    subtracts the second term. The result can be negative.

    Args:
        cells: The replies, with the labels and clusters of their styles.
        ddof: 0 or 1. In Var_d, the divisor is the number of descriptors minus `ddof`. The paper does not state the
            value.
        debias: Whether to subtract the sampling noise.
        scale: The factor by which values are multiplied, 1000 in the paper.
        confidence_level: The confidence level of the intervals, such as 0.95, or `None` for no intervals. Intervals
            require `cells` that were created with `keep_replies=True`.

    Raises:
        ValueError: An argument is not valid, there are no replies, or no template has two descriptors. With `debias`,
            also raised if a template has no cell with two replies. With `confidence_level`, also raised if `cells` did
            not keep its replies.
    """
    debias = check_flag("debias", debias)
    ddof = check_ddof(ddof)
    is_scale = is_number(scale) and 0 < scale < math.inf
    check_setting("scale", scale, is_scale, "pass a finite number greater than 0, such as 1000")
    if confidence_level is not None:
        check_level(confidence_level)
    scale, confidence_level = as_python(scale), as_python(confidence_level)
    if len(cells) == 0:
        raise ValueError("there are no replies; pass style probabilities, descriptors and templates")
    if confidence_level is not None and not cells.keep_replies:
        advice = "create the CellSums, or load the module, with keep_replies=True"
        raise ValueError(f"confidence_level={confidence_level} needs the replies, which were not kept; {advice}")
    labels, columns = cells.labels, cells.columns
    by_template = cells.by_template()
    used = {name: axes for name, axes in by_template.items() if sum(map(len, axes.values())) > 1}
    skipped = [name for name in by_template if name not in used]
    if not used:
        raise ValueError("no template has replies to two descriptors; pass replies to two descriptors in a template")
    if skipped:
        named = ", ".join(map(repr, skipped))
        warnings.warn(f"{len(skipped)} templates without replies to two descriptors are skipped: {named}", stacklevel=2)

    variances, without_repeats = _mean_variances(cells, used, ddof)
    if without_repeats and debias:
        lacking = f"in {len(without_repeats)} templates (such as {without_repeats[0]!r}) no descriptor has two replies"
        raise ValueError(f"{lacking}; generate two replies for each descriptor, or set debias=False")

    axes = sorted({cell.axis for cell in cells.cells() if cell.axis is not None})
    names = list(columns)
    plain = {axis: scale * read_metrics(parts[0], columns) for axis, parts in variances.items()}
    noise = {axis: scale * read_metrics(parts[1], columns) for axis, parts in variances.items()}
    values = {axis: plain[axis] - noise[axis] for axis in plain} if debias else plain
    sections = _sections({axis: _known(metrics) for axis, metrics in values.items()}, names, axes)
    bounds = reasons = None
    if confidence_level is not None:
        by_axis = intervals(cells, plain, noise, ddof=ddof, scale=scale, confidence_level=confidence_level)
        parts = {axis: list(zip(*group, strict=True)) for axis, group in by_axis.items()}
        bounds, reasons = (
            _sections({axis: of_group[index] for axis, of_group in parts.items()}, names, axes) for index in range(2)
        )
    plain_by_style, noise_by_style = scale * variances[None][:, : cells.num_styles]
    by_style = plain_by_style - noise_by_style if debias else plain_by_style
    noise_floor, partial_noise, summed_noise = _split(_known(noise[None]), names)
    return GenBias(
        **sections._asdict(),
        by_style=None if labels is None else dict(zip(labels, by_style.tolist(), strict=True)),
        noise_floor=noise_floor,
        partial_noise_floor=None if noise_floor is None else partial_noise,
        summed_cluster_noise_floor=None if noise_floor is None else summed_noise,
        intervals=bounds,
        no_intervals=reasons,
        clusters={name: [(labels or [])[index] for index in styles] for name, styles in columns.items()} or None,
        **_counts(cells),
        skipped_templates=skipped,
        skipped_axes=[axis for axis in axes if axis not in variances],
        ddof=ddof,
        debias=debias,
        scale=scale,
        confidence_level=confidence_level,
    )


def plain_and_debiased(cells: CellSums, confidence_level: float | None) -> tuple[GenBias, GenBias | None]:
    """Computes the plain values, with intervals unless `confidence_level` is `None`, and the debiased values.

    The debiased values are `None` if there is a template in which no cell has a second reply, because the sampling
    noise is then unknown.
    """
    plain = gen_bias(cells, confidence_level=confidence_level)
    return plain, None if plain.noise_floor is None else gen_bias(cells, debias=True)


def _mean_variances(
    cells: CellSums,
    by_template: Mapping[str, Mapping[str | None, Sequence[Cell]]],
    ddof: int,
) -> tuple[dict[str | None, np.ndarray], list[str]]:
    """Averages the variances, and the noise that they contain, over templates.

    Returns:
        A mapping from each axis (`None`: all descriptors) to an array [2, columns]. Row 0 contains the variances, and
        row 1 contains the noise (NaN if it is unknown). The second value lists the templates in which no cell has two
        replies.
    """
    totals: dict[str | None, np.ndarray] = {}
    templates: Counter[str | None] = Counter()
    without_repeats = []
    for template, groups in by_template.items():
        everyone = [cell for members in groups.values() for cell in members]
        means, within = cells.moments(everyone)
        counts = cells.counts(everyone)
        repeated = counts > 1
        if not repeated.any():
            without_repeats.append(template)
        for axis, part in groups_of({axis: len(members) for axis, members in groups.items()}).items():
            known = within[part][repeated[part]] if repeated[part].any() else within[repeated]
            guess = known.mean(axis=0) if len(known) else np.nan
            noise = np.where(repeated[part, None], within[part], guess) / counts[part, None]
            number = len(noise)
            in_noise = (1 - 1 / number) * noise.sum(axis=0) / (number - ddof)
            totals[axis] = totals.get(axis, 0.0) + np.stack([means[part].var(axis=0, ddof=ddof), in_noise])
            templates[axis] += 1
    return {axis: total / templates[axis] for axis, total in totals.items()}, without_repeats


def _sections(
    metrics: Mapping[str | None, Sequence[Any]], clusters: Sequence[str], axes: Sequence[str]
) -> ByMetric[Any]:
    full, partial, summed = _split(metrics[None], clusters)
    split = {axis: _split(metrics[axis], clusters) if axis in metrics else (None, None, None) for axis in axes}
    by_axis = [{axis: parts[index] for axis, parts in split.items()} if axes else None for index in range(3)]
    return ByMetric(
        full, partial, summed, by_axis[0], by_axis[1] if clusters else None, by_axis[2] if clusters else None
    )


def _split(metrics: Sequence[Any], clusters: Sequence[str]) -> tuple[Any, dict[str, Any] | None, dict[str, Any] | None]:
    if not clusters:
        return metrics[0], None, None
    partial, summed = metrics[1 : 1 + len(clusters)], metrics[1 + len(clusters) :]
    return metrics[0], dict(zip(clusters, partial, strict=True)), dict(zip(clusters, summed, strict=True))


def _known(values: np.ndarray) -> list[float | None]:
    return [None if math.isnan(value) else value for value in values.tolist()]


def _counts(cells: CellSums) -> dict[str, Any]:
    all_cells = cells.cells()
    counts = cells.counts(all_cells)
    num_descriptors = len({(cell.axis, cell.descriptor) for cell in all_cells})
    num_templates = len({cell.template for cell in all_cells})
    return {
        "num_descriptors": num_descriptors,
        "num_templates": num_templates,
        "num_cells": len(all_cells),
        "num_replies": int(counts.sum()),
        "mean_replies_per_cell": float(counts.mean()),
        "min_replies_per_cell": int(counts.min()),
        "max_replies_per_cell": int(counts.max()),
        "num_single_reply_cells": int((counts == 1).sum()),
        "num_missing_cells": num_descriptors * num_templates - len(all_cells),
    }
