import math

import numpy as np
import pytest
import torch
import transformers

from hb_metrics.collect.classifiers import sequence_classifier
from hb_metrics.collect.classifiers.regard import load_regard_classifier
from hb_metrics.collect.classifiers.sequence_classifier import load_sequence_classifier
from hb_metrics.collect.classifiers.styles import load_style_classifier

TWO = ("fine", "offensive")


def assert_close(probabilities, expected):
    assert probabilities.dtype == np.float64
    np.testing.assert_allclose(probabilities, expected, atol=1e-5)
    assert np.ptp(probabilities) > 0.1  # else a mistake could hide


@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_probabilities_are_those_of_the_pipeline(kind, texts, save_classifier, by_label, monkeypatch):
    folder = save_classifier("neither", "toxic", "spam", kind=kind)
    expected = [[scores[label] for label in ("neither", "toxic", "spam")] for scores in by_label(folder, texts)]
    for max_positions in (1, 100, 5000):
        monkeypatch.setattr(sequence_classifier, "MAX_POSITIONS", max_positions)
        classifier = load_sequence_classifier(folder)
        assert_close(classifier.probabilities(texts), expected)
    assert classifier.labels == classifier.source_labels == ("neither", "toxic", "spam")
    assert (classifier.name, classifier.notes, classifier.is_embedded) == (folder, (), False)
    assert classifier.version == f"transformers {transformers.__version__}"
    assert not classifier.classify(texts).truncated.any()


def test_a_single_label_has_a_sigmoid(texts, save_classifier, by_label):
    folder = save_classifier("toxicity")

    classifier = load_sequence_classifier(folder)

    assert classifier.multi_label
    assert_close(classifier.probabilities(texts), [[scores["toxicity"]] for scores in by_label(folder, texts)])


@pytest.mark.parametrize(("pad_token", "pad_token_id"), [(None, None), ("<pad>", None), ("<pad>", 2), ("<pad>", 68)])
def test_no_token_for_padding_is_needed(pad_token, pad_token_id, texts, save_classifier):
    folder = save_classifier(*TWO, kind="gpt2", pad_token=pad_token, pad_token_id=pad_token_id)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    with torch.inference_mode():
        logits = [model(**tokenizer(text, return_tensors="pt")).logits[0] for text in texts]

    classifier = load_sequence_classifier(folder)

    assert_close(classifier.probabilities(texts), [pair.double().softmax(0).tolist() for pair in logits])


@pytest.mark.parametrize("kind", ["bert", "roberta", "gpt2"])
def test_long_texts_are_cut_and_counted(kind, prompts, save_classifier, by_label):
    folder = save_classifier(*TWO, kind=kind)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    # RoBERTa's 66 positions begin behind that of the padding, 2.
    limit = 63 if kind == "roberta" else 64
    special = tokenizer.num_special_tokens_to_add()
    word = next(word for word in "abc" if len(tokenizer.encode(f"{word} {word}", add_special_tokens=False)) == 2)
    fits, too_long = (" ".join([word] * (limit - special + more)) for more in (0, 1))
    texts = [too_long, prompts[0], fits, " ".join(prompts[:20]), fits]

    classifier = load_sequence_classifier(folder)
    probabilities, truncated = classifier.classify(texts)

    assert truncated.tolist() == [True, False, False, True, False]
    scores = by_label(folder, texts, truncation=True, max_length=limit)
    expected = [[by_name[label] for label in TWO] for by_name in scores]
    np.testing.assert_allclose(probabilities, expected, atol=1e-5)


def test_what_is_no_classifier_is_refused(save_classifier, save_small_model, tmp_path):
    with pytest.raises(ValueError, match=r"lacks the weights .*classifier.*; pass a checkpoint"):
        load_sequence_classifier(str(save_small_model("bert")))
    transformers.ViTConfig().save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=r"type 'vit', .* does not compute label probabilities"):
        load_sequence_classifier(str(tmp_path))
    folder = save_classifier("toxic", problem_type="regression")
    with pytest.raises(ValueError, match=r"'regression'.*pass a model for sequence classification"):
        load_sequence_classifier(folder)


def test_probabilities_that_are_all_0_are_refused(save_classifier):
    folder = save_classifier("negative", "neutral", "positive", problem_type="multi_label_classification")
    model = transformers.BertForSequenceClassification.from_pretrained(folder)
    with torch.no_grad():
        model.classifier.bias.fill_(-1e4)
    model.save_pretrained(folder)
    for load in (load_style_classifier, load_regard_classifier):
        with pytest.raises(ValueError, match="probability 0 to all labels"):
            load(folder).classify(["Hi."])


def test_broken_weights_are_told(texts, save_classifier):
    folder = save_classifier(*TWO)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder)
    model.classifier.bias.data[0] = math.nan
    model.save_pretrained(folder)

    with pytest.raises(ValueError, match=r"returned \[nan, "):
        load_sequence_classifier(folder).probabilities(texts)
