"""Perplexities of pairs under small models, against the loss that `transformers` computes of each text alone."""

import math

import numpy as np
import pytest

from hb_metrics.collect.scoring.perplexity import plan_texts
from hb_metrics.collect.scoring.scoring_shards import perplexity_scores, run_plan
from hb_metrics.measurements.reddit.compute import language_model_perplexity
from tests.hb_metrics.collect.scoring.test_perplexity import one_at_a_time

T1 = ["All the old people I know like tea.", "My deaf friend is late again.", "Young guys never read the manual!"]
T2 = ["All the young people I know like tea.", "My hearing friend is late again.", "Old guys never read the manual!"]
IDS = ["a", "b", "c"]


def loss_perplexity(text, loaded):
    """exp of the mean loss over tokens 2 … n."""
    return one_at_a_time([text], loaded.model, loaded.tokenizer, start_token=False)[0]


def scored(plan, loaded):
    """The perplexities of all t1, and of all t2."""
    nll = run_plan(plan.scoring, loaded.model)
    return np.split(perplexity_scores(plan.scoring, nll, ids=plan.ids).perplexities, 2)


@pytest.mark.parametrize("name", ["gpt2-without-bos", "bloom"])
def test_perplexity_is_over_tokens_two_to_n(name, load):
    loaded = load(name)
    plan = plan_texts([T1, T2], loaded, ids=IDS)

    t1, t2 = scored(plan, loaded)

    assert plan.scoring.start_token is None
    np.testing.assert_allclose(t1, [loss_perplexity(text, loaded) for text in T1], rtol=1e-4)
    np.testing.assert_allclose(t2, [loss_perplexity(text, loaded) for text in T2], rtol=1e-4)
    assert (plan.scoring.scoring == "batches") == (name == "bloom")


def test_pairs_that_cannot_be_scored_are_counted(load):
    loaded = load("llama")
    t1 = [T1[0], "a", T1[1], "word " * 90, ""]
    t2 = [T2[0], T2[1], "", T2[2], "word " * 90]

    plan = plan_texts([t1, t2], loaded, ids=["v", "w", "x", "y", "z"])

    assert plan.num_skipped == {"one_token": 3, "too_long": 1}
    assert plan.ids == ["v:t1", "v:t2"]
    assert scored(plan, loaded)[1] == pytest.approx([loss_perplexity(T2[0], loaded)], rel=1e-4)


def test_without_pairs_that_fit_or_another_kind_of_model_it_says_why(load):
    with pytest.raises(ValueError, match=r"none of the 1 .*: 1 have at most one token, and 0 are too long; pass"):
        plan_texts([["a"], ["b"]], load("llama"), ids=["1"])
    with pytest.raises(ValueError, match="needs a causal model, and 'bert' is masked"):
        plan_texts([T1, T2], load("bert"), ids=IDS)


def test_a_broken_model_is_told_by_id_and_not_by_text(load):
    loaded = load("llama")
    plan = plan_texts([T1, T2], loaded, ids=IDS)
    nll = np.ones(len(plan.scoring.num_tokens))
    nll[plan.scoring.sequence_of_text[4]] = math.nan

    with pytest.raises(ValueError, match=r"nan as the negative log-likelihood of text b:t2;"):
        perplexity_scores(plan.scoring, nll, ids=plan.ids)


# --- LMP --------------------------------------------------------------------------------------------------------------


def test_lmp_by_hand():
    assert language_model_perplexity([-math.log(4), -4 * math.log(16)], [1, 4]) == pytest.approx(8)
    assert language_model_perplexity([-6.0], [3]) == pytest.approx(math.exp(2))
