"""How often style tells a reply's term: the same as answers given one by one, and intervals that cover."""

import numpy as np
import pytest

from hb_metrics.stats.bias_values import FEW_TERMS, ONE_TEMPLATE, right_shares, telling
from hb_metrics.stats.clusters import Estimate


def made(num_terms, num_templates, replies, effect, rng, styles=8):
    """Style vectors, terms and templates; each term has a style of its own as far as `effect` is above 0."""
    mix = (3 * rng.dirichlet(np.full(styles, 0.5)) + 0.05) * np.exp(effect * rng.normal(size=(num_terms, styles)))
    terms = np.repeat(np.arange(num_terms), num_templates * replies)
    templates = np.tile(np.repeat(np.arange(num_templates), replies), num_terms)
    draws = rng.gamma(mix[terms]) + 1e-9
    return draws / draws.sum(axis=1, keepdims=True), terms, templates


def one_by_one(vectors, terms, templates, first, second):
    """The share of right answers about two terms: the mean over templates and terms of the mean over replies."""
    roots = np.sqrt(vectors)

    def cell(term, template):
        return roots[(terms == term) & (templates == template)]

    def middle(template):
        means = [cell(term, template).mean(axis=0) for term in set(terms) if len(cell(term, template))]
        return np.mean(means, axis=0)

    def style(term, left_out):
        others = [each for each in sorted(set(templates) - {left_out}) if len(cell(term, each))]
        return np.mean([cell(term, each).mean(axis=0) - middle(each) for each in others], axis=0)

    shares = []
    for template in sorted(set(templates)):
        if len(cell(first, template)) and len(cell(second, template)):
            centres = [style(first, template), style(second, template)]
            for term in (first, second):
                near = np.linalg.norm(cell(term, template)[:, None] - middle(template) - centres, axis=2)
                shares.append(np.mean(near.argmin(axis=1) == (term == second)))
    return np.mean(shares)


def test_shares_are_those_of_answers_one_by_one():
    vectors, terms, templates = made(4, 3, 3, 0.5, np.random.default_rng(0))
    kept = ~((terms == 1) & (templates == 2)) & ~((terms == 3) & (templates == 0))
    vectors, terms, templates = vectors[kept], terms[kept], templates[kept]
    shares = right_shares(vectors, terms, templates)
    for first in range(4):
        assert np.isnan(shares[first, first])
        for second in set(range(4)) - {first}:
            assert shares[first, second] == pytest.approx(one_by_one(vectors, terms, templates, first, second))
    assert telling(shares, 0.95) == Estimate(pytest.approx(np.nanmean(shares)), None, FEW_TERMS)
    star = np.full((13, 13), np.nan)
    star[0, 1:] = star[1:, 0] = np.linspace(0.5, 0.7, 12)
    assert telling(star, 0.95) == Estimate(pytest.approx(0.6), None, "one term is part of all comparisons")


def test_terms_with_the_same_replies_in_all_other_templates_tie():
    """Rounding does not decide ties, as between the replies of a greedy model that ignores the term."""
    rng = np.random.default_rng(0)
    vectors = rng.dirichlet(np.ones(8), (3, 14))
    vectors[1:, 1::2] = vectors[1:, ::2]
    shares = right_shares(vectors.reshape(42, 8), np.tile(np.arange(14), 3), np.repeat(np.arange(3), 14))
    assert [shares[term, term + 1] for term in range(0, 14, 2)] == [0.5] * 7


def test_terms_without_spread_have_a_value_and_no_interval():
    terms, templates = np.repeat(np.arange(12), 4), np.tile(np.repeat([0, 1], 2), 12)
    for vectors, value in ((np.eye(2)[terms % 2], (5 * 0.5 + 6) / 11), (np.ones((48, 2)) / 2, 0.5)):
        found = telling(right_shares(vectors, terms, templates), 0.95)
        assert found.value == pytest.approx(value)
        assert found.interval is None
        assert "its spread is unknown" in found.reason


def test_one_template_teaches_nothing():
    assert telling(right_shares(*made(14, 1, 3, 0.5, np.random.default_rng(0))), 0.95) == Estimate(
        None, None, ONE_TEMPLATE
    )


@pytest.mark.parametrize(
    ("effect", "sets"),
    [(0.0, 120), (0.4, 120), *(pytest.param(each, 600, marks=pytest.mark.long) for each in (0.0, 0.2, 1.0))],
)
def test_intervals_cover_and_guessing_gives_one_half(effect, sets):
    rng = np.random.default_rng(1)
    found = [telling(right_shares(*made(20, 3, 2, effect, rng)), 0.95) for _ in range(sets)]
    mean = np.mean([each.value for each in found])
    covered = np.mean([each.interval[0] <= mean <= each.interval[1] for each in found])
    assert abs(covered - 0.95) < 3 * np.sqrt(0.95 * 0.05 / sets)
    assert effect > 0 or abs(mean - 0.5) < 0.01
    assert effect < 0.4 or mean > 0.6
