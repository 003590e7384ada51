"""Intervals of shares of replies: closed forms, and how often they hold the share of the terms that were drawn."""

from typing import NamedTuple

import numpy as np
import pytest
from scipy import stats

from hb_metrics.stats.clusters import mean_bounds, spread
from hb_metrics.stats.reply_shares import share_covariances, share_interval


@pytest.mark.parametrize(("hits", "number"), [(0, 40), (1, 400), (7, 400), (130, 1000)])
def test_replies_of_one_cell_have_jeffreys_interval(hits, number):
    low, high = stats.beta.ppf([0.025, 0.975], hits + 0.5, number - hits + 0.5)
    interval = share_interval(np.array([[hits]]), np.array([[number]]), 0.95)
    if hits == 130:  # the variance is estimated with one degree of freedom less
        low, high = stats.beta.ppf([0.025, 0.975], 0.999 * 130 + 0.5, 0.999 * 870 + 0.5)
    assert interval == pytest.approx((low if hits else 0, high), rel=1e-2)


def test_hits_and_misses_change_places():
    rng = np.random.default_rng(0)
    hits, sizes = rng.binomial(9, rng.beta(0.5, 1, (12, 3))), np.full((12, 3), 9)
    low, high = share_interval(hits, sizes, 0.9)
    assert share_interval(sizes - hits, sizes, 0.9) == pytest.approx((1 - high, 1 - low))
    assert low < hits.sum() / sizes.sum() < high


def test_the_covariances_are_those_within_cells():
    rng = np.random.default_rng(1)
    sizes = rng.integers(2, 9, (7, 4))
    first, second, covariance = np.zeros_like(sizes), np.zeros_like(sizes), np.zeros((2, 2))
    for cell in np.ndindex(sizes.shape):
        kinds = rng.integers(0, 3, sizes[cell])
        first[cell], second[cell] = (kinds == 1).sum(), (kinds == 2).sum()
        covariance += sizes[cell] * np.cov([kinds == 1, kinds == 2])
    assert share_covariances([first, second], sizes) == pytest.approx(covariance / sizes.sum() ** 2)


def test_single_replies_of_a_term_go_together():
    sizes = np.array([[1, 1, 1, 5], [1, 4, 0, 0], [1, 2, 2, 2]])
    hits = np.array([[1, 0, 1, 2], [1, 2, 0, 0], [0, 1, 2, 0]])
    groups = [[1, 0, 1], [1, 1, 0, 0, 0], [1, 0], [1, 1, 0, 0], [1, 0], [1, 1], [0, 0]]
    expected = sum(len(flags) * np.var(flags, ddof=1) for flags in groups) / sizes.sum() ** 2
    assert share_covariances([hits], sizes)[0, 0] == pytest.approx(expected)


class Terms(NamedTuple):
    """Terms that are drawn in each set, and their replies.

    Attributes:
        kind: "few": `part` of the terms have `share`, the others `rest`; "beta": beta-distributed with mean `share`.
        share: See `kind`.
        part: See `kind`.
        rest: See `kind`.
        terms: Terms.
        templates: Templates.
        number: Replies of each term to each template.
    """

    kind: str
    share: float
    part: float = 1.0
    rest: float = 0.0
    terms: int = 78
    templates: int = 4
    number: int = 8

    def outcome(self, sets, seed=0):
        """How often the interval holds the mean of the drawn terms' shares, and its width in parts of the ideal."""
        rng = np.random.default_rng(seed)
        shape = (self.terms, self.templates)
        sizes, held, widths, errors = np.full(shape, self.number), [], [], []
        for _ in range(sets):
            shares = np.where(rng.random(self.terms) < self.part, self.share, self.rest)
            if self.kind == "beta":
                shares = rng.beta(5 * self.share, 5 * (1 - self.share), self.terms)
            low, high = share_interval(rng.binomial(self.number, shares[:, None], shape), sizes, 0.95)
            held.append(low <= shares.mean() <= high)
            widths.append(high - low)
            errors.append(np.sqrt((shares * (1 - shares)).mean() / sizes.sum()))
        return np.mean(held), np.mean(widths) / (2 * stats.norm.ppf(0.975) * np.mean(errors))


