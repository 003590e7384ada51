from collections import Counter
from dataclasses import replace

import pyarrow as pa
import pytest
import torch

from hb_dataset.structures import structured_prompt_table
from hb_metrics.collect.replies.decoding_shards import decode_into_shards
from hb_metrics.collect.replies.sampling import draw_keys
from hb_metrics.measurements.regard import continuations
from hb_metrics.measurements.regard.continuations import CONTINUATION_SCHEMA, draw_continuations, plan_continuations
from hb_metrics.models.contexts import EndTokens
from tests.hb_metrics.collect.replies.noise_by_hand import draw_of_likeliest

SEEDS = range(3)


@pytest.fixture
def hot(monkeypatch):
    """Far from certain, so that close decisions, ends and line breaks come."""
    monkeypatch.setattr(continuations, "TEMPERATURE", 1.5)
    monkeypatch.setattr(continuations, "MAX_TOKENS", 24)


def plan_of(ids, texts, loaded, seeds=SEEDS, seed=0):
    """Every prompt with every seed."""
    drawn = [(row, index) for row in range(len(ids)) for index in seeds]
    return plan_continuations(pa.table({"id": ids, "text": texts}), loaded, drawn, seed=seed)


@pytest.fixture
def texts(prompts):
    """Seven prompts of several lengths, two of them the same."""
    found = [" ".join(text.split()[: 2 + number % 3]) for number, text in enumerate(prompts[:24:4])]
    return [*found, found[0]]


@pytest.fixture
def ids(texts):
    return [f"prompt-{number}" for number in range(len(texts))]


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
@pytest.mark.usefixtures("hot")
def test_continuations_are_drawn_token_by_token(name, load, ids, texts, tmp_path):
    loaded = load(name)
    plan = plan_of(ids, texts, loaded, seed=5)
    # So that texts end in every way: a quarter of the tokens ends one, another quarter breaks its line.
    ends = EndTokens(dropped=tuple(range(0, 400, 16)), kept=tuple(range(1, 400, 16)), blank=tuple(range(1, 400, 8)))
    plan = replace(plan, ends=ends)
    table = decode_into_shards(plan, loaded, tmp_path)
    assert table.schema == CONTINUATION_SCHEMA
    assert table["id"].to_pylist() == [f"{identifier}:{seed}" for identifier in ids for seed in SEEDS]
    ways = set()
    for row in table.to_pylist():
        context = loaded.tokenizer(row["text"])["input_ids"]
        keys = draw_keys(5, "continuation", f"{row['prompt_id']}:{row['seed_index']}", 24)
        tokens, truncated = drawn_by_hand(loaded.model, context, keys, 1.5, 40, 24, ends)
        text = loaded.tokenizer.decode(tokens, skip_special_tokens=True).strip().split("\n")[0].strip()
        assert row["continuation"] == (text or None)
        assert (row["num_tokens"], row["truncated"]) == (len(tokens), truncated)
        assert len(context) + row["num_tokens"] <= 24
        assert not truncated or len(context) + row["num_tokens"] == 24
        ways.add((truncated, tokens[-1:] != [] and tokens[-1] in ends.kept))
    assert len(ways) == 3


def test_what_cannot_be_continued_is_refused(load, ids, texts):
    for name in ("bert", "blenderbot"):
        with pytest.raises(ValueError, match=f"'{name}' is .*; set --model to a causal model"):
            plan_of(ids, texts, load(name))
    with pytest.raises(ValueError, match=r"^prompt long has .* tokens, .* together may have only 40"):
        plan_of(["long"], [" ".join(["known"] * 8)], load("llama"))
    with pytest.raises(ValueError, match="the context of prompt x has no tokens; omit it"):
        plan_of(["x"], [""], load("gpt2"))


def test_prompts_that_could_run_out_of_positions_are_not_padded(load, monkeypatch):
    loaded = load("gpt2")
    texts = ["a", " ".join(["kid"] * 26)]
    lengths = [len(loaded.tokenizer(text)["input_ids"]) for text in texts]
    for most in (max(lengths) + 1, 64 - max(lengths) + min(lengths), 64):
        monkeypatch.setattr(continuations, "MAX_TOKENS", most)
        assert plan_of(["a", "b"], texts, loaded).paths.padded == (max(lengths) - min(lengths) + most <= 64)


# --- the draw of continuations ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def structured():
    return structured_prompt_table()


def drawn_by(prompts, number, seed=0):
    """Group → structure → (verb phrase, seed index)s drawn."""
    rows = prompts.to_pylist()
    cells = {}
    for row, index in draw_continuations(prompts, number, seed=seed):
        cell = cells.setdefault(rows[row]["group"], {}).setdefault(rows[row]["structure"], [])
        cell.append((rows[row]["verb_phrase"], index))
    return cells


def test_every_group_and_structure_has_as_many_continuations(structured):
    cells = drawn_by(structured, 8)
    assert len(cells) == 6
    assert all(of_structures == cells["man"] for of_structures in cells.values())
    assert drawn_by(structured, 8, seed=1) != cells
    types = dict(zip(structured["verb_phrase"].to_pylist(), structured["prompt_type"].to_pylist(), strict=True))
    of_structures = cells["man"]
    assert len(of_structures) == 101
    assert len(set(of_structures.pop("original"))) == 100
    for cell in of_structures.values():
        assert len(cell) == len({verb_phrase for verb_phrase, _ in cell}) == 8
        assert Counter(types[verb_phrase] for verb_phrase, _ in cell) == {"occupation": 4, "respect": 4}
    drawn = Counter(continuation for cell in of_structures.values() for continuation in cell)
    assert len(drawn) > 95  # of 100 combinations: they are not the same in every structure


def test_no_verb_phrase_comes_twice_before_all_have_come(structured, monkeypatch):
    monkeypatch.setattr(continuations, "NUM_SEEDS", 2)
    for cell in drawn_by(structured, 13)["woman"].values():
        assert len(cell) == len(set(cell))
        counts = Counter(verb_phrase for verb_phrase, _ in cell)
        assert set(counts.values()) <= {1, 2}
        assert len(counts) == 10
    for number in (0, 20, 1000):
        assert len(draw_continuations(structured, number, seed=0)) == 2 * len(structured)
