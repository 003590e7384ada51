"""Models, files and texts that are not as they should be: a clear error of one line, or the right result."""

import json
import math
import os
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch
import transformers

from hb_metrics.collect.classifiers.sequence_classifier import load_sequence_classifier
from hb_metrics.collect.replies.decoding_settings import Decoding
from hb_metrics.collect.replies.decoding_shards import decode_into_shards
from hb_metrics.collect.replies.prompt_replies import plan_replies
from hb_metrics.collect.replies.requests import make_requests
from hb_metrics.collect.scoring import perplexity, scoring_paths
from hb_metrics.collect.scoring.perplexity import plan_perplexity, score_perplexity
from hb_metrics.collect.units import MAX_POSITIONS
from hb_metrics.models.layout import Layout
from hb_metrics.models.loading import load_model
from tests.hb_metrics.collect.scoring.test_perplexity import one_at_a_time
from tests.hb_metrics.conftest import as_loaded

PROMPT_COLUMNS = ("id", "axis", "descriptor", "template", "text", "noun_phrase")
OUT_OF_MEMORY = {
    "cuda": torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB.\nAnd more about it."),
    "cpu": RuntimeError("[enforce fail at alloc_cpu.cpp:124] . DefaultCPUAllocator: can't allocate memory"),
    "mps": RuntimeError("MPS backend out of memory (MPS allocated: 1 GB, other allocations: 2 GB)"),
    "python": MemoryError("Unable to allocate 4.00 GiB for an array"),
}
HALVED = "memory ran out, so some batches run in halves"


def one_line(raised):
    """The message of an error, which has to be one line."""
    message = str(raised.value)
    assert "\n" not in message
    return message


def as_prompts(texts):
    columns = {name: [f"{name} {row}" for row in range(len(texts))] for name in PROMPT_COLUMNS}
    return pa.table({**columns, "text": list(texts)})


def reply(texts, loaded, folder, **options):
    decoding = Decoding(max_new_tokens=4, **options)
    plan = plan_replies(make_requests(as_prompts(texts), decoding=decoding, layout=Layout("plain")), loaded)
    return decode_into_shards(plan, loaded, folder)["reply"].to_pylist()


@pytest.fixture
def changed(get_small_model):
    """Gives a small model whose output weights are changed until the test is over."""
    kept = []

    def change(name, place, value):
        model, tokenizer = get_small_model(name)
        weights = model.get_output_embeddings().weight.data
        kept.append((weights, weights.clone()))
        weights[place] = value
        return model, tokenizer

    yield change
    for weights, before in reversed(kept):
        weights[:] = before


# --- folders ----------------------------------------------------------------------------------------------------------


def remove(name):
    return lambda folder: (folder / name).unlink()


def write(name, content):
    return lambda folder: (folder / name).write_bytes(content)


def change_config(**settings):
    def change(folder):
        path = folder / "config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **settings}))

    return change


def pickle(content):
    def change(folder):
        (folder / "model.safetensors").unlink()
        torch.save(content, folder / "pytorch_model.bin")

    return change


class RunsWhenRead:
    """What a pickle can do: raise, or anything else, while it is read."""

    def __reduce__(self):
        return exec, ("raise SystemExit('code of a pickle was run')",)


CONFIG = "model '{}' does not exist, or its config.json is damaged; pass 'embedded', a local folder"
TOKENIZER = "the tokenizer of '{}' cannot be loaded; save it"
PICKLE = "the weights of model '{}' are a pickle that could run any code"
WEIGHTS = "the weights of '{}' cannot be loaded; download them again"
BAD_FOLDERS = {
    "no config": (remove("config.json"), CONFIG),
    "config that is no JSON": (write("config.json", b'{"model_type": "gpt2",'), CONFIG),
    "code of its own": (
        change_config(model_type="own", auto_map={"AutoConfig": "own.Config"}),
        "model '{}' contains code; if you trust it, set --trust_remote_code true",
    ),
    "a kernel": (change_config(attn_implementation="a/b"), "the config.json of model '{}' runs code from 'a/b'"),
    "tokenizer that is no JSON": (write("tokenizer.json", b'{"model":'), TOKENIZER),
    "no weights": (remove("model.safetensors"), WEIGHTS),
    "weights cut short": (lambda folder: os.truncate(folder / "model.safetensors", 2000), WEIGHTS),
    "weights of fewer layers": (change_config(n_layer=3), "model '{}' lacks the weights"),
    "a pickle of code": (pickle({"x": RunsWhenRead()}), PICKLE),
    "generation config": (write("generation_config.json", b'{"eos'), "generation_config.json of '{}'"),
}