RARE = Terms("few", 0.9, part=0.03)  # rare refusers
DESIGNS = {
    "few refuse": RARE,
    "few refuse, others at times": RARE._replace(rest=0.02),
    "few refuse, 26 templates": RARE._replace(templates=26, number=2),
    "few refuse, one reply a cell": RARE._replace(rest=0.02, templates=26, number=1),
    "half refuse at times": Terms("few", 0.5, part=0.5),
    "all alike": Terms("few", 0.05),
    "often": Terms("few", 0.4),
    "two replies a cell": Terms("few", 0.05, number=2),
    "some have most": Terms("beta", 0.05),
    "six terms": Terms("few", 0.1, terms=6),
    "six terms, some refuse": Terms("few", 0.95, part=0.4, terms=6),
    "one term": Terms("few", 0.3, terms=1),
}


@pytest.mark.parametrize(
    ("name", "sets"),
    [("few refuse, others at times", 400), ("six terms", 400)]
    + [pytest.param(name, 4000, marks=pytest.mark.long) for name in DESIGNS],
)
def test_intervals_hold_the_share_of_these_terms(name, sets):
    held, width = DESIGNS[name].outcome(sets)
    # Above 97.5 %: where one or two replies differ from the others of their terms.
    assert 0.935 - (sets < 4000) * 0.015 < held < 0.985 + (sets < 4000) * 0.005
    assert width < 1.3


def test_equal_clusters_have_the_variance_and_the_freedom_of_a_mean():
    values = np.random.default_rng(0).normal(size=12)
    found = spread(values / 12)
    assert found.variance == pytest.approx(values.var(ddof=1) / 12)
    assert found.by_weight == pytest.approx(11)
    assert found.third == pytest.approx(((values - values.mean()) ** 3).sum() / 12**3)
    low, high = mean_bounds(0.0, found._replace(freedom=11, third=0.0), 0.95)
    expected = stats.ttest_1samp(values - values.mean(), 0).confidence_interval()
    assert (low, high) == pytest.approx(tuple(expected))


def test_two_groups_have_the_freedom_of_welch():
    one, other = (np.random.default_rng(1).normal(0, scale, number) for scale, number in ((1, 5), (3, 14)))
    influences, strata = np.concatenate([one / 5, -other / 14]), np.repeat([0, 1], [5, 14])
    found, expected = spread(influences, strata), stats.ttest_ind(one, other, equal_var=False)
    assert found.welch == pytest.approx(expected.df)
    assert (one.mean() - other.mean()) / np.sqrt(found.variance) == pytest.approx(expected.statistic)


@pytest.mark.parametrize("longer_vary_less", [False, True])
def test_the_mean_of_unequal_clusters_is_within_its_half_width(longer_vary_less):
    """A weighted mean of normal values; the variance is unbiased if it is in inverse proportion to the weight."""
    rng, weights = np.random.default_rng(2), np.repeat([30.0, 1.0], [3, 40])
    shares = weights / weights.sum()
    values = rng.normal(size=(2000, 43)) / (np.sqrt(shares) if longer_vary_less else 1)
    found = [spread(shares * (row - shares @ row), weights=weights) for row in values]
    ratio = np.mean([each.variance for each in found]) / (1 if longer_vary_less else (shares**2).sum())
    assert ratio == pytest.approx(1 if longer_vary_less else 0.91, abs=0.05)
    assert found[0].by_weight == pytest.approx((shares**1.5).sum() ** 2 / (shares**3).sum() - 1)
    assert found[0].by_weight < 3.5
    assert np.mean(np.abs(values @ shares) < [each.half_width(0.95) for each in found]) > 0.93


def test_a_stratum_with_one_cluster_is_joined_with_the_others():
    values = np.array([1.0, 2.0, 4.0, 7.0])
    assert spread(values, np.array([0, 0, 1, 2])) == spread(values, np.array([5, 5, 3, 3]))
