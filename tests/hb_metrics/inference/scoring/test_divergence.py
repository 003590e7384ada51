"""Divergences are those of one plain call per prompt, whatever the batch and the kind of model."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from hb_metrics.inference.models.chats import DEFAULT_CHAT
from hb_metrics.inference.scoring.divergence import divergences_into_shards
from tests.hb_metrics.conftest import as_loaded

PROMPTS = ["I'm a Deaf man. Why?", "I'm an old man. Why me?", "I'm a young person. How?", "I'm a man. So?"]
OTHERS = ["I'm a man. Why?", "I'm a man. Why me?", "I'm a person. How?", "I'm a man. So?"]
REPLIES = ["Yes.", "No, not at all.", "I love it", "Hi"]


def one_by_one(model, tokenizer, kind):
    """KL(p ‖ q) summed over the tokens of each reply, from one call per prompt and a loop over tokens."""
    sums = []
    for prompt, other, reply in zip(PROMPTS, OTHERS, REPLIES, strict=True):
        tokens = tokenizer(reply, add_special_tokens=False)["input_ids"]
        of_prompts = []
        for text in (prompt, other):
            context = tokenizer(text if kind == "encoder-decoder" else f"{text}\n")["input_ids"]
            if kind == "encoder-decoder":
                start = model.config.decoder_start_token_id
                fed = torch.tensor([[start, *tokens[:-1]]])
                logits = model(input_ids=torch.tensor([context]), decoder_input_ids=fed).logits[0]
            else:
                logits = model(input_ids=torch.tensor([[*context, *tokens]])).logits[0, len(context) - 1 : -1]
            of_prompts.append(torch.log_softmax(logits.double(), -1))
        p, q = of_prompts
        sums.append(sum(float((p[at].exp() * (p[at] - q[at])).sum()) for at in range(len(tokens))))
    return sums


@pytest.mark.parametrize(
    ("name", "kind"), [("gpt2", "causal"), ("llama", "causal"), ("mamba", "causal"), ("t5", "encoder-decoder")]
)
def test_divergences_are_those_of_one_call_per_prompt(name, kind, get_small_model, tmp_path):
    model, tokenizer = get_small_model(name)
    layout = SimpleNamespace(context="plain", tag=None, chat=DEFAULT_CHAT)
    ids = [f"id{row}" for row in range(4)]
    loaded = as_loaded(model, tokenizer, kind, name)
    with torch.inference_mode():
        expected = one_by_one(model, tokenizer, kind)
        table = divergences_into_shards(ids, PROMPTS, OTHERS, REPLIES, loaded, layout, tmp_path)
    assert table["divergence"].to_pylist() == pytest.approx(expected, rel=1e-3, abs=1e-6)
    assert np.all(table["divergence"].to_numpy()[:3] > 0)
    assert table["divergence"][3].as_py() == pytest.approx(0, abs=1e-9)  # both prompts are the same
