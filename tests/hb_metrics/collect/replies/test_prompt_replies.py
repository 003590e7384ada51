import json
from collections import Counter, defaultdict
from dataclasses import replace
from functools import partial
from typing import get_args

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import torch
from scipy.stats import chisquare

from hb_dataset import load_table
from hb_dataset.prompt_columns import VARIATIONS
from hb_dataset.variations import mixed_variations, vary_prompts
from hb_metrics.collect import units
from hb_metrics.collect.replies import decoding_shards
from hb_metrics.collect.replies.cues import draw_personas
from hb_metrics.collect.replies.decoding import decode
from hb_metrics.collect.replies.decoding_settings import MODEL_PRESET, PRESETS, Decoding, decoding_preset
from hb_metrics.collect.replies.decoding_shards import MOST_ROWS, decode_into_shards, fitting_batch_size
from hb_metrics.collect.replies.forward import Paths
from hb_metrics.collect.replies.prompt_replies import plan_replies
from hb_metrics.collect.replies.requests import make_requests, select_prompts
from hb_metrics.measurements.generation.options import GenerationOptions
from hb_metrics.models.layout import Layout
from hb_metrics.run.schema import REPLY_SCHEMA
from tests.hb_metrics.conftest import encode_contexts
from tests.hb_metrics.decoding_batches import in_batches_of
from tests.hb_metrics.run_files import contents

SHORT = {"max_new_tokens": 8, "min_new_tokens": 2}
DECODINGS = {
    "greedy": Decoding(**SHORT),
    "sample": Decoding(**SHORT, sample=True, temperature=1.5, top_k=40, top_p=0.9, end_after_sentence=True),
}
MODELS = {"gpt2": "dialogpt", "llama": "plain", "blenderbot": "blenderbot"}
ROWS_PER_SHARD = 8


