import re
import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np
import profanity_check
import pyarrow.compute as pc
import pytest
import sklearn.base

from hb_dataset import load_table
from hb_metrics.collect.classifiers import offensive
from hb_metrics.collect.classifiers.offensive import EMBEDDED_NAME, load_offensiveness_classifier
from tests.hb_metrics.collect.classifiers.test_sequence_classifier import assert_close

CARD = Path(offensive.__file__).parent / "OFFENSIVENESS_CLASSIFIER.md"


def test_softmax_labels_are_summed(texts, save_classifier, by_label):
    folder = save_classifier("normal", "hate speech", "Offensive")
    expected = [found["hate speech"] + found["Offensive"] for found in by_label(folder, texts)]

    found = load_offensiveness_classifier(folder)

    assert found.source_labels == ("hate speech", "Offensive")
    assert_close(found.probabilities(texts)[:, 0], expected)


def test_of_sigmoid_labels_the_greatest_counts(texts, save_classifier, by_label):
    labels = ("kind", "toxic", "hateful")
    folder = save_classifier(*labels, kind="roberta", problem_type="multi_label_classification")
    reference = by_label(folder, texts)

    found = load_offensiveness_classifier(folder)

    assert found.source_labels == ("toxic", "hateful")
    assert_close(found.probabilities(texts)[:, 0], [max(row["toxic"], row["hateful"]) for row in reference])
    assert {row["toxic"] > row["hateful"] for row in reference} == {True, False}


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (["non-offensive", "offensive"], ("offensive",)),
        (["Hate_Speech", "neither", "Offensive-Language"], ("Hate_Speech", "Offensive-Language")),
        (["__ok__", "__notok__"], ("__notok__",)),
        (["LABEL_0", "LABEL_1"], ("LABEL_1",)),
    ],
)
def test_the_label_is_found_by_its_name(labels, expected, save_classifier):
    classifier = load_offensiveness_classifier(save_classifier(*labels))
    assert classifier.source_labels == expected
    assert ("the second of two, is assumed to mean offensive" in str(classifier.notes)) == ("LABEL_1" in labels)


@pytest.mark.parametrize(
    ("labels", "settings"),
    [
        (["not offensive", "not hate"], {}),
        (["LABEL_0", "LABEL_1"], {"problem_type": "multi_label_classification"}),
    ],
)
def test_where_no_label_is_clear_they_are_listed(labels, settings, save_classifier):
    folder = save_classifier(*labels, **settings)

    with pytest.raises(ValueError, match=f"cannot tell which .*its labels: {', '.join(labels)}.* id2label"):
        load_offensiveness_classifier(folder)


def test_the_embedded_classifier_does_not_depend_on_the_batch(prompts):
    classifier = load_offensiveness_classifier()
    texts = [*prompts[:60], *prompts[:10], " ".join(prompts)]

    found = classifier.classify(texts)

    alone = [profanity_check.predict_prob([text]) for text in texts]
    np.testing.assert_array_equal(found.probabilities, alone)
    assert not found.truncated.any()
    assert (classifier.labels, classifier.is_embedded) == (("offensive",), True)
    assert classifier.name == EMBEDDED_NAME
    assert classifier.version.startswith("alt-profanity-check 1.")
    assert len(classifier.digest) == 64


@pytest.mark.skipif(version("alt-profanity-check") != "1.9.1", reason="the card tells the numbers of 1.9.1")
def test_what_the_card_says_of_harmless_lines_is_so():
    rows = re.findall(r"^\| (\S+) \| (\S+) % \| (\S+) % \|$", CARD.read_text("utf-8").replace("*", ""), re.MULTILINE)
    prompts = load_table("v1.0")
    prompts = prompts.filter(pc.equal(prompts["template"], "Hi! I'm {noun_phrase}."))
    axes, nouns = (prompts[name].to_numpy() for name in ("axis", "noun"))
    flagged = load_offensiveness_classifier().probabilities(prompts["text"].to_pylist())[:, 0] >= 0.5

    assert {axis for axis, _, _ in rows} == {"all", *axes}
    for axis, share, without_mom in rows:
        here = np.full(len(axes), True) if axis == "all" else axes == axis
        assert f"{flagged[here].mean():.1%}" == f"{share}%", axis
        assert f"{flagged[here & (nouns != 'mom')].mean():.1%}" == f"{without_mom}%", axis
    assert flagged.sum() == 790


def test_another_scikit_learn_is_refused(monkeypatch):
    for name in ("profanity_check", "profanity_check.profanity_check"):
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sklearn.base, "__version__", "0.1")
    with pytest.raises(ImportError, match="needs another release of scikit-learn"):
        load_offensiveness_classifier()


def test_without_its_wheel_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "profanity_check", None)

    with pytest.raises(ModuleNotFoundError, match=r"pip install 'holistic-bias\[embedded\]'"):
        load_offensiveness_classifier()
