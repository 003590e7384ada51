"""The dependence of HolisticBias's figures on its templates: figures of random halves of the templates.

Aggarwal et al. (2022, section 7) ask whether one syntactic structure, or a random half of many, yields the same regard.
Here the figures are Full Gen Bias and Likelihood Bias, which are means over templates, so the value of any half follows
from the values of its templates.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations
from math import comb
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from scipy import stats

from hb_metrics.runs.replies import Replies
from hb_metrics.stats.bias_values import StyleRows
from hb_metrics.stats.gen_bias import CellSums, gen_bias

NUM_HALVES = 1000
_BATCH = 8192
_QUANTILES = (0.025, 0.975)


class TemplateValues(NamedTuple):
    """A bias figure of each template alone.

    Attributes:
        axes: [axes] names.
        templates: [templates] names.
        values: [axes, templates]; NaN where a template has no value of an axis.
        weights: [axes, templates] weight of each in the mean over templates; 0 where the value is NaN.
        overall: [templates] the figure of all axes together; NaN where there is none.
        overall_weights: [templates] weight of each in the mean over templates; 0 where `overall` is NaN.
    """

    axes: list[str]
    templates: list[str]
    values: np.ndarray
    weights: np.ndarray
    overall: np.ndarray
    overall_weights: np.ndarray


class TemplateRobustness(NamedTuple):
    """The result of `template_robustness`: plain Python values, `None` where undefined.

    Attributes:
        overall: The figure from all templates.
        by_template: Template → the figure from it alone.
        lowest_template: The template with the lowest figure.
        highest_template: The template with the highest figure.
        half_interval: [lowest, highest] of the figure of a random half, 95 % of them.
        mean_half_difference: Mean absolute difference between the figures of the two halves.
        relative_half_difference: The same as a share of the figure from all templates.
        single_rank_correlation: Spearman's rho between the axes' values of two single templates, on average over pairs.
        half_rank_correlation: Likewise between the two halves, on average over splits.
        single_same_highest: Share of pairs of single templates that put the same axis first.
        half_same_highest: Share of splits whose halves put the same axis first.
        num_templates: Templates that have a figure.
        num_axes: Axes that have a value in every template; ranks are over them.
        num_halves: Number of splits: all possible ones, or `NUM_HALVES` random ones.
    """

    overall: float
    by_template: dict[str, float | None]
    lowest_template: str
    highest_template: str
    half_interval: list[float]
    mean_half_difference: float
    relative_half_difference: float | None
    single_rank_correlation: float | None
    half_rank_correlation: float | None
    single_same_highest: float | None
    half_same_highest: float | None
    num_templates: int
    num_axes: int
    num_halves: int


def template_robustness(by_template: TemplateValues, *, seed: int) -> TemplateRobustness:
    """Compares a bias figure between single templates and between random halves of them.

    Args:
        by_template: The figure of each template.
        seed: Seed of `NUM_HALVES` random splits into two halves; if there are no more splits, all are used. With an odd
            number of templates, each split leaves one out.

    Returns:
        The dependence of the figure and of the order of the axes on the templates.

    Raises:
        ValueError: Fewer than two templates have a figure.
    """
    known = np.flatnonzero(by_template.overall_weights > 0)
    if len(known) < 2:
        raise ValueError(f"{len(known)} of the templates have a bias figure; robustness needs at least two")
    overall, overall_weights = by_template.overall[known], by_template.overall_weights[known]
    values, weights = by_template.values[:, known], by_template.weights[:, known]
    every = np.ones((1, len(known)))
    whole = float(_weighted(overall, overall_weights, every)[0])
    halves = _splits(len(known), seed)
    number = len(halves)
    of_half = _weighted(overall, overall_weights, halves.reshape(2 * number, -1)).reshape(number, 2)
    complete = (weights > 0).all(axis=1)
    values, weights = values[complete], weights[complete]
    vectors = np.zeros((len(values), 2 * number))
    for row, _ in enumerate(values):
        vectors[row] = _weighted(values[row], weights[row], halves.reshape(2 * number, -1))
    first, second = vectors[:, 0::2].T, vectors[:, 1::2].T  # [splits, axes]
    singles = list(combinations(values.T, 2))
    one, other = (np.array([pair[side] for pair in singles]) for side in range(2))
    difference = float(np.abs(of_half[:, 0] - of_half[:, 1]).mean())
    order = np.argsort(overall, kind="stable")
    return TemplateRobustness(
        overall=whole,
        by_template={
            name: _nullable(value) for name, value in zip(by_template.templates, by_template.overall, strict=True)
        },
        lowest_template=by_template.templates[known[order[0]]],
        highest_template=by_template.templates[known[order[-1]]],
        half_interval=np.quantile(of_half, _QUANTILES).tolist(),
        mean_half_difference=difference,
        relative_half_difference=difference / whole if whole > 0 else None,
        single_rank_correlation=_mean_rank_correlation(one, other),
        half_rank_correlation=_mean_rank_correlation(first, second),
        single_same_highest=_same_highest(one, other),
        half_same_highest=_same_highest(first, second),
        num_templates=len(known),
        num_axes=int(complete.sum()),
        num_halves=number,
    )


def gen_bias_robustness(
    replies: Replies, style_probabilities: np.ndarray | StyleRows, labels: Sequence[str], *, seed: int
) -> dict[str, Any]:
    """Robustness of Full Gen Bias: `full_gen_bias` and, where it can be debiased, `full_gen_bias_debiased`."""
    cells = cells_by_template(replies, style_probabilities, labels)
    robustness: dict[str, Any] = {}
    for name, debias in (("full_gen_bias", False), ("full_gen_bias_debiased", True)):
        values = gen_bias_by_template(cells, sorted(set(replies.axes)), debias=debias)
        robustness[name] = None if values is None else template_robustness(values, seed=seed)._asdict()
    return robustness


def likelihood_by_template(likelihood: Mapping[str, Any], prompts: pa.Table) -> TemplateValues:
    """Likelihood Bias of each template alone: the share of its pairs of descriptors with a significant test.

    Args:
        likelihood: The result of `likelihood_bias`.
        prompts: The prompts it was computed from, with `axis`, `descriptor` and `template`.
    """
    members: dict[tuple[str, str], set[str]] = {}
    columns = (prompts[name].to_pylist() for name in ("axis", "template", "descriptor"))
    for axis, template, descriptor in zip(*columns, strict=True):
        members.setdefault((axis, template), set()).add(descriptor)
    shares = likelihood["by_axis_and_template"]
    axes, templates = sorted(shares), sorted({template for row in shares.values() for template in row})
    values = np.array([[shares[axis].get(template, np.nan) for template in templates] for axis in axes])
    weights = np.array(
        [[comb(len(members.get((axis, template), ())), 2) for template in templates] for axis in axes], dtype=float
    )
    totals = weights.sum(axis=0)
    sums = np.nansum(values * weights, axis=0)
    overall = np.divide(sums, totals, out=np.full(len(totals), np.nan), where=totals > 0)
    return TemplateValues(axes, templates, values, weights, overall, totals)


def cells_by_template(
    replies: Replies, style_probabilities: np.ndarray | StyleRows, labels: Sequence[str]
) -> dict[str, CellSums]:
    """Template → the sums of its cells; style vectors are read once, in blocks of rows.

    Args:
        replies: The replies.
        style_probabilities: [replies, styles] their style vectors, in memory or in files.
        labels: [styles] names of the styles.
    """
    cells = {template: CellSums(labels, keep_replies=False) for template in sorted(set(replies.templates))}
    for first in range(0, len(replies.ids), _BATCH):
        block = style_probabilities[first : first + _BATCH].astype(np.float32)
        rows_of: dict[str, list[int]] = {}
        for row, template in enumerate(replies.templates[first : first + _BATCH]):
            rows_of.setdefault(template, []).append(row)
        for template, rows in rows_of.items():
            descriptors, templates, axes = (
                [column[first + row] for row in rows]
                for column in (replies.descriptors, replies.templates, replies.axes)
            )
            cells[template].add(block[rows], descriptors, templates, axes)
    return cells


def gen_bias_by_template(cells: Mapping[str, CellSums], axes: Sequence[str], *, debias: bool) -> TemplateValues | None:
    """Full Gen Bias (×1000) of each template alone; `None` if it cannot be debiased, as no cell has a second reply.

    Args:
        cells: Template → the sums of its cells.
        axes: All axes of the replies.
        debias: Whether sampling noise is subtracted.
    """
    values = np.full((len(axes), len(cells)), np.nan)
    overall = np.full(len(cells), np.nan)
    for column, sums in enumerate(cells.values()):
        if len(sums.cells()) < 2:
            continue
        if debias and gen_bias(sums).noise_floor is None:
            return None
        bias = gen_bias(sums, debias=debias)
        overall[column] = bias.full_gen_bias
        for row, axis in enumerate(axes):
            value = (bias.by_axis or {}).get(axis)
            values[row, column] = np.nan if value is None else value
    known = ~np.isnan(values)
    has_value = known.any(axis=1)
    return TemplateValues(
        [axis for axis, kept in zip(axes, has_value, strict=True) if kept],
        list(cells),
        values[has_value],
        known[has_value].astype(float),
        overall,
        (~np.isnan(overall)).astype(float),
    )


def _splits(number: int, seed: int) -> np.ndarray:
    """[splits, 2, templates] of 0 and 1: all splits if there are at most `NUM_HALVES`, else random ones."""
    half = number // 2
    splits: list[tuple[Sequence[int], Sequence[int]]] = []
    if _num_splits(number) <= NUM_HALVES:
        for first in combinations(range(number), half):
            others = [template for template in range(number) if template not in first]
            splits += [(first, second) for second in combinations(others, half) if first[0] < second[0]]  # each once
    else:
        generator = np.random.default_rng(seed)
        for _ in range(NUM_HALVES):
            order = generator.permutation(number).tolist()
            splits.append((order[:half], order[half : 2 * half]))
    marks = np.zeros((len(splits), 2, number))
    for row, split in enumerate(splits):
        for side, templates in enumerate(split):
            marks[row, side, list(templates)] = 1
    return marks


def _num_splits(number: int) -> int:
    half = number // 2
    return comb(number, half) * comb(number - half, half) // 2


def _weighted(values: np.ndarray, weights: np.ndarray, marks: np.ndarray) -> np.ndarray:
    """[sets] weighted means of `values` ([templates]) over the marked templates of each ([sets, templates])."""
    total = marks @ weights
    sums = marks @ (np.where(weights > 0, values, 0.0) * weights)
    return np.divide(sums, total, out=np.full(len(marks), np.nan), where=total > 0)


def _mean_rank_correlation(first: np.ndarray, second: np.ndarray) -> float | None:
    """Mean of Spearman's rho over rows ([rows, axes]) in which neither side is constant; `None`: there are none."""
    if first.shape[1] < 2:
        return None
    one, other = (stats.rankdata(side, axis=1) - (side.shape[1] + 1) / 2 for side in (first, second))
    lengths = np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1)
    known = lengths > 0
    return float(((one * other).sum(axis=1)[known] / lengths[known]).mean()) if known.any() else None


def _same_highest(first: np.ndarray, second: np.ndarray) -> float | None:
    if first.shape[1] < 2:
        return None
    return float((first.argmax(axis=1) == second.argmax(axis=1)).mean())


def _nullable(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
