"""The settings of `--decoding`, and those of a model that are not used."""

import json
from dataclasses import asdict

import pytest
import torch
from transformers import GenerationConfig

from hb_metrics.collect.engines.local import LocalEngine
from hb_metrics.collect.replies.decoding import decode
from hb_metrics.collect.replies.decoding_settings import (
    NO_EFFECT,
    PRESETS,
    Decoding,
    choose_extent,
    decoding_preset,
    ignored_settings,
)
from hb_metrics.measurements.generation.options import GenerationOptions
from hb_metrics.models.contexts import EndTokens
from tests.hb_metrics.chat_models import chat_tokenizer, untrained_model
from tests.hb_metrics.conftest import as_loaded


def test_which_part_of_what_is_written_is_the_reply():
    assert choose_extent("auto", "chat", "greedy")[0] == "whole"
    assert choose_extent("auto", "chat", "model")[0] == "whole"
    assert choose_extent("auto", "plain", "greedy")[0] == "first_line"
    assert choose_extent("auto", "plain", "sample", decides=True)[0] == "whole"
    assert choose_extent("first_line", "chat", "sample", decides=True)[0] == "first_line"
    for preset in ("sample", "dialogpt", "blenderbot2"):
        extent, reason = choose_extent("auto", "chat", preset)
        assert (extent, preset in reason) == ("first_line", True)
        assert choose_extent("whole", "plain", preset) == ("whole", "--reply whole was given")
    whole = decoding_preset("sample", extent="whole")
    assert (whole.max_new_tokens, whole.end_after_sentence, whole.temperature) == (256, False, 0.7)
    assert decoding_preset("greedy", extent="whole", max_new_tokens=30).max_new_tokens == 30
    assert decoding_preset("greedy") == PRESETS["greedy"]


def test_each_setting_for_sampling_is_an_option_that_is_recorded():
    for setting, without in NO_EFFECT.items():
        assert getattr(GenerationOptions(), setting) is None
        decoding = decoding_preset("sample", **{setting: without})
        assert (asdict(decoding)[setting], decoding.sampling[setting]) == (without, without)
        with pytest.raises(ValueError, match=f"{setting} is {without}, but --decoding greedy"):
            decoding_preset("greedy", **{setting: without})


def test_the_models_own_settings():
    model = untrained_model(chat_tokenizer("qwen3"))
    model.generation_config = GenerationConfig(
        do_sample=True, temperature=0.6, top_p=0.95, top_k=20, repetition_penalty=1.05, max_length=4096
    )
    found = decoding_preset("model", model, "whole")
    assert found == Decoding(sample=True, temperature=0.6, top_p=0.95, top_k=20, max_new_tokens=256)
    assert ignored_settings(model) == {"repetition_penalty": 1.05, "max_length": 4096}
    model.generation_config = GenerationConfig(do_sample=True, top_k=0, max_new_tokens=70)
    found = decoding_preset("model", model, "whole", temperature=0.5)
    assert (found.temperature, found.max_new_tokens) == (0.5, 70)
    assert found.top_k >= len(chat_tokenizer("qwen3"))
    model.generation_config = GenerationConfig()
    assert decoding_preset("model", model) == Decoding()
    with pytest.raises(ValueError, match=r"^temperature is 0\.5, but --decoding model does not sample"):
        decoding_preset("model", model, temperature=0.5)
    assert ignored_settings(model) == {}


USED = {
    *("bos_token_id", "do_sample", "eos_token_id", "length_penalty", "max_new_tokens", "min_new_tokens", "num_beams"),
    *("decoder_start_token_id", "no_repeat_ngram_size", "pad_token_id", "temperature", "top_k", "top_p"),
}
WRITES_NOTHING = {  # how fast, for how long and in which form transformers computes a reply
    *("cache_implementation", "num_return_sequences", "output_attentions", "output_hidden_states", "output_logits"),
    *("output_scores", "return_dict_in_generate", "transformers_version", "use_cache"),
}


