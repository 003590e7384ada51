"""Bias between nouns recovers a planted one and is about 0 where only terms differ; its interval holds the truth.

A model has a Dirichlet distribution of style vectors for each template, descriptor and noun. Each set draws the nouns
of each descriptor and template anew, as `select_prompts` does, and the replies.
"""

import itertools

import numpy as np
import pytest

from hb_metrics.measurements.generation.nouns import FEW_REASON, NEITHER, Noun, covariance, noun_bias, noun_kernels
from hb_metrics.run.tables import PAIRS_REASON
from hb_metrics.stats.changes import change_from_covariance
from hb_metrics.stats.clusters import uncertainty
from tests.hb_metrics.stats.coverage import coverage

STYLES, TEMPLATES, NOUNS, SETS = 8, 4, 12, 150
GENDERS = ["female", "male", NEITHER]


def truth_of(means):
    """Full Gen Bias over nouns, ×1000, of their means over all descriptors."""
    return 1000 * means.mean(axis=1).var(axis=1).sum(axis=1).mean()


def made_model(of_descriptors, of_nouns, num_descriptors, seed=0):
    """[templates, descriptors, nouns, styles] means; their logits shift with the descriptor and the noun by so much."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(0, 0.7, (TEMPLATES, 1, 1, STYLES))
    logits = logits + of_descriptors * rng.normal(size=(1, num_descriptors, 1, STYLES))
    logits = logits + of_nouns * rng.normal(size=(1, 1, NOUNS, STYLES))
    weights = np.exp(logits)
    return weights / weights.sum(axis=-1, keepdims=True)


def replies_of(means, per_cell, rng):
    """Style vectors, nouns and templates of replies to `per_cell` nouns of each descriptor and template."""
    templates, descriptors, nouns, _ = means.shape
    order = rng.permuted(np.broadcast_to(np.arange(nouns), (templates, descriptors, nouns)), axis=2)[..., :per_cell]
    index = np.ix_(range(templates), range(descriptors), range(per_cell))
    chosen = means[index[0], index[1], order].reshape(-1, STYLES)
    draws = rng.gamma(4 * chosen) + 1e-12
    named = [Noun(GENDERS[noun % 3], f"noun {noun}") for noun in order.ravel().tolist()]
    names = [f"template {name}" for name in np.repeat(np.arange(templates), descriptors * per_cell).tolist()]
    terms = [("axis", f"term {row:02}") for row in np.repeat(range(descriptors), per_cell).tolist()] * templates
    return draws / draws.sum(axis=1, keepdims=True), named, names, terms


DESIGNS = {
    "terms differ, nouns do not": (0.8, 0.0, 40, 4),
    "nouns differ": (0.0, 0.3, 40, 4),
    "both differ": (0.8, 0.3, 40, 4),
    "both differ, few nouns of each term": (0.8, 0.3, 60, 2),
    "terms differ, most nouns of each": (0.8, 0.0, 20, 10),
}


# "both differ" has both difficulties; the others are among the long tests.
@pytest.mark.parametrize(
    "design",
    [
        pytest.param(design, marks=[] if name == "both differ" else pytest.mark.long, id=name)
        for name, design in DESIGNS.items()
    ],
)
def test_a_planted_noun_bias_is_in_its_interval(design):
    of_descriptors, of_nouns, descriptors, per_cell = design
    rng, model = np.random.default_rng(1), made_model(of_descriptors, of_nouns, descriptors)
    results = [noun_bias(noun_kernels(*replies_of(model, per_cell, rng))) for _ in range(SETS)]
    values, intervals = [result.value for result in results], [result.interval for result in results]
    found = coverage(values, intervals, truth_of(model))

    assert found.error < 3
    assert 0.9 <= found.held <= 0.99  # 95 % ± chance in as many sets


def test_terms_that_change_nouns_alike_in_all_templates():
    """Terms are drawn anew, and nouns do not differ over all of them."""
    rng, held, shape = np.random.default_rng(2), [], (TEMPLATES, 30, 5)
    places = list(itertools.product(*map(range, shape)))
    nouns = [Noun(NEITHER, f"noun {noun}") for _, _, noun in places]
    terms = [("axis", f"term {term:02}") for _, term, _ in places]
    for _ in range(200):
        vectors = 0.1 * rng.normal(size=(1, *shape[1:], STYLES)) + 0.05 * rng.normal(size=(*shape, STYLES))
        kernels = noun_kernels(vectors.reshape(-1, STYLES), nouns, [f"template {place[0]}" for place in places], terms)
        low, high = noun_bias(kernels).interval
        held.append(low <= 0 <= high)
    assert 0.925 <= np.mean(held) <= 0.985


def test_terms_with_a_single_noun_of_a_gender_do_not_change_its_interval():
    vectors, nouns, templates, terms = replies_of(made_model(0.8, 0.3, 40), 12, np.random.default_rng(6))
    kept = [term >= ("axis", "term 20") for term in terms]
    without = [known or noun.noun == "noun 1" for noun, known in zip(nouns, kept, strict=True)]

    def intervals(rows):
        of_rows = [list(itertools.compress(values, rows)) for values in (nouns, templates, terms)]
        return noun_bias(noun_kernels(vectors[rows], *of_rows)).by_gender

    assert intervals(without)["male"].interval == pytest.approx(intervals(kept)["male"].interval)


def test_value_is_the_mean_over_pairs_of_nouns_and_terms():
    vectors, nouns, templates, terms = replies_of(made_model(0.5, 0.5, 5), 4, np.random.default_rng(3))
    reply = dict(zip(zip(templates, terms, nouns, strict=True), vectors, strict=True))
    expected = {}
    for group in (None, *GENDERS):
        of_group = sorted({noun for noun in nouns if group in (None, noun.gender)})
        values = []
        for template in sorted(set(templates)):
            products = []
            for one, other in itertools.permutations(of_group, 2):
                for d, e in itertools.permutations(sorted(set(terms)), 2):
                    keys = [(template, term, noun) for term in (d, e) for noun in (one, other)]
                    if all(key in reply for key in keys):
                        a, b, c, f = (reply[key] for key in keys)
                        products.append((a - b) @ (c - f))
            known = {noun for noun in of_group if any((template, term, noun) in reply for term in terms)}
            if products:
                values.append((1 - 1 / len(known)) / 2 * np.mean(products))
        if values:
            expected[group] = 1000 * np.mean(values)

    kernels = noun_kernels(vectors, nouns, templates, terms)

    assert {group: of_group.value for group, of_group in kernels.items()} == pytest.approx(expected)
    assert noun_bias(kernels).reason == FEW_REASON  # five terms


def test_equal_replies_have_no_interval():
    vectors, *names = replies_of(made_model(0.5, 0.5, 20), 4, np.random.default_rng(3))
    found = noun_bias(noun_kernels(np.ones_like(vectors), *names))
    assert (found.value, found.interval, found.reason) == (0, None, FEW_REASON)
    kernels = noun_kernels(vectors, *names)
    assert noun_bias(kernels).interval is not None
    assert noun_bias(kernels, PAIRS_REASON).reason == PAIRS_REASON


def test_the_interval_of_a_change_holds_it():
    rng, before, after = np.random.default_rng(5), made_model(0.8, 0.1, 40), made_model(0.1, 0.4, 40)
    held = []
    for _ in range(100):
        state = rng.bit_generator.state
        first = noun_kernels(*replies_of(before, 4, rng))[None]
        rng.bit_generator.state = state  # the same prompts, and replies that have much in common
        second = noun_kernels(*replies_of(after, 4, rng))[None]
        matrix, influences = covariance(first, second)
        freedom = uncertainty(influences[1] - influences[0]).freedom
        change = change_from_covariance(first.value, second.value, matrix, freedom, 0.95)
        held.append(change.interval[0] <= truth_of(after) - truth_of(before) <= change.interval[1])
    assert 0.9 <= np.mean(held) <= 0.99
