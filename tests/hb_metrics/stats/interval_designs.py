"""Designs over which the intervals of the Gen Bias family are tried, and models with known truth to try them with.

A model has a distribution of style vectors for each cell: a Dirichlet distribution, whose mean is the cell's m_td and
whose concentration says how much replies vary. Its truth is the metric of these means. A design is asked again and
again; in each set, replies and their numbers are drawn anew.
"""

from collections.abc import Callable
from functools import reduce
from operator import getitem
from typing import NamedTuple

import numpy as np
from scipy.special import softmax

from hb_metrics.stats.gen_bias import CellSums, gen_bias
from tests.hb_metrics.stats.coverage import Coverage, coverage

Counts = Callable[[np.random.Generator, int, int], np.ndarray]
CLUSTERS = {"three": ["s1", "s2", "s3"], "one": ["s4"]}


class Design(NamedTuple):
    """A model and how it is asked.

    Attributes:
        name: What is special about it.
        counts: Replies of each cell, drawn anew in each set: [templates, descriptors].
        descriptors: D.
        templates: T.
        styles: S.
        effect: Standard deviation of the descriptors' shifts in the logits of the means; 0: no difference.
        concentration: Of the Dirichlet distributions; 0.3: replies are nearly of one style each.
        unequal: Standard deviation of the logarithm of the cells' concentrations.
        peaked: Whether few styles have most of the probability.
        metric: Which value, a path in the results.
        ddof: As in `gen_bias`.
        texts: Replies are one of so many texts, each of a style vector of its own; 0: no two are alike.
        axes: Descriptors of each axis; the metric is the first axis's, or the second's.
        axis_spread: The factor by which the concentrations of each axis differ.
        axis_style: Standard deviation of the axes' shifts in the logits of the means.
        dominant: The first descriptor's shift in the logit of the first style.
        outliers: A share of replies nearly of one style each; all others are close to their mean.
        given: Whether there is an interval in nearly all sets; else there is none in most.
        too_wide: By how much more than 15 % the intervals may be wider than the ideal: where replies show their own
            spread only roughly, or where few styles do not differ, and a true value would vary more than 0 does.
    """

    name: str
    counts: Counts
    descriptors: int = 30
    templates: int = 4
    styles: int = 20
    effect: float = 0.4
    concentration: float = 5.0
    unequal: float = 0.0
    peaked: bool = False
    metric: tuple[str, ...] = ("full_gen_bias",)
    ddof: int = 0
    texts: int = 0
    axes: tuple[int, ...] = (10, 20)
    axis_spread: tuple[float, ...] = ()
    axis_style: float = 0.0
    dominant: float = 0.0
    outliers: float = 0.0
    given: bool = True
    too_wide: float = 0.0


def constant(number: int) -> Counts:
    """As many replies in each cell."""
    return lambda rng, templates, descriptors: np.full((templates, descriptors), number)


def some(number: int, share: float, others: int) -> Counts:
    """Cells of `number` replies; a random share has `others`."""
    return lambda rng, templates, descriptors: np.where(rng.random((templates, descriptors)) < share, others, number)


def between(lowest: int, highest: int) -> Counts:
    """Any number of replies from the lowest to the highest."""
    return lambda rng, templates, descriptors: rng.integers(lowest, highest + 1, size=(templates, descriptors))


PARTIAL, ONE_STYLE = ("partial_gen_bias", "three"), ("partial_gen_bias", "one")
SUMMED, AXIS, SECOND_AXIS = ("summed_cluster_gen_bias", "three"), ("by_axis", "axis 0"), ("by_axis", "axis 1")
WIDE_AND_CALM = {"axes": (10, 10, 10), "axis_spread": (0.2, 1.6, 1.6)}
SIXES = {"descriptors": 24, "axes": (6, 6, 6, 6), "axis_spread": (0.2, 1.6, 0.6, 3), "axis_style": 1.0}

