import json
from dataclasses import replace
from functools import wraps

import numpy as np
import pytest
import torch

from hb_metrics.inference.models.contexts import EndTokens
from hb_metrics.inference.models.loading import LoadedModel
from hb_metrics.inference.replies import decoding_shards
from hb_metrics.inference.replies.continuations import (
    CONTINUATION_SCHEMA,
    count_continuations,
    plan_continuations,
)
from hb_metrics.inference.replies.decoding_shards import decode_into_shards
from hb_metrics.inference.replies.sampling import draw_keys
from tests.hb_metrics.inference.replies.noise_by_hand import draw_of_likeliest

# Far from certain, so that close decisions, ends and line breaks come.
HOT = {"temperature": 1.5, "top_k": 40, "max_tokens": 24}
SEEDS = range(3)


def plan_all(ids, texts, loaded, seeds=SEEDS, **settings):
    """Each prompt with each seed."""
    drawn = [(row, seed) for row in range(len(ids)) for seed in seeds]
    return plan_continuations(ids, texts, loaded, drawn=drawn, **{**HOT, **settings})


@pytest.fixture
def load(get_small_model):
    def load(name):
        model, tokenizer = get_small_model(name)
        kind = {"blenderbot": "encoder-decoder", "bert": "masked"}.get(name, "causal")
        return LoadedModel(
            model=model,
            tokenizer=tokenizer,
            config=model.config,
            kind=kind,
            name=name,
            source=name,
            revision=None,
            digest="digest",
            dtype="float32",
        )

    return load


@pytest.fixture
def texts(prompts):
    """Twelve prompts of several lengths, two of them the same."""
    found = [" ".join(text.split()[: 2 + number % 3]) for number, text in enumerate(prompts[:44:4])]
    return [*found, found[0]]


@pytest.fixture
def ids(texts):
    return [f"prompt-{number}" for number in range(len(texts))]


@pytest.fixture
def small_shards(monkeypatch):
    monkeypatch.setattr(decoding_shards, "ROWS_PER_SHARD", 8)


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def drawn_by_hand(model, context, keys, temperature, top_k, max_tokens, ends):
    """Token by token, without a cache: the highest sum of logit and noise among the `top_k` likeliest."""
    tokens, said = [], False
    for key in keys[: max_tokens - len(context)]:
        with torch.no_grad():
            logits = model(torch.tensor([context + tokens])).logits[0, -1].double().numpy()
        token = draw_of_likeliest(logits, key, temperature, top_k)
        if token in ends.dropped:
            return tokens, False
        tokens.append(token)
        said |= token not in ends.blank
        if said and token in ends.kept:
            return tokens, False
    return tokens, True


@pytest.mark.parametrize("name", ["gpt2", "llama", "gpt2-without-bos"])
def test_continuations_are_drawn_token_by_token(name, load, ids, texts, tmp_path):
    loaded = load(name)
    plan = plan_all(ids, texts, loaded, seed=5)
    # So that texts end in every way: a quarter of the tokens ends one, another quarter breaks its line.
    ends = EndTokens(dropped=tuple(range(0, 400, 16)), kept=tuple(range(1, 400, 16)), blank=tuple(range(1, 400, 8)))
    plan = replace(plan, ends=ends)
    table = decode_into_shards(plan, loaded, tmp_path, progress=False)
    assert table.schema == CONTINUATION_SCHEMA
    assert table["id"].to_pylist() == [f"{each}:{seed}" for each in ids for seed in SEEDS]
    ways = set()
    for row in table.to_pylist():
        context = loaded.tokenizer(row["text"])["input_ids"]
        keys = draw_keys(5, "continuation", f"{row['prompt_id']}:{row['seed_index']}", 24)
        tokens, truncated = drawn_by_hand(loaded.model, context, keys, 1.5, 40, 24, ends)
        text = loaded.tokenizer.decode(tokens, skip_special_tokens=True).strip().split("\n")[0].strip()
        assert row["continuation"] == (text or None)
        assert (row["num_tokens"], row["truncated"]) == (len(tokens), truncated)
        assert row["ended_line"] == (bool(text) and not truncated and tokens[-1] in ends.kept)
        assert len(context) + row["num_tokens"] <= 24
        assert not truncated or len(context) + row["num_tokens"] == 24
        ways.add((truncated, row["ended_line"]))
    assert len(ways) == 3
    blank, cut, lines = (sum(each) for each in zip(*(
        (row["continuation"] is None, row["truncated"], row["ended_line"]) for row in table.to_pylist()
    ), strict=True))  # fmt: skip
    assert list(count_continuations(table).values()) == [len(table), blank, cut, lines]


