"""Entropies of replies are those of a loop that draws each token by a plain call of the model."""

import numpy as np
import pytest
import torch
from scipy import stats
from transformers import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from hb_dataset import load_table
from hb_metrics.collect.replies.decoding_settings import Decoding
from hb_metrics.collect.replies.prompt_replies import plan_replies, reply_entropies
from hb_metrics.collect.replies.requests import make_requests
from hb_metrics.collect.replies.sampling import draw, draw_keys
from hb_metrics.models.layout import Layout
from hb_metrics.run.blank_texts import is_blank
from tests.hb_metrics.collect.one_call import log_probabilities

FORCED = 9  # T5's first token after its start
DRAWN = {"sample": True, "temperature": 1.5, "top_k": 60, "top_p": 0.9, "max_new_tokens": 9}
DECODINGS = {
    "sentences": Decoding(**DRAWN, min_new_tokens=3, end_after_sentence=True),
    "cooler": Decoding(**DRAWN | {"top_p": 1.0, "temperature": 0.8}),
    "all tokens": Decoding(**DRAWN | {"top_k": 2**31, "top_p": 1.0, "temperature": 1.0}),
}


def likely_ends(loaded, ends):
    """Lets the model end some replies: raises the logits of end tokens, line breaks and ends of sentences."""
    lifted = torch.zeros(loaded.model.get_output_embeddings().weight.shape[0])
    lifted[[*ends.kept, *ends.sentence]] = 2.0
    lifted[[*ends.dropped]] = 5.0

    def lift(module, args, output):
        return output + lifted

    return loaded.model.get_output_embeddings().register_forward_hook(lift)


def begins(loaded, tokens):
    """Whether the text has words, and not only the beginning of a header that a model may write itself."""
    text = loaded.tokenizer.decode(tokens, skip_special_tokens=True).strip()
    marks = ("assistant", "Assistant", "ASSISTANT", "<", "[")
    return not is_blank(text) and not any(mark.startswith(text) for mark in marks)


def drawn_one_by_one(plan, loaded, row):
    """The mean entropy of a reply's tokens, their number, and how it ended; `None` in place of what has no words."""
    decoding, ends, context = plan.decoding, plan.ends, plan.contexts[row]
    keys = draw_keys(plan.seed, "sampling", plan.ids[row], decoding.max_new_tokens)
    warpers = [TemperatureLogitsWarper(decoding.temperature), TopKLogitsWarper(min(decoding.top_k, 400))]
    warpers += [TopPLogitsWarper(decoding.top_p)] if decoding.top_p < 1 else []
    tokens, found, ended, start = [], [], "cut", [2, FORCED] if loaded.kind == "encoder-decoder" else None
    while len(found) < decoding.max_new_tokens and ended == "cut":
        logits = log_probabilities(loaded.model, context, [*tokens, 0], start)[-1:].clone()
        has_words = begins(loaded, tokens)
        if has_words and len(tokens) < decoding.min_new_tokens:
            logits[0, [*ends.dropped, *ends.marks, *ends.kept]] = -torch.inf
        scores = logits
        for warp in warpers:
            scores = warp(None, scores)
        found.append(stats.entropy(scores[0].double().softmax(0).numpy()))
        settings = {"temperature": decoding.temperature, "top_k": decoding.top_k, "top_p": decoding.top_p}
        token = int(draw(logits, torch.tensor(keys[[len(tokens)]]), **settings, close=0)[0])
        words = begins(loaded, [*tokens, token])
        if token in ends.dropped or (token in ends.marks and has_words):
            ended = "by an end token"
        else:
            tokens.append(token)
            if token in ends.kept and words:
                ended = "by a line break"
            elif decoding.end_after_sentence and token in ends.sentence and len(tokens) >= decoding.min_new_tokens:
                ended = "by a sentence"
    words = not is_blank(loaded.tokenizer.decode(tokens, skip_special_tokens=True))
    return (np.mean(found) if words else np.nan), len(found), ended if words else "empty"


def planned(loaded, decoding, rows=range(16)):
    prompts = load_table("v1.0-small").slice(0, 4000).take(list(range(0, 3600, 150))).take(list(rows))
    layout = Layout("blenderbot" if loaded.name == "blenderbot" else "plain")
    return plan_replies(make_requests(prompts, decoding=decoding, layout=layout, seed=3), loaded)


@pytest.mark.parametrize(
    ("name", "how"),
    [
        ("llama", "cooler"),
        ("t5", "sentences"),
        pytest.param("gpt2", "sentences", marks=pytest.mark.long),
        pytest.param("mamba", "all tokens", marks=pytest.mark.long),
    ],
)
def test_entropies_are_those_of_tokens_drawn_one_by_one(name, how, load, monkeypatch):
    loaded = load(name)
    monkeypatch.setattr(loaded.model.generation_config, "forced_bos_token_id", FORCED)
    plan = planned(loaded, DECODINGS[how])
    hook = likely_ends(loaded, plan.ends)
    try:
        found = reply_entropies(plan, loaded)
        with torch.inference_mode():
            values, lengths, ends = zip(*(drawn_one_by_one(plan, loaded, row) for row in range(16)), strict=True)
        some = [reply_entropies(planned(loaded, DECODINGS[how], rows), loaded) for rows in ([3], range(5, 12))]
    finally:
        hook.remove()
    assert found == pytest.approx(np.array(values), rel=1e-4, nan_ok=True)
    assert len(set(lengths)) > 3
    assert "by an end token" in ends
    assert len(set(ends) - {"empty"}) > 2
    assert ("by a sentence" in ends) == (how == "sentences")
    assert some[0] == pytest.approx(found[[3]], rel=1e-5, nan_ok=True)
    assert some[1] == pytest.approx(found[5:12], rel=1e-5, nan_ok=True)
