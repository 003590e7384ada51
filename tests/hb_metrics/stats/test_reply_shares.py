"""Intervals of shares of replies: closed forms, and how often they hold the share of the terms that were drawn."""

from typing import NamedTuple

import numpy as np
import pytest
from scipy import stats

from hb_metrics.stats.reply_shares import share_covariances, share_interval
from tests.hb_metrics.stats.coverage import coverage


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
        """What intervals of the mean of the drawn terms' shares did."""
        rng = np.random.default_rng(seed)
        shape = (self.terms, self.templates)
        sizes, values, intervals, truths = np.full(shape, self.number), [], [], []
        for _ in range(sets):
            shares = np.where(rng.random(self.terms) < self.part, self.share, self.rest)
            if self.kind == "beta":
                shares = rng.beta(5 * self.share, 5 * (1 - self.share), self.terms)
            hits = rng.binomial(self.number, shares[:, None], shape)
            values.append(hits.sum() / sizes.sum())
            intervals.append(share_interval(hits, sizes, 0.95))
            truths.append(shares.mean())
        return coverage(values, intervals, np.array(truths))


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
    "one reply a term": Terms("few", 0.3, terms=40, templates=1, number=1),
}


@pytest.mark.parametrize(
    ("name", "sets"),
    [("few refuse, others at times", 400), ("six terms", 400), ("one reply a term", 400)]
    + [pytest.param(name, 4000, marks=pytest.mark.long) for name in DESIGNS],
)
def test_intervals_hold_the_share_of_these_terms(name, sets):
    found = DESIGNS[name].outcome(sets)
    # Above 97.5 %: where one or two replies differ from the others of their terms.
    assert 0.935 - (sets < 4000) * 0.015 < found.held < 0.985 + (sets < 4000) * 0.005
    assert found.width < 1.2


def test_templates_that_decide_most_replies_leave_few_rare_ones():
    rng, held = np.random.default_rng(0), []
    shares = np.broadcast_to([1.0, 1.0, 1.0, 0.03], (20, 4))
    for _ in range(600):
        low, high = share_interval(rng.binomial(5, shares), np.full(shares.shape, 5), 0.95)
        held.append(low <= shares.mean() <= high)

    assert np.mean(held) > 0.93  # split by term, 0.86