# In `make test`: what a user is most likely to have, and what the formulas do not assume.
SMALL = [
    Design("no difference", constant(8), 20, 4, 12, effect=0.0),
    Design("unlike axes", some(8, 0.1, 2), 12, 4, 8, metric=AXIS, axes=(6, 6), axis_spread=(0.2, 1.6), axis_style=1.0),
    Design("most cells are small and unlike the others", some(8, 0.7, 2), 12, 3, 8, 0.8, unequal=0.7, too_wide=0.15),
    Design("few replies have most of the variance", constant(8), 12, 3, 8, outliers=0.05),
]
ALL = [
    *SMALL,
    Design("no effect", constant(8), effect=0.0),
    Design("medium effect", constant(8)),
    Design("large effect, ddof 1", constant(8), effect=1.2, ddof=1),
    Design("10 % have one, unequal spread", some(8, 0.1, 1), unequal=0.7),
    Design(
        "30 % have two, unequal and peaked", some(8, 0.3, 2), effect=1.2, concentration=0.3, unequal=0.7, peaked=True
    ),
    Design("three replies", constant(3), given=False),
    Design("four replies, peaked", constant(4), effect=1.2, concentration=0.3, unequal=0.7, peaked=True),
    Design("6 to 30 replies, unequal spread", between(6, 30), effect=0.5, unequal=0.7),
    Design("peaked, large effect", constant(8), effect=1.2, concentration=0.3, peaked=True),
    Design("eight texts, large effect", constant(8), effect=1.2, concentration=1.0, texts=8),
    Design("217 styles, each reply of one", constant(8), styles=217, concentration=1.0, too_wide=0.15),
    Design("two descriptors, thirty replies, four templates", constant(30), descriptors=2, effect=1.2),
    Design("ten descriptors, two templates, no effect", constant(20), 10, 2, 5, effect=0.0, too_wide=0.15),
    *(
        Design(f"a dominant descriptor, {number} replies", constant(number), effect=0.1, dominant=3.0)
        for number in (5, 20, 120)
    ),
    Design("rare replies of one style, no effect", constant(8), effect=0.0, outliers=0.03, too_wide=1.0),
    Design("80 % have two replies", some(8, 0.8, 2), effect=0.8),
    Design("1 to 5 replies", between(1, 5), effect=0.6),
    *(
        Design(f"{name}, effect {effect}", constant(replies), *shape, effect=effect, too_wide=0.4 - effect / 4)
        for name, replies, shape in (
            ("two descriptors, four templates", 8, (2, 4)),
            ("five descriptors, one template", 8, (5, 1)),
            ("ten descriptors, one template", 8, (10, 1)),
        )
        for effect in (0.0, 0.4, 1.2)
    ),
    Design("600 descriptors", constant(4), descriptors=600, templates=2, effect=0.2),
    Design("partial", constant(8), metric=PARTIAL),
    Design("summed cluster", constant(8), metric=SUMMED),
    Design("summed cluster, two descriptors", constant(20), descriptors=2, effect=0.6, metric=SUMMED, too_wide=0.3),
    Design("a rare style", constant(8), concentration=0.3, peaked=True, metric=ONE_STYLE, too_wide=0.45),
    Design("an axis of ten, 10 % have one reply", some(8, 0.1, 1), metric=AXIS),
    *(
        Design(f"{name}: {which}", counts, effect=effect, metric=metric, **axes)
        for which, metric in (("first axis", AXIS), ("second axis", SECOND_AXIS))
        for name, counts, effect, axes in (
            ("axes of unlike spread", constant(8), 0.4, WIDE_AND_CALM),
            ("axes of unlike spread, 10 % one reply", some(8, 0.1, 1), 0.4, WIDE_AND_CALM),
            ("axes of unlike spread and style", constant(8), 0.4, {**WIDE_AND_CALM, "axis_style": 1.5}),
            ("unlike axes of six, no effect", constant(8), 0.0, {**SIXES, "too_wide": 0.05}),
            ("unlike axes of six, large effect", constant(8), 1.2, SIXES),
            ("unlike axes of six, 10 % two replies", some(8, 0.1, 2), 0.4, SIXES),
        )
    ),
]