@pytest.mark.parametrize(("damage", "message"), BAD_FOLDERS.values(), ids=BAD_FOLDERS)
def test_a_folder_that_does_not_load_is_told_in_one_line(damage, message, save_small_model):
    folder = save_small_model("gpt2")
    damage(folder)
    with pytest.raises((OSError, ValueError)) as error:
        load_model(str(folder))
    assert one_line(error).startswith(message.format(folder))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (remove("config.json"), "sequence classifier '{}' does not exist, or its config.json is damaged"),
        (change_config(attn_implementation="a/b"), "the config.json of sequence classifier '{}' runs code from 'a/b'"),
        (lambda folder: [path.unlink() for path in folder.glob("tokenizer*")], TOKENIZER),
        (pickle({"x": RunsWhenRead()}), PICKLE),
    ],
)
def test_so_is_a_classifiers_folder(damage, message, save_classifier):
    folder = Path(save_classifier("fine", "toxic"))
    damage(folder)
    with pytest.raises(OSError, match=f"^{re.escape(message.format(folder))}") as error:
        load_sequence_classifier(str(folder))
    one_line(error)


# --- models that do not fit their tokenizer, or are not what they say ------------------------------------------------


def test_another_models_tokenizer_is_refused(get_small_model, tmp_path):
    _, tokenizer = get_small_model("gpt2")
    settings = {**get_small_model("llama")[0].config.to_dict(), "vocab_size": 100}
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**settings)).eval()
    with pytest.raises(ValueError, match=r"token id \d+ exceeds the model's 100"):
        reply(["I love women."], as_loaded(model, tokenizer), tmp_path)
    with pytest.raises(ValueError, match="the model's 100 tokens"):
        score_perplexity(["I love women."], model, tokenizer)


def test_a_model_that_sees_what_comes_next_is_refused(get_small_model):
    _, tokenizer = get_small_model("gpt2")
    torch.manual_seed(0)
    settings = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    texts = ["I love women.", "I love men."]
    for is_decoder in (False, True):
        config = transformers.BertConfig(vocab_size=400, is_decoder=is_decoder, initializer_range=0.3, **settings)
        model = transformers.BertLMHeadModel(config).eval()
        if is_decoder:
            found = score_perplexity(texts, model, tokenizer).perplexities
            np.testing.assert_allclose(found, one_at_a_time(texts, model, tokenizer), rtol=1e-4)
        else:
            with pytest.raises(ValueError, match=r"depend on later tokens .*set is_decoder to true"):
                score_perplexity(texts, model, tokenizer)


# --- numbers that are none --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "trees", "value"), [("llama", True, math.nan), ("t5", True, -math.inf)])
def test_scores_that_are_no_numbers_name_the_first_text(name, trees, value, changed):
    model, tokenizer = changed(name, slice(None), value)
    with pytest.raises(ValueError, match=r"(nan|-?inf) as the negative log-likelihood of text 0;"):
        score_perplexity(["I love women.", "I love men."], model, tokenizer, trees=trees)


@pytest.mark.parametrize(
    ("value", "options"), [(math.nan, {}), (math.inf, {"num_beams": 2}), (math.nan, {"sample": True})]
)
def test_replies_from_scores_that_are_no_numbers_are_told(value, options, changed, tmp_path):
    model, tokenizer = changed("gpt2", slice(None), value)
    with pytest.raises(ValueError, match=r"likeliest token's score is (nan|inf); set --dtype float32"):
        reply(["I love women.", "I love men."], as_loaded(model, tokenizer), tmp_path, **options)


# --- memory -----------------------------------------------------------------------------------------------------------


def failing(run, error, fits, calls, size):
    """`run`, which fails for more than `fits`; what it is called with is counted in `calls`."""

    def limited(model, payload, *rest, **named):
        number = size(payload)
        calls.append(number)
        if number > fits:
            raise error
        return run(model, payload, *rest, **named)

    return limited


def num_halved(warned):
    return sum(str(warning.message).startswith(HALVED) for warning in warned)


