import math
import re
import traceback

import numpy as np
import pytest
import torch

from hb_dataset import load_table
from hb_metrics.collect import units
from hb_metrics.collect.scoring.perplexity import score_perplexity
from hb_metrics.models.contexts import encode_rendered
from tests.hb_metrics.collect.one_call import log_likelihood

TREE_MODELS = ["gpt2", "gpt2-without-bos", "llama", "glm"]


def one_at_a_time(texts, model, tokenizer, start_token=True):
    """exp of the mean negative log-likelihood of each text, the model run on it alone."""
    perplexities = []
    for text in texts:
        tokens = tokenizer(text, add_special_tokens=False)["input_ids"]
        start = [2, 0] if tokenizer(text)["input_ids"][0] == 2 else [tokenizer.bos_token_id]
        start, said = (start, tokens) if start_token else (tokens[:1], tokens[1:])
        perplexities.append(math.exp(-log_likelihood(model, start, said) / len(said)))
    return np.array(perplexities)


@pytest.mark.parametrize(
    ("name", "max_positions", "trees"),
    [
        *((name, 64, True) for name in (*TREE_MODELS, "bloom", "mamba")),
        *((name, 64, False) for name in ("gpt2-without-bos", "glm")),
        *(("llama", size, True) for size in (1, 16, 100_000)),
    ],
)
def test_perplexities_are_those_of_one_sentence_at_a_time(
    name, trees, max_positions, prompts, get_small_model, monkeypatch
):
    monkeypatch.setattr(units, "MAX_POSITIONS", max_positions)
    texts, (model, tokenizer) = prompts[:: 3 if max_positions == 64 else 8], get_small_model(name)
    scores = score_perplexity(texts, model, tokenizer, trees=trees)
    expected = one_at_a_time(texts, model, tokenizer, start_token=name != "gpt2-without-bos")
    np.testing.assert_allclose(scores.perplexities, expected, rtol=1e-4)
    np.testing.assert_allclose(scores.perplexities, np.exp(-scores.log_likelihoods / scores.num_tokens), rtol=1e-12)
    assert scores.plan.scoring == ("tree" if trees and name in TREE_MODELS and max_positions > 16 else "batches")
    if trees and name not in TREE_MODELS:
        assert re.fullmatch("(in a trial, its results on prefix trees|it rejects).*", scores.plan.scoring_reason)
    assert scores.plan.start_token == ("<pad> <s>" if name == "glm" else tokenizer.bos_token)
    (context,) = encode_rendered(["Hi"], tokenizer, "plain", is_encoder_decoder=False)
    assert name != "glm" or context[:2] == [2, 0]  # as before a reply


def test_trees_run_the_model_on_far_fewer_positions(get_small_model):
    model, tokenizer = get_small_model("gpt2")
    texts = load_table("v1.0-small")["text"].to_pylist()[:600]
    tree, batches = (score_perplexity(texts, model, tokenizer, trees=trees) for trees in (True, False))
    assert tree.plan.positions * 2 < tree.num_tokens.sum() <= batches.plan.positions
    np.testing.assert_allclose(tree.perplexities, batches.perplexities, rtol=1e-4)


def test_identical_texts_are_scored_once_in_any_order(prompts, get_small_model):
    model, tokenizer = get_small_model("llama")
    once = score_perplexity(prompts[:30], model, tokenizer)
    shuffled = [prompts[row] for row in (7, 7, 3, 29, 0, 7)] + prompts[:30]
    again = score_perplexity(shuffled, model, tokenizer)
    assert again.plan.positions == once.plan.positions
    np.testing.assert_array_equal(again.perplexities[[0, 1, 2, 3, 4, 5]], once.perplexities[[7, 7, 3, 29, 0, 7]])
    np.testing.assert_array_equal(again.perplexities[6:], once.perplexities)


def test_no_texts_give_no_scores(get_small_model):
    model, tokenizer = get_small_model("llama")
    assert score_perplexity([], model, tokenizer).perplexities.shape == (0,)


@pytest.mark.parametrize("name", ["t5", "blenderbot"])
def test_an_encoder_decoder_model_says_the_sentence(name, prompts, get_small_model):
    model, tokenizer = get_small_model(name)
    scores = score_perplexity(prompts[:40], model, tokenizer)
    for text, found in zip(prompts[:40], scores.perplexities, strict=True):
        labels = torch.tensor([tokenizer(text, add_special_tokens=False)["input_ids"]])
        with torch.inference_mode():
            loss = model(**tokenizer("", return_tensors="pt"), labels=labels).loss  # transformers' own shift
        assert found == pytest.approx(math.exp(loss.item()), rel=1e-4)
    assert scores.plan.scoring == "encoder-decoder"


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("llama", "", "text 1 is empty"),
        ("llama", "Hateful words " * 100, r"text 1 has \d+ tokens.* accepts 2 to 64"),
        ("blenderbot", "Hateful words \ud83d.", r"text 1 .*surrogate \(U\+D83D\) at position 15;"),
        ("blenderbot", None, "text 1 is of type NoneType"),
    ],
)
def test_texts_that_cannot_be_scored_are_named_and_not_shown(name, text, message, get_small_model):
    with pytest.raises(ValueError, match=message) as error:
        score_perplexity(["I love women.", text], *get_small_model(name))
    assert "Hateful" not in "".join(traceback.format_exception(error.value, chain=True)).split("ValueError:")[-1]


def test_one_token_needs_a_start_token_and_a_list_is_no_string(get_small_model):
    model, tokenizer = get_small_model("gpt2")
    with pytest.raises(ValueError, match="texts is a single string"):
        score_perplexity("I love women.", model, tokenizer)
    assert score_perplexity(["I"], model, tokenizer).num_tokens.tolist() == [1]
    with pytest.raises(ValueError, match="text 0 has 1 tokens"):
        score_perplexity(["I"], model, tokenizer, add_start_token=False)
