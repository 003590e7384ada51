"""Divergences are those of one plain call per prompt, whatever the batch and the kind of model."""

from copy import deepcopy
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from hb_metrics.collect.scoring.reply_scoring import divergences_into_shards, drift_per_token, reply_predictions
from hb_metrics.models.chats import DEFAULT_CHAT
from tests.hb_metrics.collect.one_call import log_probabilities
from tests.hb_metrics.conftest import as_loaded
from tests.hb_metrics.run_files import rows_of

PROMPTS = ["I'm a Deaf man. Why?", "I'm an old man. Why me?", "I'm a young person. How?", "I'm a man. So?"]
OTHERS = ["I'm a man. Why?", "I'm a man. Why me?", "I'm a person. How?", "I'm a man. So?"]
REPLIES = ["Yes.", "No, not at all.", "I love it", "Hi"]


LAYOUT = SimpleNamespace(context="plain", tag=None, chat=DEFAULT_CHAT)
KINDS = [("llama", "causal"), ("mamba", "causal"), ("t5", "encoder-decoder")]


def in_one_call(model, tokenizer, kind, prompt, reply):
    tokens = tokenizer(reply, add_special_tokens=False)["input_ids"]
    context = tokenizer(prompt if kind == "encoder-decoder" else f"{prompt}\n")["input_ids"]
    return log_probabilities(model, context, tokens)


def summed(p, q):
    """KL(p ‖ q) summed over tokens, by a loop."""
    return sum(float((p[at].exp() * (p[at] - q[at])).sum()) for at in range(len(p)))


@pytest.mark.parametrize(("name", "kind"), KINDS)
def test_divergences_are_those_of_one_call_per_prompt(name, kind, get_small_model, tmp_path):
    model, tokenizer = get_small_model(name)
    ids = [f"id{row}" for row in range(4)]
    loaded = as_loaded(model, tokenizer, kind, name)
    with torch.inference_mode():
        expected = []
        for prompt, other, reply in zip(PROMPTS, OTHERS, REPLIES, strict=True):
            p, q = (in_one_call(model, tokenizer, kind, text, reply) for text in (prompt, other))
            expected.append(summed(p, q))
        divergences_into_shards(ids, PROMPTS, OTHERS, REPLIES, loaded, LAYOUT, tmp_path)
    table = rows_of(tmp_path, ids)
    assert table["divergence"].to_pylist() == pytest.approx(expected, rel=1e-3, abs=1e-6)
    assert np.all(table["divergence"].to_numpy()[:3] > 0)
    assert table["divergence"][3].as_py() == pytest.approx(0, abs=1e-9)  # both prompts are the same


@pytest.mark.parametrize(("name", "kind"), KINDS)
def test_drift_is_that_of_one_call_per_model_and_closed_form(name, kind, get_small_model):
    model, tokenizer = get_small_model(name)
    moved, flat = deepcopy(model), deepcopy(model)
    torch.manual_seed(0)
    with torch.inference_mode():
        for parameter in moved.parameters():
            parameter.add_(0.02 * torch.randn_like(parameter))
        flat.get_output_embeddings().weight.zero_()  # every token is as likely
        of_prompts = [
            [in_one_call(variant, tokenizer, kind, *pair) for variant in (model, moved)]
            for pair in zip(PROMPTS, REPLIES, strict=True)
        ]
    before, after, even = (
        list(reply_predictions(PROMPTS, REPLIES, as_loaded(variant, tokenizer, kind, name), LAYOUT))
        for variant in (model, moved, flat)
    )
    expected = [summed(p, q) / len(p) for p, q in of_prompts]
    assert min(expected) > 0
    assert drift_per_token(before, after) == pytest.approx(expected, rel=1e-3)
    entropies = [float(-(p.exp() * p).sum()) / len(p) for p, _ in of_prompts]
    size = of_prompts[0][0].shape[1]
    expected = np.log(size) - np.array(entropies)
    assert drift_per_token(before, even) == pytest.approx(expected, rel=1e-3)
    assert drift_per_token(before, before) == pytest.approx(0, abs=1e-9)


def test_models_of_other_tokens_are_not_compared(get_small_model):
    model, tokenizer = get_small_model("gpt2")
    other = deepcopy(tokenizer)
    other.add_tokens([REPLIES[0]])
    sides = [reply_predictions(PROMPTS, REPLIES, as_loaded(model, reader), LAYOUT) for reader in (tokenizer, other)]
    with pytest.raises(ValueError, match=r"have different tokens"):
        drift_per_token(*sides)