@pytest.fixture(scope="module")
def prompts():
    """33 prompts with all their columns, in cells of 1 to 4."""
    templates = ("Hi! I'm {noun_phrase}.", "I'm {noun_phrase}.", "I love {plural_noun_phrase}.")
    values = {"template": templates, "noun": ("kid", "friend", "parent", "man", "woman")}
    table = load_table("v1.0")
    for name, allowed in values.items():
        table = table.filter(pc.is_in(table[name], pa.array(allowed)))
    rows = defaultdict(list)
    for row, cell in enumerate(zip(table["descriptor"].to_pylist(), table["template"].to_pylist(), strict=True)):
        rows[cell].append(row)
    cells = list(rows.values())
    chosen = [cells[place * len(cells) // 13][: 1 + place % 4] for place in range(13)]
    return table.take(pa.array(sorted(row for cell in chosen for row in cell)))


@pytest.fixture
def small_shards(monkeypatch):
    monkeypatch.setattr(decoding_shards, "ROWS_PER_SHARD", ROWS_PER_SHARD)


def plan_for(loaded, table, decoding, **options):
    options = {"layout": Layout(MODELS.get(loaded.name, "plain")), "seed": 3, **options}
    return plan_replies(make_requests(table, decoding=decoding, **options), loaded)


def test_replies_do_not_depend_on_batch_order_or_subset(prompts, load, tmp_path, small_shards):
    loaded = load("blenderbot")
    plan = plan_for(loaded, prompts, DECODINGS["sample"])
    table = decode_into_shards(plan, loaded, tmp_path / "default")
    assert table.schema == REPLY_SCHEMA
    assert table["id"].to_pylist() == prompts["id"].to_pylist()
    assert table["text"].to_pylist() == prompts["text"].to_pylist()
    assert len(list((tmp_path / "default").iterdir())) == -(-len(prompts) // ROWS_PER_SHARD) > 3
    assert len(set(table["reply"].to_pylist())) > len(table) // 8  # else much could be mixed up unseen

    with in_batches_of(3):
        again = decode_into_shards(plan, loaded, tmp_path / "threes")
    assert again.equals(table)
    assert contents(tmp_path / "threes") == contents(tmp_path / "default")

    order = np.random.default_rng(0).permutation(len(prompts))
    for rows in (order, order[:11]):
        folder = tmp_path / f"shuffled-{len(rows)}"
        other = plan_for(loaded, prompts.take(rows), DECODINGS["sample"])
        assert decode_into_shards(other, loaded, folder).equals(table.take(rows).combine_chunks())


def test_batches_are_halved_until_they_fit_and_nothing_is_lost(prompts, load, tmp_path, monkeypatch, small_shards):
    loaded = load("gpt2")
    plan = plan_for(loaded, prompts, DECODINGS["sample"])
    whole = decode_into_shards(plan, loaded, tmp_path / "whole")
    calls = []

    def decode_some(model, contexts, *rest):
        calls.append(len(contexts))
        if len(contexts) > 2:
            raise torch.OutOfMemoryError("of another device, with words of its own")
        return decode(model, contexts, *rest)

    monkeypatch.setattr(decoding_shards, "decode", decode_some)
    with pytest.warns(UserWarning, match="memory ran out"):
        table = decode_into_shards(plan, loaded, tmp_path / "halved")
    assert table.equals(whole)
    assert contents(tmp_path / "halved") == contents(tmp_path / "whole")
    assert max(calls) > 2
    assert sum(number for number in calls if number <= 2) == len(prompts)


def cells_of(table):
    cells = defaultdict(list)
    for row in table.to_pylist():
        cells[row["axis"], row["descriptor"], row["template"]].append(row["id"])
    return cells


@pytest.mark.parametrize("number", [2, 50])
def test_so_many_prompts_of_each_cell_are_drawn(number, prompts):
    every, chosen = cells_of(prompts), cells_of(select_prompts(prompts, number, seed=5))
    assert len({len(ids) for ids in every.values()}) > 1  # cells of several sizes
    expected = {cell: min(number, len(ids)) for cell, ids in every.items()}
    assert {cell: len(ids) for cell, ids in chosen.items()} == expected
    assert all(set(ids) <= set(every[cell]) for cell, ids in chosen.items())


def test_prompts_are_drawn_by_id_and_seed_alone(prompts):
    chosen = select_prompts(prompts, 2, seed=5)
    ids = chosen["id"].to_pylist()
    assert ids == [
        identifier for identifier in prompts["id"].to_pylist() if identifier in set(ids)
    ]  # the order is kept
    assert chosen.schema == prompts.schema
    order = np.random.default_rng(0).permutation(len(prompts))
    assert sorted(select_prompts(prompts.take(order), 2, seed=5)["id"].to_pylist()) == sorted(ids)
    cell = prompts.filter(pa.compute.equal(prompts["descriptor"], chosen["descriptor"][0]))
    assert set(select_prompts(cell, 2, seed=5)["id"].to_pylist()) == set(ids) & set(cell["id"].to_pylist())
    assert set(ids) < set(select_prompts(prompts, 3, seed=5)["id"].to_pylist())
    assert set(ids) != set(select_prompts(prompts, 2, seed=6)["id"].to_pylist())


def test_each_prompt_of_a_cell_is_drawn_as_often(prompts):
    cell = max(cells_of(prompts).values(), key=len)
    table = prompts.filter(pa.compute.is_in(prompts["id"], pa.array(cell)))
    drawn = Counter(select_prompts(table, 1, seed=seed)["id"][0].as_py() for seed in range(1000))
    assert chisquare([drawn[number] for number in cell]).pvalue > 1e-4


def test_flags_and_texts_are_stored_as_varied(prompts, load, tmp_path):
    loaded = load("llama")
    plan = plan_for(loaded, prompts, Decoding(max_new_tokens=2), variations=True, seed=11)
    table = decode_into_shards(plan, loaded, tmp_path)
    flags = {name: table[name].to_numpy() for name in VARIATIONS}
    rebuilt = vary_prompts(prompts, flags)
    assert table["text"].to_pylist() == rebuilt.texts.to_pylist()
    expected = mixed_variations(prompts, seed=11)
    assert plan.requests.texts == expected.texts.to_pylist()
    for name in VARIATIONS:
        np.testing.assert_array_equal(flags[name], expected.flags[name])
        assert 0.25 < flags[name].mean() < 0.75
    asked = plan.requests.texts, plan.requests.personas
    assert plan.contexts == encode_contexts(*asked, loaded.model, loaded.tokenizer, "plain")
    again = plan_for(loaded, prompts, Decoding(max_new_tokens=2), variations=True, seed=12)
    assert again.requests.texts != plan.requests.texts

    order = np.random.default_rng(0).permutation(len(prompts))
    other = plan_for(loaded, prompts.take(order), Decoding(max_new_tokens=2), variations=True, seed=11)
    assert other.requests.texts == [plan.requests.texts[row] for row in order]


def test_persona_lines_are_drawn_stored_and_given(prompts, load, tmp_path):
    loaded = load("blenderbot")
    some, lines = prompts.slice(0, 10), [f"I like {thing}." for thing in ("soup", "tea", "rain", "kites", "jam")]
    plan = plan_for(loaded, some, Decoding(max_new_tokens=2), personas=lines, num_personas=1)
    table = decode_into_shards(plan, loaded, tmp_path)
    drawn = draw_personas(some["id"].to_pylist(), lines, 1, seed=3)
    assert table["personas"].to_pylist() == drawn
    for context, mine, text in zip(plan.contexts, drawn, plan.requests.texts, strict=True):
        said = loaded.tokenizer.decode(context, clean_up_tokenization_spaces=False)
        assert said == f"<s> your persona: {mine[0]}  {text}</s>"
    without = plan_for(loaded, some, Decoding(max_new_tokens=2), personas=lines)
    assert without.requests.personas == [[]] * 10
    # A shard states what it was made from, so an answer to another message is not taken for this one.
    one = (plan_for(loaded, some.slice(0, 1), plan.decoding, personas=lines, num_personas=number) for number in (1, 0))
    found = [decode_into_shards(request, loaded, tmp_path / "one")["personas"].to_pylist() for request in one]
    assert found == [drawn[:1], [[]]]


def test_what_is_recorded_follows_what_is_asked(prompts, load):
    loaded, lines = load("llama"), ["I like soup.", "I like tea."]
    plan = partial(plan_for, loaded, prompts.slice(0, 20), Decoding(max_new_tokens=2))
    found = plan(layout=Layout("plain", "because"), personas=lines, num_personas=2).description()
    assert json.loads(json.dumps(found)) == found
    expected = {"context": "plain", "context_reason": "because", "num_prompts": 20, "persona_lines": 2}
    assert found.items() >= {**expected, "max_new_tokens": 2, "same_in_any_batch": True}.items()
    assert plan().description() == plan().description()
    assert plan().description()["persona_lines"] == 0
    assert plan().description()["prompts_digest"] == found["prompts_digest"]
    assert plan().description()["personas_digest"] != found["personas_digest"]
    assert plan(variations=True).description()["prompts_digest"] != found["prompts_digest"]


def test_the_presets_are_the_papers():
    """Smith et al. (2022), A.4: beams of 10 and 3, at least 20 tokens, no 3-gram twice within a response."""
    for name, beams in (("dialogpt", 10), ("blenderbot2", 3)):
        preset = decoding_preset(name)
        assert (preset.num_beams, preset.min_new_tokens, preset.no_repeat_ngram_size) == (beams, 20, 3)
        assert not preset.sample
        assert not preset.end_after_sentence
    assert {*PRESETS, MODEL_PRESET} == {*get_args(GenerationOptions.__annotations__["decoding"])}
    assert PRESETS["sample"].sample
    assert (PRESETS["greedy"].num_beams, PRESETS["greedy"].sample) == (1, False)


def test_settings_of_a_preset_can_be_changed():
    found = decoding_preset("dialogpt", num_beams=4, min_new_tokens=0, max_new_tokens=None)
    assert found == replace(PRESETS["dialogpt"], num_beams=4, min_new_tokens=0)
    assert decoding_preset("sample", temperature=None) == PRESETS["sample"]
    assert PRESETS["dialogpt"].num_beams == 10
    assert decoding_preset("sample", top_k=0).top_k >= 10**9  # all tokens
    with pytest.raises(ValueError, match="'dialogtp' is not known; did you mean 'dialogpt'"):
        decoding_preset("dialogtp")
    with pytest.raises(ValueError, match=r"temperature is 0.*--decoding greedy"):
        decoding_preset("sample", temperature=0)
    with pytest.raises(ValueError, match="num_beams is 5"):
        decoding_preset("sample", num_beams=5)
    assert decoding_preset("blenderbot2", max_new_tokens=10).min_new_tokens == 10


def test_shards_are_written_in_order_whatever_batch_ends_first(prompts, load, tmp_path, monkeypatch, small_shards):
    """With many cores, the first batches are of several shards, and their beginnings are decoded first."""
    loaded = load("gpt2")
    plan = replace(plan_for(loaded, prompts, DECODINGS["greedy"]), paths=Paths(cached=True, padded=False))
    table = decode_into_shards(plan, loaded, tmp_path / "few")
    monkeypatch.setattr(decoding_shards, "LEAST_CONTEXTS", 1)
    for module in (decoding_shards, units):
        monkeypatch.setattr(module, "units_at_once", lambda model: 64)
    assert decode_into_shards(plan, loaded, tmp_path / "many").equals(table)
    assert contents(tmp_path / "many") == contents(tmp_path / "few")


def test_the_batch_size_follows_the_memory(load, monkeypatch):
    loaded = load("gpt2")
    most = fitting_batch_size(loaded, 50)
    assert most == MOST_ROWS["cpu"]
    memory = psutil.virtual_memory()
    # Keys and values of 2 layers of 32 numbers at 50 places, and four logits of 400 tokens, in float32.
    row = 4 * (2 * 50 * 32 * 2 + 4 * 4 * 400)
    for rows, expected in ((0, 1), (1, 1), (12, 12)):
        monkeypatch.setattr(psutil, "virtual_memory", lambda rows=rows: memory._replace(available=4 * rows * row + 3))
        assert fitting_batch_size(loaded, 50) == expected
    # Llama's keys and values are of half as many heads.
    row = 4 * (2 * 50 * 16 * 2 + 4 * 4 * 400)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: memory._replace(available=4 * 12 * row + 3))
    assert fitting_batch_size(load("llama"), 50) == 12
