import json
import math
from copy import deepcopy
from dataclasses import asdict, replace

import numpy as np
import pyarrow as pa
import pytest
from tokenizers import AddedToken

from hb_dataset.dialogue_pairs import DialoguePairs
from hb_metrics.collect.scoring.reply_scoring import dialogue_into_shards, plan_dialogue
from hb_metrics.measurements.dialogue.compute import dialogue_results
from hb_metrics.models.layout import Layout
from tests.hb_metrics.collect.one_call import log_likelihood
from tests.hb_metrics.run_files import rows_of

TEMPLATE = (
    "{% for message in messages %}<s>{{ message.role }}\n{{ message.content }}</s>{% endfor %}"
    "{% if add_generation_prompt %}<s>assistant\n{% endif %}"
)
# What each model is given, written out: a causal model before the reply, an encoder as a whole.
CONTEXTS = {
    ("gpt2", "plain"): "{}\n",
    ("gpt2", "dialogpt"): "{}</s>",
    ("llama", "chat"): "<s>user\n{}</s><s>assistant\n",
    ("bloom", "plain"): "{}\n",
    ("mamba", "plain"): "{}\n",
    ("t5", "plain"): "<s>{}</s>",
    ("blenderbot", "blenderbot"): "<s> {}</s>",
}
COLUMNS = ["id", "prompt", "reply", "log_likelihood", "num_tokens"]
POSITIONS = 64  # that the small gpt2, llama and blenderbot take
ENCODER_DECODER = ("t5", "blenderbot")


def made_up(prompts, replies):
    return DialoguePairs([f"id{row}" for row in range(len(prompts))], list(prompts), list(replies), "made up", {})


@pytest.fixture
def dialogue(prompts):
    """Pairs in which lengths of prompts and replies differ, two of them with the same reply."""
    said = [text for text in prompts if len(text) < 34][:25]
    return made_up(said, [*(" ".join(text.split()[:2]) for text in said[:9]), said[3], *said[10:], "Yes, me."][:25])


@pytest.fixture
def load(load):
    def load_with_template(name):
        loaded = load(name)
        if name == "llama":
            loaded = replace(loaded, tokenizer=deepcopy(loaded.tokenizer))
            loaded.tokenizer.chat_template = TEMPLATE
        return loaded

    return load_with_template


def one_at_a_time(dialogue, loaded, form, tag=None):
    """Log-likelihood and number of tokens of each reply, the model run on it alone."""
    log_likelihoods, num_tokens = [], []
    for prompt, reply in zip(dialogue.prompts, dialogue.replies, strict=True):
        texts = form.format(prompt if tag is None else f"{prompt} {tag}"), reply
        given, said = (loaded.tokenizer(text, add_special_tokens=False)["input_ids"] for text in texts)
        log_likelihoods.append(log_likelihood(loaded.model, given, said))
        num_tokens.append(len(said))
    return log_likelihoods, num_tokens


def layout(context="plain", tag=None):
    return Layout(context, "", tag, "")


def score(dialogue, loaded, folder, context="plain", tag=None):
    plan = plan_dialogue(dialogue, loaded, layout(context, tag))
    dialogue_into_shards(plan, loaded, folder)
    return rows_of(folder, plan.dialogue.ids)


@pytest.mark.parametrize(("name", "context"), CONTEXTS)
def test_likelihoods_are_those_of_one_pair_at_a_time(name, context, dialogue, load, tmp_path):
    loaded, tag = load(name), "no_bias" if name in ("llama", "t5") else None
    table = score(dialogue, loaded, tmp_path, context, tag=tag)
    log_likelihoods, num_tokens = one_at_a_time(dialogue, loaded, CONTEXTS[name, context], tag)
    assert len(set(num_tokens)) > 3
    assert table.column_names == COLUMNS
    assert [table[column].to_pylist() for column in ("id", "prompt", "reply")] == [*map(list, dialogue[:3])]
    assert table["num_tokens"].to_pylist() == num_tokens
    np.testing.assert_allclose(table["log_likelihood"].to_numpy(), log_likelihoods, rtol=1e-5)
    results = dialogue_results(table, len(dialogue.ids))
    assert results.perplexity == pytest.approx(math.exp(-sum(log_likelihoods) / sum(num_tokens)), rel=1e-5)
    assert asdict(results) == {
        "perplexity": results.perplexity,
        "interval": results.interval,
        "no_interval": results.no_interval,
        "num_replies": len(num_tokens),
        "num_tokens": sum(num_tokens),
        "num_too_long": 0,
    }
    json.dumps(asdict(results), allow_nan=False)


