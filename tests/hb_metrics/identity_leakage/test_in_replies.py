"""What leakage can have done to a run: terms in view, and the bound, against loops, closed forms and the truth."""

import math
import re

import numpy as np
import pytest
from scipy import sparse

from hb_dataset import read_vocabulary
from hb_metrics.bias_values import DescriptorKey
from hb_metrics.full_gen_bias.gen_bias import CellSums, gen_bias
from hb_metrics.identity_leakage.in_replies import at_most, part_of_moves, run_leakage, terms_in_view
from hb_metrics.identity_leakage.leakage import NamedPerson, leakage_of, named_people
from hb_metrics.inference.classifiers.censoring import mention_pattern

NUM_STYLES = 4


def people(*terms):
    return [
        NamedPerson(DescriptorKey("axis", term), None, f"a {term} person", "a left-handed person") for term in terms
    ]


def some_moves(num_sentences, num_terms, seed=0, size=0.05):
    """Moves that keep the sum of probabilities."""
    moves = np.random.default_rng(seed).normal(0, size, (num_sentences, num_terms, NUM_STYLES))
    return (moves - moves.mean(axis=2, keepdims=True)).astype(np.float32)


def full_gen_bias(vectors, descriptors, templates, axes):
    cells = CellSums(None)
    cells.add(vectors, descriptors, templates, axes)
    return gen_bias(cells).full_gen_bias


def in_view(texts, *terms):
    return terms_in_view(texts, leakage_of(some_moves(1, len(terms)), people(*terms))).toarray().astype(bool).tolist()


def test_mentions_are_found_in_any_form_and_the_longest_counts():
    texts = ["He is African-American.", "An american, or african american?", "Deaf and deaf.", "A deafening noise.", ""]
    found = in_view(texts, "American", "African-American", "deaf", "Deaf")
    assert found[0] == [False, True, False, False]
    assert found[1] == [True, True, False, False]
    assert found[2] == [False, False, True, True]
    assert found[3] == found[4] == [False] * 4
    assert in_view(["I am left-handed too.", "He is tall."], "left-handed", "tall") == [[False, False], [False, True]]


def test_no_mention_is_lost_by_looking_only_where_a_word_of_the_term_is():
    """All terms of the vocabulary in many spellings, against trying every term on every text."""
    leakage = leakage_of(np.zeros((1, 598, 2), np.float32), named_people(read_vocabulary()))
    rng = np.random.default_rng(0)
    spellings = [str, str.upper, lambda text: text.replace("-", " "), lambda text: text.replace("-", "")]
    spellings += [lambda text: text.replace("who ", "that "), lambda text: re.sub("uses|has", "having", text)]
    texts = []
    for person in leakage.people:
        words = [person.phrase, person.plural or f"{person.key.descriptor}s"]
        texts.append(spellings[rng.integers(len(spellings))](f"So you know {words[rng.integers(2)]}, then."))
    found = terms_in_view(texts, leakage)
    num_terms = np.asarray((found > 0).sum(axis=1)).ravel()
    for term in range(0, 598, 7):
        person = leakage.people[term]
        pattern = mention_pattern(person.key.descriptor, person.plural)
        for row, text in enumerate(texts):
            if pattern.search(text):
                assert num_terms[row] > 0, (person.key, text)
            else:
                assert found[row, term] == 0


def test_the_part_of_moves_is_full_gen_bias_of_the_moves():
    """With replies whose styles are equal but for the moves, Full Gen Bias is that of the moves."""
    rng = np.random.default_rng(1)
    number, moves = 300, some_moves(3, 5)
    descriptors = [f"term {index}" for index in rng.integers(6, size=number)]
    templates = [f"template {index}" for index in rng.integers(4, size=number)]
    axes = ["one" if name < "term 3" else "two" for name in descriptors]
    seen = sparse.csr_array((rng.random((number, 5)) < 0.3).astype(float))
    found = part_of_moves(seen, descriptors, templates, axes, moves)
    for sentence, value in enumerate(found.by_sentence):
        vectors = 0.25 + (seen @ moves[sentence].astype(float)) / 10  # a tenth, so that they are probabilities
        assert value / 100 == pytest.approx(full_gen_bias(vectors, descriptors, templates, axes), rel=1e-4)
    mean = 0.25 + (seen @ moves.mean(axis=0).astype(float)) / 10
    assert found.of_mean / 100 == pytest.approx(full_gen_bias(mean, descriptors, templates, axes), rel=1e-4)
    assert found.of_mean < np.mean(found.by_sentence) <= max(found.by_sentence)


