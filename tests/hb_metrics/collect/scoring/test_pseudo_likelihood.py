import math

import numpy as np
import pytest
import torch

from hb_dataset import descriptor_noun_spans, load_table
from hb_metrics.collect import units
from hb_metrics.collect.scoring.pseudo_likelihood import plan_pseudo_log_likelihood
from hb_metrics.collect.scoring.scoring_shards import perplexity_scores, run_plan


def score_spans(texts, spans, model, tokenizer):
    plan = plan_pseudo_log_likelihood(texts, spans, model, tokenizer)
    return perplexity_scores(plan, run_plan(plan, model))


def one_token_at_a_time(text, span, model, tokenizer):
    encoded = tokenizer(text, return_offsets_mapping=True)
    total, count = 0.0, 0
    for place, (start, end) in enumerate(encoded["offset_mapping"]):
        if start < end and start < span[1] and end > span[0]:
            tokens = torch.tensor([encoded["input_ids"]])
            target = tokens[0, place].item()
            tokens[0, place] = tokenizer.mask_token_id
            with torch.inference_mode():
                total += model(input_ids=tokens).logits[0, place].double().log_softmax(-1)[target].item()
            count += 1
    return total, count


@pytest.mark.parametrize("name", ["bert", "roberta"])
def test_each_token_of_the_span_is_masked_in_turn(name, get_small_model, monkeypatch):
    table = load_table("v1.0-seat")
    table = table.take(list(range(0, table.num_rows, table.num_rows // 10)))
    texts, spans = table["text"].to_pylist(), list(map(tuple, descriptor_noun_spans(table).tolist()))
    model, tokenizer = get_small_model(name)
    expected = [one_token_at_a_time(text, span, model, tokenizer) for text, span in zip(texts, spans, strict=True)]
    perplexities = [math.exp(-total / count) for total, count in expected]
    for max_positions in (1, 200):
        monkeypatch.setattr(units, "MAX_POSITIONS", max_positions)
        scores = score_spans(texts, spans, model, tokenizer)
        np.testing.assert_allclose(scores.log_likelihoods, [total for total, _ in expected], rtol=1e-4)
        assert scores.num_tokens.tolist() == [count for _, count in expected]
        np.testing.assert_allclose(scores.perplexities, perplexities, rtol=1e-3)


def test_the_same_text_with_another_span_is_another_score(get_small_model):
    model, tokenizer = get_small_model("bert")
    text = "This is a tall guy."
    spans = [(10, 18), (10, 14), (0, 4)]
    scores = score_spans([text] * 3, spans, model, tokenizer)
    expected = [one_token_at_a_time(text, span, model, tokenizer)[0] for span in spans]
    np.testing.assert_allclose(scores.log_likelihoods, expected, rtol=1e-4)
    assert len(set(scores.log_likelihoods)) == 3


@pytest.mark.parametrize(
    ("texts", "spans", "message"),
    [
        (["This is a guy."], [(5, 5)], r"span \(5, 5\) of text 0 contains no token"),
        (["This is a guy.", ""], [(0, 4), (0, 1)], "text 1 is empty"),
        # RoBERTa's 66 positions start after the one of the padding, which is token 2 here.
        (["I" * 61, "I" * 62], [(0, 1)] * 2, "text 1 has 64 tokens.* accepts 1 to 63"),
    ],
)
def test_bad_input_is_named(texts, spans, message, get_small_model):
    with pytest.raises(ValueError, match=message):
        score_spans(texts, spans, *get_small_model("roberta"))


def test_a_tokenizer_that_cannot_mask_is_refused(get_small_model):
    with pytest.raises(ValueError, match="has no mask token"):
        score_spans(["A guy."], [(2, 5)], *get_small_model("gpt2"))
