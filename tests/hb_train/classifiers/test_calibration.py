"""Temperatures and calibration curves against closed forms, loops and simulated truth; heads that are calibrated."""

import numpy as np
import pytest
import torch
import transformers

from hb_train.classifiers.calibration import fit_temperature, quality
from hb_train.classifiers.encoder import calibrate_head, head_layer

SMALL = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32, "vocab_size": 40}


def drawn(number=20000, temperature=1.0, seed=0):
    """Logits and labels that are drawn from their softmax at a temperature."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(0, 2, (number, 5))
    labels = (logits / temperature + rng.gumbel(size=logits.shape)).argmax(axis=1)
    return logits, labels


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
def test_the_temperature_that_labels_were_drawn_at_is_found(temperature):
    assert fit_temperature(*drawn(temperature=temperature)) == pytest.approx(temperature, rel=0.05)


def test_two_labels_have_a_closed_form():
    """Of logits ±1, three of four right: softmax is 3/4 at 2 / T = ln 3."""
    logits, labels = np.array([[1.0, -1.0]] * 4), np.array([0, 0, 0, 1])
    assert fit_temperature(logits, labels) == pytest.approx(2 / np.log(3), rel=1e-4)


def test_quality_is_that_of_loops():
    logits, labels = drawn(50, seed=1)
    found = quality(logits, labels, num_bins=4)
    probabilities = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    rows = sorted(range(50), key=lambda row: probabilities[row].max())
    assert found.accuracy == np.mean([probabilities[row].argmax() == labels[row] for row in range(50)])
    assert found.top_5 == 1
    assert found.negative_log_likelihood == pytest.approx(-np.mean(np.log(probabilities[range(50), labels])))
    distance = 0
    for part in (rows[:13], rows[13:26], rows[26:38], rows[38:]):
        mean = np.mean([probabilities[row].max() for row in part])
        right = np.mean([probabilities[row].argmax() == labels[row] for row in part])
        distance += abs(mean - right) * len(part) / 50
    assert found.calibration_error == pytest.approx(distance)


def small(kind, num_labels=3):
    torch.manual_seed(0)
    config = {
        "bert": lambda: transformers.BertConfig(**SMALL, num_labels=num_labels),
        "roberta": lambda: transformers.RobertaConfig(**SMALL, num_labels=num_labels),
        "distilbert": lambda: transformers.DistilBertConfig(
            dim=16, n_layers=2, n_heads=2, hidden_dim=32, vocab_size=40, num_labels=num_labels
        ),
        "modernbert": lambda: transformers.ModernBertConfig(**SMALL, num_labels=num_labels, pad_token_id=0),
    }[kind]()
    return transformers.AutoModelForSequenceClassification.from_config(config).eval()


@pytest.mark.parametrize("kind", ["bert", "roberta", "distilbert", "modernbert"])
def test_the_head_of_an_encoder_is_divided_by_the_temperature(kind):
    model, tokens = small(kind), torch.arange(5, 15)[None]
    with torch.no_grad():
        before = model(input_ids=tokens).logits
        calibrate_head(model, 2.5)
        torch.testing.assert_close(model(input_ids=tokens).logits, before / 2.5)


def test_a_head_with_something_behind_it_is_refused():
    model = small("bert")
    model.classifier = torch.nn.Sequential(model.classifier, torch.nn.Tanh())
    with pytest.raises(ValueError, match="the head of a 'bert' classifier does not end in a linear layer"):
        head_layer(model)
