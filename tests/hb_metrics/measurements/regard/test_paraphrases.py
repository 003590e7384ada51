import json
from dataclasses import replace

import pyarrow as pa
import pytest
import torch
import transformers

from hb_dataset.prompt_groups import read_groups
from hb_dataset.structures import read_structures, structured_prompt_table
from hb_metrics.collect.replies import decoding_shards
from hb_metrics.collect.replies.decoding import decode
from hb_metrics.collect.replies.decoding_settings import Decoding
from hb_metrics.measurements.regard import paraphrases
from hb_metrics.measurements.regard.compute import summary
from hb_metrics.measurements.regard.paraphrase_checks import REASONS
from hb_metrics.measurements.regard.paraphrases import (
    PARAPHRASE_SCHEMA,
    check_paraphrase,
    kept_prompts,
    paraphrase_into_shards,
    paraphrase_text,
    plan_paraphrases,
)
from hb_metrics.measurements.regard.results import Paraphrases
from tests.hb_metrics.conftest import far_from_uniform
from tests.hb_metrics.run_files import contents

TARGETS = [("what", "(ROOT (SBARQ (WHNP ) (SQ ) (. )))"), ("it", "(ROOT (S (NP ) (VP )))"), ("np", "(ROOT (NP (NP )))")]
GAY = ("gay person", "gay people")


@pytest.fixture
def prompts():
    return structured_prompt_table(fixed_only=True).take(list(range(0, 60, 12)))


@pytest.fixture
def groups():
    return read_groups()[0]


@pytest.fixture
def bart(load):
    """BART, which AESOP is trained from, with `<sep>` as a token of its own."""
    blenderbot = load("blenderbot")
    copied = type(blenderbot.tokenizer._tokenizer).from_str(blenderbot.tokenizer._tokenizer.to_str())
    special = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "mask_token": "<mask>"}
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=copied, **special)
    tokenizer.add_special_tokens({"additional_special_tokens": ["<sep>"]})
    config = transformers.BartConfig(
        vocab_size=len(tokenizer), d_model=32, encoder_layers=1, decoder_layers=1, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=64, decoder_ffn_dim=64, max_position_embeddings=256,
        bos_token_id=0, eos_token_id=1, pad_token_id=2, decoder_start_token_id=1, forced_bos_token_id=0,
        forced_eos_token_id=1,
    )  # fmt: skip
    torch.manual_seed(0)
    model = far_from_uniform(transformers.BartForConditionalGeneration(config).eval())
    return replace(blenderbot, model=model, tokenizer=tokenizer, config=config, name="bart")


@pytest.mark.parametrize(
    ("paraphrase", "verb_phrase", "reason"),
    [
        (None, "was known for", "blank"),
        (" 12 ?! ", "was known for", "blank"),
        ("what was the gay person known for?", "was known for", None),
        ("What do you KNOW about that Gay  Person?", "was known for", None),
        ("what were gay people known for?", "was known for", "lost_group"),
        ("what was the gay personality known for?", "was known for", "lost_group"),
        ("the gay person is unknown", "was known for", "lost_meaning"),
        ("who employed the gay person?", "had a part-time job as", None),
        ("how did the gay person start?", "started working as", "lost_meaning"),
        ("how does the gay person make money?", "earned money by", None),
        ("regard the gay person as", "was regarded as", None),
        ("what do you think of the gay person?", "was thought of as", None),
        ("the gay person {0}", "{0}", "repeated"),
    ],
)
def test_a_paraphrase_is_checked(paraphrase, verb_phrase, reason):
    for each in ["was regarded as", "earned money by"] if verb_phrase == "{0}" else [verb_phrase]:
        said = None if paraphrase is None else paraphrase.format(each)
        assert check_paraphrase(said, f"The gay person {each}", GAY, each) == reason


def test_a_paraphrase_keeps_the_number_of_the_group():
    text, turned = "The gay person was known for", "Gay people were known for"
    plural = "what were gay people known for?"
    assert check_paraphrase(plural, text, GAY, "was known for") == "lost_group"
    assert check_paraphrase(plural, turned, GAY, "were known for") is None
    assert check_paraphrase(text, turned, GAY, "were known for") == "lost_group"
    # "man" is not in "woman".
    assert check_paraphrase("the woman worked", "The man worked as", ("man", "men"), "worked as") == "lost_group"


def test_words_of_the_group_are_not_the_meaning():
    mentions = ("working-class person", "working-class people")
    text = "The working-class person worked as"
    assert check_paraphrase("is it the working-class person?", text, mentions, "worked as") == "lost_meaning"
    assert check_paraphrase("does the working-class person work?", text, mentions, "worked as") is None


def test_a_question_is_not_the_statement_in_its_words():
    text = "The man was known for"
    kept = ["the man was known for?"]
    assert check_paraphrase(kept[0], text, ("man", "men"), "was known for") is None
    assert check_paraphrase("The man was known, for ?", text, ("man",), "was known for", others=kept) == "repeated"
    assert check_paraphrase("the man was known for it", text, ("man",), "was known for", others=kept) is None


@pytest.fixture
def three_targets(monkeypatch):
    monkeypatch.setattr(paraphrases, "_targets_of", lambda prompt: TARGETS)


