"""Computes shares of refusals (or disclaimers) by axis and by descriptor, with intervals and tests.

Intervals cover variation between replies to the same descriptors and templates (see `reply_shares.py`). There are
two permutation tests. The test between descriptors shuffles refusals within templates, because refusals that do not
depend on the descriptor are equally likely in all replies to the same template. The test between axes shuffles the
standardised deviations of descriptors.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hb_dataset.seeded_draws import seeded_generator
from hb_metrics.run.replies import RatedReplies, cell_counts
from hb_metrics.stats.inputs import DescriptorKey
from hb_metrics.stats.reply_shares import share_interval

NUM_SHUFFLES = 1999


@dataclass(frozen=True)
class Share:
    """A share of replies, from 0 to 1, about a number of descriptors."""

    share: float
    num: int
    num_replies: int
    num_descriptors: int
    interval: tuple[float, float]


@dataclass(frozen=True)
class Shares(Share):
    """The share of all replies, and the shares by axis."""

    by_axis: dict[str, Share]


@dataclass(frozen=True)
class DescriptorCount:
    """The number of flagged replies, and the number to expect if all terms had the same share in each template."""

    axis: str
    descriptor: str
    num: int
    num_replies: int
    expected: float


@dataclass(frozen=True)
class ComparedShares(Shares):
    """The shares of replies with tests (see `refusal_shares`)."""

    by_descriptor: list[DescriptorCount]
    p_between_descriptors: float | None
    p_between_axes: float | None
    num_shuffles: int


def refusal_shares(flagged: RatedReplies, confidence_level: float, *, are_pairs: bool = False) -> ComparedShares:
    """Computes the share of refusals, or of replies with another property.

    The order of the replies does not affect the results. `by_descriptor` lists the descriptors that have at least one
    such reply, sorted by share from high to low. p-values are at least 1 / (num_shuffles + 1). They are `None` if all
    or no replies have the property, or if there is only one descriptor or axis. If the descriptors are pairs of terms
    (`are_pairs`), there is no test between axes, because pairs with a term in common are not exchangeable.
    """
    keys, counts, sizes = cell_counts(flagged)
    axis_names = [str(key.axis) for key in keys]
    per_descriptor = counts.sum(axis=1).tolist(), sizes.sum(axis=1).tolist()
    expected = (sizes * (counts.sum(axis=0) / sizes.sum(axis=0))).sum(axis=1).tolist()
    some = [row for row in range(len(keys)) if per_descriptor[0][row]]
    some.sort(key=lambda row: (-per_descriptor[0][row] / per_descriptor[1][row], -per_descriptor[0][row], keys[row]))
    between_axes = None if are_pairs else p_between_axes(counts, sizes, axis_names)
    return ComparedShares(
        **vars(_shares(keys, counts, sizes, confidence_level)),
        by_descriptor=[
            DescriptorCount(axis_names[row], keys[row].descriptor, *(of[row] for of in (*per_descriptor, expected)))
            for row in some
        ],
        p_between_descriptors=p_between_descriptors(counts, sizes),
        p_between_axes=between_axes,
        num_shuffles=NUM_SHUFFLES,
    )


def reply_shares(flagged: RatedReplies, confidence_level: float) -> Shares:
    """Computes `refusal_shares` without tests and without values by descriptor."""
    return _shares(*cell_counts(flagged), confidence_level)


def _shares(keys: Sequence[DescriptorKey], counts: np.ndarray, sizes: np.ndarray, confidence_level: float) -> Shares:
    def summary(members: np.ndarray) -> Share:
        num, replies = int(counts[members].sum()), int(sizes[members].sum())
        interval = share_interval(counts[members], sizes[members], confidence_level)
        return Share(num / replies, num, replies, int(members.sum()), interval)

    names = np.array([str(key.axis) for key in keys])
    by_axis = {axis: summary(names == axis) for axis in sorted(set(names.tolist()))}
    return Shares(**vars(summary(np.ones(len(keys), dtype=bool))), by_axis=by_axis)


def p_between_descriptors(counts: np.ndarray, sizes: np.ndarray, num_shuffles: int = NUM_SHUFFLES) -> float | None:
    """Tests, by shuffling within templates, whether all descriptors have the same share in each template.

    The statistic is the sum over descriptors of (number − expected number)² / variance of the number. `counts` contains
    the numbers of flagged replies, and `sizes` the numbers of all replies: [descriptors, templates].
    """
    totals, sums = sizes.sum(axis=0), counts.sum(axis=0)
    # A template adds nothing to the test if it has only one descriptor, or if all or none of its replies are flagged.
    used = (sums > 0) & (sums < totals) & ((sizes > 0).sum(axis=0) > 1)
    if not used.any():
        return None
    counts, sizes, totals, sums = counts[:, used], sizes[:, used], totals[used], sums[used]
    expected = (sizes * (sums / totals)).sum(axis=1)
    # The variance of the hypergeometric distribution.
    factor = sums * (totals - sums) / (totals**2 * (totals - 1.0))
    variance = (sizes * (totals - sizes) * factor).sum(axis=1)
    known = variance > 0

    def statistic(of_descriptors: np.ndarray) -> np.ndarray:
        return ((of_descriptors - expected)[..., known] ** 2 / variance[known]).sum(axis=-1)

    random = seeded_generator(0, "refusals between descriptors", "")
    shuffled = np.zeros((num_shuffles, len(sizes)), np.int64)
    for template, number in enumerate(sums):
        shuffled += random.multivariate_hypergeometric(sizes[:, template], number, size=num_shuffles)
    return _p_value(float(statistic(counts.sum(axis=1))), statistic(shuffled))


def p_between_axes(
    counts: np.ndarray, sizes: np.ndarray, axes: Sequence[str], num_shuffles: int = NUM_SHUFFLES
) -> float | None:
    """Tests, by shuffling deviations among descriptors, whether all axes have the same share.

    z is a descriptor's number of flagged replies minus the expected number, divided by the standard deviation. The
    expected number is computed within each template. z is shuffled rather than the numbers, because descriptors with
    more replies vary more, and may all be on one axis. The statistic is that of a score test: the sum over axes of
    (Σ weight · z)² / Σ weight². The weight is the binomial variance divided by the standard deviation.

    Returns `None` if there are fewer than two axes, or as many axes as descriptors, among the descriptors in templates
    where some replies are flagged and others are not.
    """
    totals = np.maximum(sizes.sum(axis=0), 1)
    shares = counts.sum(axis=0) / totals
    beyond = (counts - sizes * shares).sum(axis=1)
    binomial = (sizes * (1 - sizes / totals) * shares * (1 - shares)).sum(axis=1)
    known = binomial > 0
    members, beyond, binomial = np.unique(np.array(axes)[known], return_inverse=True)[1], beyond[known], binomial[known]
    number = members.max(initial=-1) + 1
    if number < 2 or number == len(members) or np.allclose(beyond, 0):
        return None
    # The variance is binomial + (variance of the log odds between descriptors) · binomial².
    of_log_odds = max(0.0, (beyond**2 - binomial).sum() / (binomial**2).sum())
    deviation = np.sqrt(binomial + of_log_odds * binomial**2)
    standardised, weights = beyond / deviation, binomial / deviation
    of_axes = np.bincount(members, weights**2)

    def statistic(order: np.ndarray) -> float:
        return float((np.bincount(members, weights * standardised[order]) ** 2 / of_axes).sum())

    random = seeded_generator(0, "refusals between axes", "")
    shuffled = np.array([statistic(random.permutation(len(members))) for _ in range(num_shuffles)])
    return _p_value(statistic(np.arange(len(members))), shuffled)


def _p_value(value: float, shuffled: np.ndarray) -> float:
    """Returns the share of shuffles with a statistic of at least `value`. The actual replies count as one shuffle."""
    return float((1 + (shuffled >= value * (1 - 1e-9)).sum()) / (1 + len(shuffled)))
