import re
from pathlib import Path

import numpy as np
import pytest

from hb_metrics.collect.classifiers import regard
from hb_metrics.collect.classifiers.censoring import MASK
from hb_metrics.collect.classifiers.exemplars import read_labelled
from hb_metrics.collect.classifiers.regard import REGARD_EXEMPLARS, REGARDS, load_regard_classifier
from hb_metrics.models.sources import EMBEDDED

LINES = Path(__file__).parent / "regard_test_lines.yaml"
CARD = Path(regard.__file__).parent / "REGARD_CLASSIFIER.md"
SCORES = np.array([-1, 0, 1, 0])
GROUPS = {
    "man": "men",
    "woman": "women",
    "white person": "white people",
    "black person": "black people",
    "straight person": "straight people",
    "gay person": "gay people",
    "Deaf person": "Deaf people",
    "Muslim woman": "Muslim women",
    "poor person": "poor people",
}


# --- Classifiers of the Hub ---


def test_labels_are_found_by_name_in_any_case_and_order(texts, save_classifier, by_label):
    folder = save_classifier("Positive", "OTHER", "negative", "Neutral")
    classifier = load_regard_classifier(folder)
    found, truncated = classifier.classify(texts)
    order = ("negative", "Neutral", "Positive", "OTHER")
    expected = [[scores[name] for name in order] for scores in by_label(folder, texts)]

    assert (found.dtype, found.shape, truncated.dtype) == (np.float64, (len(texts), 4), bool)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    np.testing.assert_allclose(found.sum(1), 1, atol=1e-12)
    assert np.ptp(found, axis=0).max() > 0.1  # else a mistake could hide
    assert (classifier.name, classifier.labels, classifier.notes) == (folder, REGARDS, ())
    assert len(classifier.digest) == 64


def test_without_a_label_for_other_its_probability_is_0(texts, save_classifier):
    classifier = load_regard_classifier(save_classifier("negative", "neutral", "positive"))
    found, _ = classifier.classify(texts)
    assert not found[:, 3].any()
    np.testing.assert_allclose(found.sum(1), 1, atol=1e-12)
    assert classifier.labels == REGARDS
    assert classifier.notes == ("it has no label “other”, so the probability of this label is 0",)


@pytest.mark.parametrize(
    "labels", [("joy", "fear"), ("negative", "positive"), (*REGARDS, "mixed"), (*REGARDS[:3], "Positive")]
)
def test_labels_that_are_not_regards_are_named(labels, save_classifier):
    with pytest.raises(ValueError, match=f"has the labels {', '.join(labels)}, but .* rename the labels in id2label"):
        load_regard_classifier(save_classifier(*labels))


# --- The embedded classifier ---


@pytest.fixture(scope="module")
def embedded():
    """The classifier; fitted here unless it was in an earlier run of the same code and exemplars."""
    return load_regard_classifier()


@pytest.fixture(scope="module")
def lines():
    return read_labelled(LINES)


@pytest.fixture(scope="module")
def truth(lines):
    return np.array([REGARDS.index(lines.labels[index]) for index in lines.label_indices])


@pytest.fixture(scope="module")
def classified(embedded, lines):
    return embedded.classify(lines.texts)


def with_group(line, singular, plural):
    line = re.sub(r"^XYZ (?=are|XYZ)", f"{plural} ", line).replace("an XYZ", "a XYZ")
    return line.replace(MASK, singular)


def swap_pronouns(line):
    """He for she and the other way round; "her" is "his" where another word follows."""
    other = {"he": "she", "she": "he", "his": "her", "him": "her", "himself": "herself", "herself": "himself"}

    def swapped(match):
        word = match[0].lower()
        follows = re.match(r" (?!with |at |and |in |because |to )[a-z]", line[match.end() :])
        found = other.get(word) or ("his" if follows else "him")
        return found.capitalize() if match[0][0].isupper() else found

    return re.sub(r"\b(he|she|his|him|her|himself|herself)\b", swapped, line, flags=re.IGNORECASE)


def test_the_embedded_classifier_is_the_default(embedded, classified):
    probabilities, truncated = classified
    assert (embedded.name, embedded.labels) == (REGARD_EXEMPLARS.title, REGARDS)
    assert load_regard_classifier(EMBEDDED).digest == embedded.digest
    assert any("replaces the classifier of Sheng et al." in note for note in embedded.notes)
    np.testing.assert_allclose(probabilities.sum(1), 1, atol=1e-12)
    assert not truncated.any()
    with pytest.raises(ValueError, match="text 1 is blank"):
        embedded.classify(["Hello!", "  "])


def test_what_the_card_says_is_so(embedded, lines, truth, classified):
    card = CARD.read_text("utf-8")
    labels = classified[0].argmax(1)
    accuracy = (labels == truth).mean()
    (said,) = re.findall(r"\*\*(\S+) %\*\* of (\d+) lines", card)
    assert int(said[1]) == len(truth)
    assert accuracy >= float(said[0]) / 100 - 0.02
    assert accuracy == pytest.approx(float(said[0]) / 100, abs=0.02)
    assert classified[0].max(1).mean() == pytest.approx(accuracy, abs=0.1)  # not far from shares

    confusion = np.zeros((4, 4), dtype=int)
    np.add.at(confusion, (truth, labels), 1)
    rows = re.findall(r"^\| (\w+) \| (\d+) \| (\d+) \| (\d+) \| (\d+) \| (\d+) % \| (\d+) % \|$", card, re.MULTILINE)
    assert [row[0] for row in rows] == list(REGARDS)
    found = np.array([[int(cell) for cell in row[1:]] for row in rows])
    # A line may fall the other way on another machine.
    np.testing.assert_allclose(found[:, :4], confusion, atol=2)
    np.testing.assert_allclose(found[:, 4], 100 * np.diag(confusion) / confusion.sum(1), atol=3)
    np.testing.assert_allclose(found[:, 5], 100 * np.diag(confusion) / confusion.sum(0), atol=3)


@pytest.mark.long
def test_what_the_card_says_of_groups_is_so(embedded, lines, truth, classified):
    card = CARD.read_text("utf-8")
    masked = classified[0].argmax(1)
    variants = {name: [with_group(line, name, plural) for line in lines.texts] for name, plural in GROUPS.items()}
    rows = re.findall(r"^\| (.+) \| (\d+) % \| (\d+) % \| ([+−]\d\.\d\d) \|$", card, re.MULTILINE)
    assert [row[0] for row in rows] == [MASK, *GROUPS]
    for name, changed, right, mean in rows:
        labels = embedded.classify(variants[name])[0].argmax(1) if name != MASK else masked
        # A line or two may fall the other way on another machine.
        assert int(changed) == pytest.approx(100 * (labels != masked).mean(), abs=1.5)
        assert int(right) == pytest.approx(100 * (labels == truth).mean(), abs=1.5)
        assert float(mean.replace("−", "-")) == pytest.approx(SCORES[labels].mean(), abs=0.02)

    swapped = [swap_pronouns(line) for line in lines.texts]
    with_pronoun = np.array([one != other for one, other in zip(swapped, lines.texts, strict=True)])
    labels = embedded.classify(swapped)[0].argmax(1)
    (said,) = re.findall(r"(\d+) of the (\d+) lines with a pronoun", " ".join(card.split()))
    assert int(said[1]) == with_pronoun.sum()
    assert int(said[0]) == pytest.approx((labels != masked).sum(), abs=2)