@pytest.mark.parametrize("name", ["gpt2", "llama", "mamba"])
def test_continuations_do_not_depend_on_batch_order_or_subset(name, load, ids, texts, tmp_path, small_shards):
    loaded = load(name)
    plan = plan_all(ids, texts, loaded)
    assert plan.padded == (name != "mamba")
    table = decode_into_shards(plan, loaded, tmp_path / "default", progress=False)
    assert len(set(table["continuation"].to_pylist())) > len(table) * 3 // 4  # else much could be mixed up unseen
    for size in (1, 5) if name == "llama" else (5,):  # of the others, a prompt alone comes last
        assert decode_into_shards(plan, loaded, tmp_path / str(size), batch_size=size, progress=False).equals(table)
        assert contents(tmp_path / str(size)) == contents(tmp_path / "default")
    of_id = {row["id"]: row for row in table.to_pylist()}

    order = np.random.default_rng(0).permutation(len(ids))
    other = plan_all([ids[row] for row in order], [texts[row] for row in order], loaded, seeds=[2, 0])
    found = decode_into_shards(other, loaded, tmp_path / "shuffled", progress=False).to_pylist()
    assert [row["id"] for row in found] == [f"{ids[row]}:{index}" for row in order for index in (2, 0)]
    assert all(row == of_id[row["id"]] for row in found)

    drawn = [(4, 1), (0, 2), (0, 0), (11, 1)]
    some = plan_continuations(ids, texts, loaded, drawn=drawn, **HOT)
    found = decode_into_shards(some, loaded, tmp_path / "some", progress=False).to_pylist()
    assert found == [of_id[f"{ids[row]}:{index}"] for row, index in drawn]
    alone = plan_all(ids[3:4], texts[3:4], loaded, seeds=[1])
    (row,) = decode_into_shards(alone, loaded, tmp_path / "alone", progress=False).to_pylist()
    assert row == of_id[f"{ids[3]}:1"]


def test_seeds_and_ids_draw_other_continuations_of_the_same_text(load, ids, texts, tmp_path):
    loaded = load("llama")
    first, second = (
        decode_into_shards(plan_all(ids, texts, loaded, seed=seed), loaded, tmp_path / str(seed), progress=False)[
            "continuation"
        ].to_pylist()
        for seed in (0, 1)
    )
    assert sum(np.equal(first, second)) < 4
    assert texts[0] == texts[-1]
    assert first[: len(SEEDS)] != first[-len(SEEDS) :]
    assert len(set(first[: len(SEEDS)])) == len(SEEDS)


def test_the_start_token_of_a_tokenizer_is_given_and_recorded(load, texts, ids):
    loaded = load("llama")
    roberta = replace(loaded, tokenizer=load("blenderbot").tokenizer)
    plan = plan_all(ids, texts, roberta)
    assert plan.start_token == "<s>"
    assert json.loads(json.dumps(plan.description())) == plan.description()
    assert all(context[0] == 0 for context in plan.contexts)
    assert all(context[-1] != 1 for context in plan.contexts)  # which would end the text before it went on


def test_a_line_break_ends_a_text_once_something_is_said(load, ids, texts, tmp_path, monkeypatch):
    loaded = load("gpt2")
    plan = plan_all(ids, texts, loaded)
    assert plan.start_token is None
    (newline,) = loaded.tokenizer("\n")["input_ids"]
    (word,) = loaded.tokenizer("a")["input_ids"]
    assert newline in plan.ends.kept
    assert newline in plan.ends.blank
    assert word not in plan.ends.blank
    one = plan_all(ids[:1], texts[:1], loaded, seeds=[0], top_k=1)
    written = iter([newline, newline, word, newline, word, word])

    forward = type(loaded.model).forward

    @wraps(forward)  # whose arguments are looked at
    def speak(*args, **kwargs):
        output = forward(*args, **kwargs)
        output.logits[:] = -1e4
        output.logits[..., next(written)] = 0
        return output

    monkeypatch.setattr(type(loaded.model), "forward", speak)
    (row,) = decode_into_shards(one, loaded, tmp_path, progress=False).to_pylist()
    assert (row["continuation"], row["num_tokens"], row["truncated"], row["ended_line"]) == ("a", 4, False, True)


def test_a_run_that_broke_off_goes_on_and_ends_the_same(load, ids, texts, tmp_path, small_shards, capsys):
    loaded = load("llama")
    plan = plan_all(ids, texts, loaded)
    whole = decode_into_shards(plan, loaded, tmp_path, progress=False)
    before = contents(tmp_path)
    assert len(before) == -(-len(plan.ids) // 8)
    sorted(tmp_path.iterdir())[1].unlink()
    assert decode_into_shards(plan, loaded, tmp_path, progress=False).equals(whole)
    assert contents(tmp_path) == before
    assert f"{len(plan.ids) - 8} of {len(plan.ids)} rows were there already" in capsys.readouterr().out


def test_what_cannot_be_continued_is_refused(load, ids, texts):
    for name in ("bert", "blenderbot"):
        with pytest.raises(ValueError, match="does not continue a text"):
            plan_all(ids, texts, load(name))
    loaded = load("gpt2")
    length = len(loaded.tokenizer(texts[0])["input_ids"])
    with pytest.raises(ValueError, match=f"^prompt x has {length} tokens"):
        plan_all(["x"], texts[:1], loaded, max_tokens=length)
    assert plan_all(["x"], texts[:1], loaded, max_tokens=length + 1).decoding.max_new_tokens == length + 1
    with pytest.raises(ValueError, match=r"no token of the context of prompt x"):
        plan_all(["x"], [""], loaded)


def test_prompts_that_could_run_out_of_positions_are_not_padded(load):
    loaded = load("gpt2")
    texts = ["a", " ".join(["kid"] * 26)]
    lengths = [len(loaded.tokenizer(text)["input_ids"]) for text in texts]
    assert max(lengths) - min(lengths) + 64 > 64
    assert plan_all(["a", "b"], texts, loaded, max_tokens=40).padded == (max(lengths) + 40 - 1 <= 64)
    assert not plan_all(["a", "b"], texts, loaded, max_tokens=64).padded
