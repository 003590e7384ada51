"""Identity leakage against loops, closed forms and planted classifiers."""

from pathlib import Path

import numpy as np
import pytest

import hb_metrics
from hb_dataset import read_vocabulary
from hb_dataset.versions import read_version
from hb_metrics.measurements.identity_leakage import (
    Moved,
    NamedPerson,
    identity_leakage,
    leakage_table,
    named_people,
    shipped_sentences,
)
from hb_metrics.stats.gen_bias import CellSums, gen_bias

CLASSIFIERS = Path(hb_metrics.__file__).parent / "collect" / "classifiers"
SENTENCES = ["I met {noun_phrase}.", "You are {noun_phrase}, then."]
WORDS = ("red", "green", "blue", "tall")


def people(words=WORDS, axes=("colour", "colour", "colour", "size")):
    return [
        NamedPerson(axis, word, None, f"a {word} person", "a left-handed person")
        for axis, word in zip(axes, words, strict=True)
    ]


def planted(moves, base=0.5):
    """A classifier of two styles: a word adds its move to the probability of the first."""

    def probabilities(texts):
        first = [base + sum(move for word, move in moves.items() if word in text) for text in texts]
        return np.stack([first, 1 - np.array(first)], axis=1)

    return probabilities


def random_classifier(seed=0, styles=5):
    """Any text has a style vector of its own."""
    memory = {}

    def probabilities(texts):
        rng = np.random.default_rng([seed, *map(len, texts)])
        return np.stack([memory.setdefault(text, rng.dirichlet(np.full(styles, 0.5))) for text in texts])

    return probabilities


@pytest.mark.long
def test_the_card_of_the_embedded_classifier_has_its_leakage():
    from hb_metrics.collect.classifiers.styles import load_style_classifier

    terms = named_people(read_version("v1.0"))
    table = leakage_table(load_style_classifier("embedded").probabilities, terms, shipped_sentences())
    found = identity_leakage(table, terms)
    card = " ".join((CLASSIFIERS / "STYLE_CLASSIFIER.md").read_text(encoding="utf-8").split())
    assert f"is {found.leakage:.1f}." in card
    assert f"the same for all {len(terms)} terms of v1.0" in card
    assert f"{found.shared:.1f}, comes from effects that each term has in all sentences alike" in card
    assert f"a term moves {found.mean_move * 100:.1f} % of the probability" in card


def test_leakage_is_the_full_gen_bias_of_the_sentences():
    classify = random_classifier()
    found = identity_leakage(leakage_table(classify, people(), SENTENCES), people())
    cells = CellSums(None)
    texts, terms, templates, axes = [], [], [], []
    for sentence in SENTENCES:
        for person in people():
            texts.append(sentence.replace("{noun_phrase}", person.phrase))
            terms.append(person.descriptor)
            axes.append(person.axis)
            templates.append(sentence)
    vectors = classify(texts)
    cells.add(vectors, terms, templates, axes)
    expected = gen_bias(cells)
    assert found.leakage == pytest.approx(expected.full_gen_bias, rel=1e-5)
    assert found.by_axis["colour"] == pytest.approx(expected.by_axis["colour"], rel=1e-5)
    assert found.by_axis["size"] is None
    mean = vectors.reshape(2, 4, 5).mean(axis=0)
    total = sum(np.mean([(row[style] - mean[:, style].mean()) ** 2 for row in mean]) for style in range(5))
    assert found.shared == pytest.approx(1000 * total, rel=1e-5)
    assert found.shared < found.leakage


def test_a_planted_reaction_to_one_term_of_four_has_a_closed_form():
    """A term that moves a of the probability from one style to another: 2 a² (1/4)(3/4), and half of |a| + |a| is a."""
    found = identity_leakage(leakage_table(planted({"red": 0.2}), people(), SENTENCES), people())
    assert found.leakage == pytest.approx(1000 * 2 * 0.2**2 * 3 / 16, rel=1e-5)
    assert found.shared == pytest.approx(found.leakage, rel=1e-5)
    assert found.most_moved[0] == Moved("colour", "red", pytest.approx(0.2, rel=1e-5))
    assert found.mean_move == pytest.approx(0.05, rel=1e-5)
    assert (found.num_terms, found.num_sentences) == (4, 2)


def test_what_the_noun_does_is_not_the_terms():
    """Gendered terms stand beside another noun, and that alone moves this classifier."""
    two = people(("Latina", "tall"), ("nationality", "size"))
    two[0] = two[0]._replace(phrase="a Latina woman", neutral="a left-handed woman")
    assert identity_leakage(leakage_table(planted({"woman": 0.4}), two, SENTENCES), two).leakage == 0
    assert identity_leakage(leakage_table(planted({"Latina": 0.4}), two, SENTENCES), two).leakage > 0


def test_terms_stand_beside_a_noun_of_their_gender():
    phrases = {person.descriptor: person for person in named_people(read_vocabulary())}
    assert phrases["autistic"].phrase == "an autistic person"
    assert phrases["Latina"][3:] == ("a Latina woman", "a left-handed woman")
    assert phrases["Latino"][3:] == ("a Latino man", "a left-handed man")
    assert phrases["who uses a wheelchair"].phrase == "a person who uses a wheelchair"
    some = named_people(read_vocabulary(), {("age", "old"), ("ability", "Deaf")})
    assert [person[:2] for person in some] == [("ability", "Deaf"), ("age", "old")]
