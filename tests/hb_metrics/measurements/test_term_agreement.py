import numpy as np
import pytest

from hb_metrics.measurements.decisions import prediction
from hb_metrics.measurements.term_agreement import column_agreement
from hb_metrics.run.replies import Replies
from hb_metrics.stats.likelihood_tables import likelihood_table

WORDS = {"few": "too few terms", "no_effect": "no effect"}


def draw(rng, truth, terms=40, rows=(12, 6)):
    """Two noisy tables about terms on two axes, whose effects have the correlation `truth`."""
    effects = rng.multivariate_normal([0, 0], [[1, truth], [truth, 1]], terms)
    axes = np.repeat(["a", "b"], terms // 2)
    levels = np.where(axes == "a", 5.0, -5.0)  # axes are not compared with each other
    return [
        effects[:, side] + levels + rng.normal(0, 1, (number, terms)) + rng.normal(0, 3, (number, 1))
        for side, number in enumerate(rows)
    ], axes


@pytest.mark.parametrize("truth", [0.0, 0.7])
def test_the_correlation_is_that_without_noise(truth):
    rng, values, held = np.random.default_rng(0), [], []
    for _ in range(120):
        tables, axes = draw(rng, truth)
        found = column_agreement(*tables, axes, np.arange(40), **WORDS)
        values.append(found.value)
        held.append(found.interval[0] <= truth <= found.interval[1])
    assert np.median(values) == pytest.approx(truth, abs=0.05)
    assert np.mean(held) >= 0.92


def test_without_a_correlation_there_is_a_reason():
    tables, axes = draw(np.random.default_rng(1), 0.5)
    assert "count as only" in column_agreement(*tables, axes, np.arange(40) // 8, **WORDS).reason
    noise = np.random.default_rng(2).normal(0, 1, (3, 40))
    noise -= noise.mean(axis=0)
    assert column_agreement(tables[0], noise, axes, np.arange(40), **WORDS).reason == "no effect"


@pytest.mark.parametrize("number", [1, 2, 4])
def test_bias_values_are_without_sampling_noise(number):
    """Their mean over templates is the mean product of distances in two different templates."""
    rng = np.random.default_rng(3)
    cells = [(term, template) for term in ("x", "y", "z") for template in "ABCD"[:number] for _ in range(2)]
    terms, templates = map(list, zip(*cells, strict=True))
    vectors = rng.random((len(cells), 5))
    replies = Replies([], ["axis"] * len(cells), terms, templates, [], [])
    rows = prediction._bias_values(replies, vectors, [("axis", term) for term in "xyz"])
    means = vectors.reshape(3, number, 2, 5).mean(axis=2)
    apart = means - means.mean(axis=0)
    products = [[one[a] @ one[b] for a in range(number) for b in range(number) if a != b] for one in apart]
    assert rows.mean(axis=0) == pytest.approx([np.sum(of_term) / max(len(of_term), 1) for of_term in products])


def test_contrasts_are_favourable_minus_unfavourable_sentences():
    rng = np.random.default_rng(4)
    rows = [(term, noun, template) for term in "xyz" for noun in "mnop" for template in ("love", "hate", "know")]
    values = dict(zip(rows, rng.normal(size=len(rows)), strict=True))
    table = likelihood_table(np.array(list(values.values())), ["axis"] * len(rows), *zip(*rows, strict=True))
    found = prediction._contrasts(table, [("love", "hate")], [("axis", "z"), ("axis", "x"), ("axis", "not scored")])
    apart = {term: [values[term, noun, "love"] - values[term, noun, "hate"] for noun in "mnop"] for term in "xyz"}
    of_term = {term: np.mean(of) for term, of in apart.items()}
    assert found.shape == (4, 3)
    assert np.isnan(found[:, 2]).all()
    assert found[:, 0].mean() - found[:, 1].mean() == pytest.approx(of_term["z"] - of_term["x"])