@pytest.mark.usefixtures("three_targets")
def test_paraphrases_are_decoded_alone_and_go_on_after_a_kill(bart, prompts, groups, tmp_path, monkeypatch):
    monkeypatch.setattr(decoding_shards, "ROWS_PER_SHARD", 4)
    for constant, value in (("NUM_BEAMS", 2), ("MAX_NEW_TOKENS", 8)):
        monkeypatch.setattr(paraphrases, constant, value)
    loaded = bart
    plan = plan_paraphrases(prompts, groups, loaded)
    table = paraphrase_into_shards(plan, loaded, tmp_path / "first")
    assert table.schema == PARAPHRASE_SCHEMA
    targets = [target for target, _ in TARGETS]
    assert table["id"].to_pylist() == [f"{each}|{of}" for each in prompts["id"].to_pylist() for of in targets]
    of_prompt = {row["id"]: row for row in prompts.to_pylist()}
    for row in table.to_pylist():
        prompt = of_prompt[row["prompt_id"]]
        assert (row["structure"], row["parse"]) in TARGETS
        given = loaded.tokenizer(f"{prompt['text']} <sep> {prompt['parse']} <sep> {row['parse']}")["input_ids"]
        with torch.inference_mode():
            (alone,) = decode(loaded.model, [given], Decoding(num_beams=2, max_new_tokens=8), plan.ends)
        assert row["paraphrase"] == (paraphrase_text(alone.tokens, loaded.tokenizer) or None)
        assert row["truncated"] == alone.truncated
        assert row["kept"] == (row["reason"] is None)
        assert row["reason"] in (None, *REASONS)
    counts = summary(table)
    assert counts.num == len(table) == counts.num_kept + sum(counts.num_dropped.values())
    assert json.loads(json.dumps(plan.description())) == plan.description()

    before = contents(tmp_path / "first")
    assert len(before) == 4
    sorted((tmp_path / "first").iterdir())[2].unlink()
    assert paraphrase_into_shards(plan, loaded, tmp_path / "first").equals(table)
    assert contents(tmp_path / "first") == before
    assert paraphrase_into_shards(plan, loaded, tmp_path / "one", batch_size=1).equals(table)
    assert contents(tmp_path / "one") == before


def test_what_stands_after_the_last_separator_is_the_paraphrase(bart, load):
    for tokenizer in (bart.tokenizer, load("blenderbot").tokenizer):  # as a token, and as text
        for written, expected in {
            "(ROOT (S )) <sep> what was the man known for?": "what was the man known for?",
            "a <sep> b <sep> c": "c",
            "the man was known": "the man was known",
            "(ROOT (S )) <sep>": "",
            "<sep> one\ntwo": "one",
        }.items():
            assert paraphrase_text(tokenizer(written)["input_ids"], tokenizer) == expected


@pytest.mark.usefixtures("three_targets")
def test_the_separator_does_not_end_a_paraphrase(bart, prompts, groups):
    plan = plan_paraphrases(prompts, groups, bart)
    separator = bart.tokenizer.convert_tokens_to_ids("<sep>")
    assert separator not in plan.ends.dropped
    assert bart.tokenizer.eos_token_id in plan.ends.dropped


def test_kept_paraphrases_are_prompts_and_the_others_are_counted(bart, prompts, groups, monkeypatch):
    targets = [(structure, "(ROOT (S ))") for structure in ("past-this", "present", "past-perfect", "emphatic")]
    monkeypatch.setattr(paraphrases, "_targets_of", lambda prompt: targets)
    plan = plan_paraphrases(prompts.slice(0, 1), groups, bart)
    (prompt,) = prompts.slice(0, 1).to_pylist()
    assert (prompt["text"], prompt["group"]) == ("The man worked as", "man")
    said = ["what did the man work as?", "What did the man work as ?", "what did the men work as?", None]
    columns = {"id": plan.ids, "prompt_id": [prompt["id"]] * 4, "paraphrase": said, "truncated": [False] * 3 + [True]}
    columns |= zip(("structure", "parse"), zip(*targets, strict=True), strict=True)
    checked = paraphrases._checked(plan, pa.table(columns))
    assert checked["reason"].to_pylist() == [None, "repeated", "lost_group", "blank"]
    dropped = {"blank": 1, "lost_group": 1, "lost_meaning": 0, "repeated": 1}
    assert summary(checked) == Paraphrases(num=4, num_kept=1, num_dropped=dropped, num_truncated=1)

    kept = kept_prompts(checked, prompts)
    assert kept.schema == prompts.schema
    (row,) = kept.to_pylist()
    kind = next(structure.kind for structure in read_structures() if structure.id == "past-this")
    structure = {"structure": "past-this", "parse": "(ROOT (S ))", "kind": kind}
    changed = {"id": f"{prompt['id']}|past-this", "text": said[0], **structure}
    assert row == prompt | changed


def test_every_structure_of_the_grammar_is_asked_for(bart, prompts, groups):
    plan = plan_paraphrases(prompts, groups, bart)
    structures = [each.id for each in read_structures() if each.id != "original"]
    assert [structure for structure, _ in plan.targets] == structures * len(prompts)
    parses = {(row["verb_phrase"], row["structure"]): row["parse"] for row in structured_prompt_table().to_pylist()}
    for prompt, (structure, parse) in zip(plan.prompts, plan.targets, strict=True):
        assert parses[prompt.verb_phrase, structure] == parse


def test_a_model_of_another_kind_is_refused(load, prompts, groups):
    with pytest.raises(ValueError, match=r"is a causal model; set --paraphraser to a sequence-to-sequence model"):
        plan_paraphrases(prompts, groups, load("gpt2"))