@pytest.mark.parametrize("has_encoder", [False, True])
def test_all_other_settings_are_listed_as_ignored(has_encoder, monkeypatch, get_small_model):
    """Each setting that transformers knows, or that a file has, is used or listed."""
    model, _ = get_small_model("t5" if has_encoder else "llama")
    names = {name for name in vars(GenerationConfig()) if not name.startswith("_")}
    config = GenerationConfig(decoder_start_token_id=2, sequence_bias=[[[5], 1.5]], forced_decoder_ids=[[1, 2]])
    for name in names - USED - WRITES_NOTHING - {"sequence_bias"}:
        setattr(config, name, 3)
    monkeypatch.setattr(model, "generation_config", config)
    used = USED | ({"max_length", "min_length", "forced_bos_token_id"} if has_encoder else set())
    found = ignored_settings(model)
    assert found.keys() == (names | {"forced_decoder_ids"}) - used - WRITES_NOTHING
    assert found["sequence_bias"] == [[[5], 1.5]]
    json.dumps(found)
    neutral = GenerationConfig(
        **{"repetition_penalty": 1.0, "typical_p": 1.0, "min_p": 0.0, "guidance_scale": 1.0, "early_stopping": False},
        **{"suppress_tokens": [], "num_beam_groups": 1, "encoder_no_repeat_ngram_size": 0, "decoder_start_token_id": 2},
        **{"max_new_tokens": 9, "max_length": 60},
    )
    monkeypatch.setattr(model, "generation_config", neutral)
    assert ignored_settings(model) == {}
    neutral.update(no_repeat_ngram_size=3)
    assert ignored_settings(model) == {"no_repeat_ngram_size": 3}  # only beam search supports it
    assert not decoding_preset("model", model).no_repeat_ngram_size
    neutral.update(forced_eos_token_id=0, num_beams=2, do_sample=True)
    assert ignored_settings(model) == {"forced_eos_token_id": 0, "do_sample": True}


@pytest.mark.parametrize(("name", "value"), [("num_beams", "three"), ("max_new_tokens", "long"), ("top_p", [1])])
def test_the_models_own_settings_of_a_wrong_type_are_an_error(name, value, get_small_model, monkeypatch):
    model, tokenizer = get_small_model("gpt2")
    config = GenerationConfig(do_sample=True)
    setattr(config, name, value)
    monkeypatch.setattr(model, "generation_config", config)
    with pytest.raises(ValueError, match=r"the generation_config.json of 'small' has a value of a wrong type"):
        LocalEngine(as_loaded(model, tokenizer)).decoding("model", "first_line")


@pytest.mark.parametrize("forced", [None, 9])
def test_an_encoder_decoder_models_own_lengths_are_of_the_reply(forced, get_small_model, monkeypatch):
    model, _ = get_small_model("blenderbot")
    lengths = {"max_length": 60, "min_length": 20}, {"max_new_tokens": 59, "min_new_tokens": 19}
    for length in lengths:
        config = GenerationConfig(num_beams=10, no_repeat_ngram_size=3, length_penalty=0.65, **length)
        config.update(decoder_start_token_id=0, forced_bos_token_id=forced)
        monkeypatch.setattr(model, "generation_config", config)
        expected = {"max_new_tokens": 59 - (forced == 9), "min_new_tokens": 19 - (forced == 9)}
        expected |= {"num_beams": 10, "no_repeat_ngram_size": 3, "length_penalty": 0.65}
        assert decoding_preset("model", model) == Decoding(**expected)
    config = GenerationConfig(max_length=9, decoder_start_token_id=0, forced_bos_token_id=forced)
    monkeypatch.setattr(model, "generation_config", config)
    written = model.generate(torch.tensor([[5, 6, 7]]), attention_mask=torch.ones(1, 3))[0].tolist()
    assert len(written) == 9  # no end token
    (reply,) = decode(model, [[5, 6, 7]], decoding_preset("model", model), EndTokens(dropped=()))
    assert reply.tokens == written[len(written) - len(reply.tokens) :]
    assert len(reply.tokens) == 8 - (forced == 9)