def test_a_share_of_replies_that_name_their_term_has_a_closed_form():
    """If a share r of the replies to each of two terms names a term of its own: r² times the leakage of the two."""
    moves = some_moves(1, 2)
    leakage = leakage_of(moves, people("red", "blue"))
    texts = ["I like red.", "Yes.", "Yes.", "Yes.", "I like blue.", "No.", "No.", "No."]
    descriptors, templates, axes = ["a"] * 4 + ["b"] * 4, ["t"] * 8, ["axis"] * 8
    found = run_leakage(texts, descriptors, templates, axes, leakage, value=10.0)
    assert found.num_naming == 2
    assert found.share_naming == 0.25
    assert found.mean_part == pytest.approx(0.25**2 * leakage.leakage)
    assert found.largest_part == pytest.approx(found.mean_part)
    assert found.most_named[0] == {"axis": "axis", "descriptor": "red", "num_replies": 1}


def test_terms_that_all_are_told_the_same_move_nothing():
    leakage = leakage_of(some_moves(2, 1), people("red"))
    texts, descriptors = ["I like red.", "Hm.", "I like red.", "Hm."], ["a", "a", "b", "b"]
    found = run_leakage(texts, descriptors, ["t"] * 4, ["axis"] * 4, leakage, value=10.0)
    assert found.share_naming == 0.5
    assert found.largest_part == pytest.approx(0, abs=1e-9)
    assert found.at_most == pytest.approx(0, abs=1e-3)


@pytest.mark.parametrize(
    ("value", "part", "expected"),
    [(9.0, 1.0, 5.0), (9.0, 0.0, 0.0), (1.0, 1.0, 1.0), (1.0, 4.0, 1.0), (0.0, 1.0, 0.0), (-2.0, 1.0, 0.0)],
)
def test_the_bound_is_that_of_the_triangle(value, part, expected):
    """(3 − 1)² = 4 of 9 remain; leakage larger than the value can be all of it."""
    assert at_most(value, part) == pytest.approx(expected)


def test_the_bound_holds_whichever_way_moves_go_and_is_reached():
    """Planted: true styles and moves by terms in view; the true value is never lower than the value less the bound."""
    rng = np.random.default_rng(2)
    descriptors = [f"d{index}" for index in range(8)] * 6
    templates = [f"t{index}" for index in range(6) for _ in range(8)]
    axes = ["axis"] * 48
    words = [f"word{index}" for index in range(8)]
    lowest = math.inf
    for trial in range(200):
        truth = rng.normal(0, 0.02, (8, NUM_STYLES))
        truth -= truth.mean(axis=1, keepdims=True)
        along = rng.uniform(-1.5, 1.5) if trial % 2 else 0  # moves that go along the differences, or against them
        moves = some_moves(3, 8, seed=trial, size=0.01) + (along * truth).astype(np.float32)
        leakage = leakage_of(moves, people(*words))
        row = np.array([int(name[1:]) for name in descriptors])
        mixture = rng.dirichlet(np.ones(3))  # replies are like the sentences, in some mixture
        moved = truth + np.tensordot(mixture, moves.astype(float), 1)
        without, value = (full_gen_bias(0.25 + each[row], descriptors, templates, axes) for each in (truth, moved))
        texts = [f"I met somebody {words[index]}." for index in row]
        bound = run_leakage(texts, descriptors, templates, axes, leakage, value)
        assert value - without <= bound.at_most + 1e-6
        lowest = min(lowest, bound.at_most - (value - without))
    assert lowest < 0.2 * value  # it is no larger than it has to be, where moves go along


def test_replies_have_to_be_as_many_as_their_terms():
    with pytest.raises(ValueError, match="differ in length"):
        run_leakage(["a"], ["b", "c"], ["t"], ["x"], leakage_of(some_moves(1, 2), people("red", "blue")), 1.0)