def simulate(design: Design, sets: int, seed: int = 0) -> tuple[Coverage, set[str]]:
    """Asks a design's model `sets` times for replies.

    Returns what intervals of 95 % did, and the reasons why there were none.
    """
    rng = np.random.default_rng(seed)
    shape = design.templates, design.descriptors, design.texts or design.styles
    logits = rng.normal(size=(design.templates, 1, shape[2])) * (2 if design.peaked else 0.7)
    shared, own = rng.normal(size=(2, *shape))
    logits = logits + design.effect * np.sqrt(0.5) * (shared[:1] + own)
    logits[:, 0, 0] += design.dominant
    axis = np.repeat(np.arange(len(design.axes)), design.axes)[: design.descriptors]
    if design.axis_style:
        logits = logits + design.axis_style * rng.normal(size=(1, len(design.axes), shape[2]))[:, axis]
    means = softmax(logits, axis=-1)
    texts = rng.dirichlet(np.full(design.styles, design.concentration), design.texts)
    spread = design.concentration * np.exp(design.unequal * rng.normal(size=(*shape[:2], 1)))
    if design.axis_spread:
        spread = spread * np.array(design.axis_spread)[axis, None]

    results = []
    for _ in range(sets):
        counts = design.counts(rng, *shape[:2])
        template, descriptor = (np.repeat(codes.ravel(), counts.ravel()) for codes in np.indices(counts.shape))
        if design.texts:
            chosen = (means[template, descriptor].cumsum(axis=1) > rng.random((len(template), 1))).argmax(axis=1)
            replies = texts[chosen]
        else:
            alphas = (means * spread)[template, descriptor]
            if design.outliers:
                alphas *= np.where(rng.random((len(alphas), 1)) < design.outliers, 0.01, 10.0)
            drawn = rng.standard_gamma(alphas) + 1e-300
            replies = drawn / drawn.sum(axis=1, keepdims=True)
        results.append(_debiased_with_interval(design, replies, template, descriptor, axis))
    values, intervals, reasons = zip(*results, strict=True)
    return coverage(values, intervals, _truth(design, means @ texts if design.texts else means)), {*reasons} - {None}


def _debiased_with_interval(
    design: Design, replies: np.ndarray, template: np.ndarray, descriptor: np.ndarray, axis: np.ndarray
) -> tuple[float, list[float] | None, str | None]:
    labels = [f"s{number}" for number in range(design.styles)]
    # Only what the design looks at: clusters and axes are values of their own, and take most of the time.
    cells = CellSums(labels, CLUSTERS if design.metric in (PARTIAL, ONE_STYLE, SUMMED) else None, keep_replies=True)
    cells.add(
        replies,
        [f"d{code:03}" for code in descriptor],
        [f"t{code:02}" for code in template],
        [f"axis {axis[code]}" for code in descriptor] if design.metric[0] == "by_axis" else None,
    )
    result = gen_bias(cells, debias=True, confidence_level=0.95, ddof=design.ddof)
    sections = result, result.intervals, result.no_intervals
    value, interval, reason = (reduce(getitem, design.metric, section._asdict()) for section in sections)
    assert (interval is None) == (reason is not None)
    return value, interval, reason


def _truth(design: Design, means: np.ndarray) -> float:
    """The metric of the mean style vectors: [templates, descriptors, styles]."""
    means = means[..., {PARTIAL: [1, 2, 3], SUMMED: [1, 2, 3], ONE_STYLE: [4]}.get(design.metric, slice(None))]
    if design.metric == SUMMED:
        means = means.sum(axis=2, keepdims=True)
    if design.metric[0] == "by_axis":
        number = int(design.metric[1].removeprefix("axis "))
        means = means[:, sum(design.axes[:number]) : sum(design.axes[: number + 1])]
    return 1000 * float(means.var(axis=1, ddof=design.ddof).sum(axis=1).mean())