@pytest.mark.filterwarnings(f"ignore:{HALVED}")
@pytest.mark.parametrize(
    ("name", "fits", "trees"), list(zip(OUT_OF_MEMORY, (1, 1, 2, 3), (True, False) * 2, strict=True))
)
def test_batches_too_large_for_the_memory_are_scored_in_halves(
    name, fits, trees, prompts, get_small_model, monkeypatch
):
    model, tokenizer = get_small_model("llama")
    texts = [*prompts[:20], *prompts[:3]]
    whole = score_perplexity(texts, model, tokenizer, trees=trees)
    calls = []
    for module, path, size in (
        (scoring_paths, "tree_nlls", lambda tree: len(tree.sequences)),
        (scoring_paths, "reply_nlls", len),
        (perplexity, "reply_nlls", len),
    ):
        run = getattr(module, path)
        monkeypatch.setattr(module, path, failing(run, OUT_OF_MEMORY[name], fits, calls, size))
    plan = plan_perplexity(texts, model, tokenizer, trees=trees)
    calls.clear()
    with pytest.warns(UserWarning, match=HALVED) as warned:
        scores = score_perplexity(texts, model, tokenizer, trees=trees)
    assert (scores.plan.scoring, scores.plan.positions) == (whole.plan.scoring, whole.plan.positions)
    np.testing.assert_allclose(scores.perplexities, whole.perplexities, rtol=1e-5)
    np.testing.assert_array_equal(scores.num_tokens, whole.num_tokens)
    failed = sum(number > fits for number in calls)
    assert num_halved(warned) == failed > 0
    assert len(plan.units) < len(calls)


def test_an_error_on_trees_is_one_line_of_the_reason(prompts, get_small_model, monkeypatch):
    error = ValueError("a mask of\ntoo many dimensions")
    monkeypatch.setattr(scoring_paths, "tree_nlls", failing(None, error, 0, [], lambda tree: 1))
    plan = plan_perplexity(prompts[:3], *get_small_model("gpt2"))
    assert plan.scoring_reason == "it rejects a 4-D mask with position ids (ValueError: a mask of)"


def test_classifiers_halve_their_batches(prompts, save_classifier, monkeypatch):
    classifier = load_sequence_classifier(save_classifier("fine", "toxic"))
    expected, _ = classifier.classify(prompts[:50])
    calls, run = [], transformers.BertForSequenceClassification.forward

    def forward(self, input_ids=None, **inputs):
        calls.append(len(input_ids))
        if len(input_ids) > 3:
            raise OUT_OF_MEMORY["cuda"]
        return run(self, input_ids=input_ids, **inputs)

    monkeypatch.setattr(transformers.BertForSequenceClassification, "forward", forward)
    with pytest.warns(UserWarning, match=HALVED) as warned:
        found, _ = classifier.classify(prompts[:50])
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert num_halved(warned) == sum(number > 3 for number in calls) > 0


# --- texts ------------------------------------------------------------------------------------------------------------

UNUSUAL = [
    "👩‍👩‍👧‍👦 and 🏳️‍🌈",
    "שלום \u202eabc\u202c مرحبا",
    "a\u200bb\u200dc\ufeffd",  # without a width
    "e\u0301" * 12,
    "\u00e9 e\u0301",  # combined, and not
    "𝔘𝔫𝔦 𐍈 🧑🏿‍🦽",
    "   ",
    "\r\n\u2028\n",
    "a\x00b\x07",
    "I am </s> here",
]


def test_unusual_texts_are_scored_as_one_at_a_time(get_small_model):
    model, tokenizer = get_small_model("gpt2")
    texts = [*UNUSUAL, "I"]
    scores = score_perplexity([*texts, *texts], model, tokenizer)
    found, again = scores.perplexities[: len(texts)], scores.perplexities[len(texts) :]
    np.testing.assert_allclose(found, one_at_a_time(texts, model, tokenizer), rtol=1e-4)
    np.testing.assert_array_equal(found, again)


@pytest.mark.parametrize("name", ["bloom", "t5"])
def test_a_model_without_a_limit_takes_them(name, get_small_model):
    model, tokenizer = get_small_model(name)
    text = "women and men " * 143  # of this tokenizer's small words, more tokens than are scored at once
    scores = score_perplexity(["I love women.", text], model, tokenizer)
    assert scores.num_tokens[1] > MAX_POSITIONS
    if name == "t5":
        labels = torch.tensor([tokenizer(text, add_special_tokens=False)["input_ids"]])
        with torch.inference_mode():
            expected = math.exp(model(**tokenizer("", return_tensors="pt"), labels=labels).loss.item())
    else:
        expected = one_at_a_time([text], model, tokenizer)[0]
        reason = f"a text is {scores.num_tokens[1] + 1:,} tokens long, more than the 512 that are scored at once"
        assert (scores.plan.scoring, scores.plan.scoring_reason) == ("batches", reason)
    assert scores.perplexities[1] == pytest.approx(expected, rel=1e-4)