@pytest.mark.parametrize(("name", "context"), [("llama", "chat"), ("blenderbot", "blenderbot"), ("t5", "plain")])
def test_pairs_too_long_are_counted_and_never_cut(name, context, load, tmp_path):
    loaded = load(name)
    numbers = [(1, said) for said in range(1, 70)] + [(given, 1) for given in range(2, 70)]
    dialogue = made_up(*([" ".join(["kid"] * number) for number in side] for side in zip(*numbers, strict=True)))
    lengths = []
    for prompt, reply in zip(*dialogue[1:3], strict=True):
        texts = (CONTEXTS[name, context].format(prompt), reply)
        given, said = (len(loaded.tokenizer(text, add_special_tokens=False)["input_ids"]) for text in texts)
        lengths.append(max(given, said) if name in ENCODER_DECODER else given + said)
    limit = math.inf if name == "t5" else POSITIONS
    fitting = [row for row, length in enumerate(lengths) if length <= limit]
    assert {POSITIONS, POSITIONS + 1} <= set(lengths)
    plan = plan_dialogue(dialogue, loaded, layout(context))
    assert plan.dialogue.ids == [dialogue.ids[row] for row in fitting]
    dialogue_into_shards(plan, loaded, tmp_path)  # the model really takes them
    results = dialogue_results(rows_of(tmp_path, plan.dialogue.ids), len(dialogue.ids))
    assert results.num_too_long == len(lengths) - len(fitting)
    assert results.num_replies == len(fitting)
    if name != "t5":
        row = next(row for row, length in enumerate(lengths) if length > limit)
        with pytest.raises(ValueError, match=r"all 1 prompt–reply pairs have more than 64 tokens"):
            plan_dialogue(made_up([dialogue.prompts[row]], [dialogue.replies[row]]), loaded, layout(context))


def test_what_cannot_be_scored_says_why(dialogue, load):
    with pytest.raises(ValueError, match="is a masked model; remove dialogue"):
        plan_dialogue(dialogue, load("bert"), layout())
    loaded = load("llama")
    with pytest.raises(ValueError, match="the prompt or the reply of pair id1 has no tokens; omit the pair"):
        plan_dialogue(made_up(["Hi you", "Hi all"], ["Hi there", ""]), loaded, layout())
    loaded.tokenizer.add_tokens([AddedToken("<|new|>", special=True)])
    with pytest.raises(ValueError, match="token id 400 exceeds"):
        plan_dialogue(made_up(["Hi you"], ["<|new|> there"]), loaded, layout())


def table_of(log_likelihoods, num_tokens):
    ids = [f"id{row}" for row in range(len(num_tokens))]
    return pa.table([ids, ids, ids, log_likelihoods, num_tokens], COLUMNS)


def results_of(log_likelihoods, num_tokens):
    table = table_of(log_likelihoods, num_tokens)
    return dialogue_results(table, len(table))


def draw_pairs(generator, number):
    tokens = generator.integers(2, 40, size=number)
    return tokens * generator.gamma(8, 0.4, size=number) + generator.gamma(2, 5, size=number), tokens


def test_the_interval_is_close_to_a_bootstrap_over_pairs():
    generator = np.random.default_rng(1)
    nll, tokens = draw_pairs(generator, 300)
    drawn = generator.integers(300, size=(8000, 300))
    resampled = np.exp(nll[drawn].sum(axis=1) / tokens[drawn].sum(axis=1))
    expected = np.quantile(resampled, [0.025, 0.975])
    results = results_of(-nll, tokens)
    np.testing.assert_allclose(results.interval, expected, atol=0.07 * (expected[1] - expected[0]))
    assert results.perplexity == pytest.approx(math.exp(nll.sum() / tokens.sum()), rel=1e-12)


def test_few_pairs_or_few_long_ones_have_no_interval():
    nll, tokens = draw_pairs(np.random.default_rng(2), 60)
    assert results_of(-nll[:19], tokens[:19]).interval is None
    one_long = results_of(-nll[:60], np.where(np.arange(60) == 0, 3000, tokens[:60]))
    assert "count as only 1 of equal length, and an interval needs 30" in one_long.no_interval
