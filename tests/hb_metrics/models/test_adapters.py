"""An adapter measured without merging it, against the model that it is merged into."""

import json
import re

import huggingface_hub
import numpy as np
import peft
import pytest
import torch
import transformers

from hb_metrics.collect.replies.decoding import decode
from hb_metrics.collect.replies.decoding_settings import Decoding
from hb_metrics.collect.replies.forward import Forward
from hb_metrics.collect.scoring.perplexity import score_perplexity
from hb_metrics.models import sources
from hb_metrics.models.contexts import EndTokens
from hb_metrics.models.loading import load_model
from hb_metrics.models.sources import find_source
from tests.hb_metrics.collect.scoring.test_pseudo_likelihood import score_spans
from tests.hb_metrics.collect.test_bad_models import RunsWhenRead

TARGETS = {"llama": ["q_proj", "v_proj", "down_proj"], "t5": ["q", "v", "wo"], "bert": ["query", "value"]}
# A name that transformers has changed, and peft calls.
pytestmark = pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing:FutureWarning")
GREEDY, ENDS = Decoding(max_new_tokens=8), EndTokens(dropped=())


def randomised(model):
    """An adapter starts as no change: random weights make it one."""
    torch.manual_seed(1)
    with torch.no_grad():
        for name, weights in model.named_parameters():
            if "lora_" in name or "modules_to_save" in name or "prompt" in name:
                weights.normal_(std=0.2)
    return model


@pytest.fixture
def save_adapter(save_small_model, tmp_path):
    """Saves a small model and an adapter of it; returns both folders and the merged model."""

    def save(name, config=None, **settings):
        base = save_small_model(name)
        auto = {"t5": transformers.AutoModelForSeq2SeqLM, "bert": transformers.AutoModelForMaskedLM}
        model = auto.get(name, transformers.AutoModelForCausalLM).from_pretrained(base)
        config = config or peft.LoraConfig(r=4, target_modules=TARGETS[name], **settings)
        wrapped = randomised(peft.get_peft_model(model, config)).eval()
        folder = tmp_path / "adapter"
        wrapped.save_pretrained(folder)
        return base, folder, wrapped

    return save


def perplexities(name, texts, model, tokenizer):
    if name == "bert":
        return score_spans(texts, [(0, len(text)) for text in texts], model, tokenizer).perplexities
    return score_perplexity(texts, model, tokenizer).perplexities


def replies(model, tokenizer, texts):
    contexts = [tokenizer(text)["input_ids"][:6] for text in texts]
    with torch.inference_mode():
        return [reply.tokens for reply in decode(model, contexts, GREEDY, ENDS)]


@pytest.mark.parametrize("name", ["llama", "t5", "bert"])
def test_an_adapter_measures_as_the_model_it_is_merged_into(name, save_adapter, prompts):
    base, folder, wrapped = save_adapter(name)
    texts = prompts[:12]
    plain = load_model(str(base))
    loaded = load_model(str(base), adapter=str(folder))
    merged = wrapped.merge_and_unload()
    expected = perplexities(name, texts, merged, loaded.tokenizer)
    found = perplexities(name, texts, loaded.model, loaded.tokenizer)
    np.testing.assert_allclose(found, expected, rtol=1e-4)
    assert (abs(np.log(found / perplexities(name, texts, plain.model, plain.tokenizer))) > 1e-2).any()
    if name != "bert":
        assert replies(loaded.model, loaded.tokenizer, texts) == replies(merged, loaded.tokenizer, texts)
        assert replies(loaded.model, loaded.tokenizer, texts) != replies(plain.model, plain.tokenizer, texts)
    if name == "llama":
        assert score_perplexity(texts, loaded.model, loaded.tokenizer).plan.scoring == "tree"
    assert (loaded.digest, loaded.name) == (plain.digest, plain.name)
    assert len(loaded.adapter.digest) == 64
    assert loaded.adapter.trained_on == str(base)


def test_weights_are_not_copied_for_each_row(save_adapter):
    _, folder, _ = save_adapter("llama")
    model = load_model(folder).model
    contexts = [[5, 6, 7], [8, 9, 10], [11, 12, 13]]
    with torch.profiler.profile(record_shapes=True) as profile, torch.inference_mode():
        number = Forward(model, contexts).first().shape[1]
    products = [row for row in profile.key_averages(group_by_input_shape=True) if row.key in ("aten::mm", "aten::bmm")]
    of_outputs = [row.key for row in products if any(number in shape for shape in row.input_shapes)]
    assert of_outputs == ["aten::mm"]


def test_an_adapter_given_as_the_model_is_loaded_on_its_base(save_adapter, prompts):
    base, folder, _ = save_adapter("llama")
    alone, both = load_model(str(folder)), load_model(str(base), adapter=str(folder))
    assert (alone.name, alone.digest, alone.adapter) == (both.name, both.digest, both.adapter)
    scores = [score_perplexity(prompts[:3], each.model, each.tokenizer) for each in (alone, both)]
    np.testing.assert_array_equal(scores[0].perplexities, scores[1].perplexities)
    with pytest.raises(ValueError, match="is an adapter; set --model"):
        find_source(str(folder), adapter=str(folder))
    config = folder / "adapter_config.json"
    for named in (None, str(folder)):  # no model, or an adapter again
        config.write_text(json.dumps(json.loads(config.read_text()) | {"base_model_name_or_path": named}))
        with pytest.raises(ValueError, match=r"is an adapter; set --model to '.*' and --adapter"):
            find_source(str(folder))


def test_a_folder_with_an_adapter_and_the_config_of_its_base_is_an_adapter(save_adapter):
    base, folder, wrapped = save_adapter("llama")
    alone = load_model(str(folder))
    expected = alone.model.state_dict()
    wrapped.config.save_pretrained(folder)  # as some trainers do
    beside = load_model(str(folder))
    assert (beside.name, beside.digest, beside.adapter.name) == (str(base), alone.digest, str(folder))
    assert all(torch.equal(weights, expected[key]) for key, weights in beside.model.state_dict().items())
    wrapped.merge_and_unload().save_pretrained(folder)  # transformers would add the adapter once more
    with pytest.raises(ValueError, match=r"contains both a model and an adapter; .* remove adapter_config\.json"):
        load_model(str(folder))


def test_code_of_the_tokenizer_of_an_adapter_runs_only_if_it_is_trusted(save_adapter, get_small_model):
    base, folder, _ = save_adapter("llama")
    tokenizer = get_small_model("llama")[1]
    tokenizer.save_pretrained(folder)
    (folder / "own.py").write_text(
        "from transformers import PreTrainedTokenizerFast\n\nclass Own(PreTrainedTokenizerFast):\n    pass\n"
    )
    config = json.loads((folder / "tokenizer_config.json").read_text())
    own = {"auto_map": {"AutoTokenizer": [None, "own.Own"]}, "tokenizer_class": "Own"}
    (folder / "tokenizer_config.json").write_text(json.dumps(config | own))
    source = {"name": str(base), "adapter": str(folder)}
    with pytest.raises(OSError, match=r"the tokenizer of '.*' contains code; if you trust it, set --trust_remote_code"):
        load_model(**source)
    loaded = load_model(**source, trust_remote_code=True).tokenizer
    assert type(loaded).__name__ == "Own"
    assert loaded("Hi there.")["input_ids"] == tokenizer("Hi there.")["input_ids"]


def test_a_model_with_an_adapter_on_the_hub_is_rejected_before_its_weights_are_downloaded(tmp_path, monkeypatch):
    commit, asked = "0" * 40, []
    (tmp_path / commit).mkdir()
    (tmp_path / commit / "adapter_config.json").write_text("{}")

    def download(source, name, *, revision, dry_run):
        asked.append((name, revision, dry_run))
        path = tmp_path / commit / name
        if not dry_run:
            return str(path)
        return huggingface_hub.DryRunFileInfo(
            commit_hash=commit, file_size=1, filename=name, local_path=str(path), is_cached=False, will_download=True
        )

    monkeypatch.setattr(sources, "hf_hub_download", download)
    with pytest.raises(ValueError, match="'tests/both' contains both a model and an adapter"):
        find_source("tests/both")
    # By the commit, the next start knows from the cache which files are absent.
    assert asked == [
        ("config.json", None, False),
        ("adapter_config.json", commit, False),
        ("model.safetensors.index.json", commit, True),
    ]


def with_new_tokens(base):
    tokenizer = transformers.AutoTokenizer.from_pretrained(base)
    tokenizer.add_tokens(["<new1>", "<new2>"])
    model = transformers.AutoModelForCausalLM.from_pretrained(base)
    model.resize_token_embeddings(len(tokenizer))
    return tokenizer, model


def test_an_adapter_may_bring_tokens_and_whole_layers(save_small_model, tmp_path, prompts):
    base = save_small_model("llama")
    tokenizer, model = with_new_tokens(base)
    config = peft.LoraConfig(r=4, target_modules=["q_proj"], modules_to_save=["embed_tokens", "lm_head"])
    wrapped = randomised(peft.get_peft_model(model, config)).eval()
    wrapped.save_pretrained(tmp_path / "adapter", save_embedding_layers=True)
    tokenizer.save_pretrained(tmp_path / "adapter")
    loaded = load_model(str(base), adapter=str(tmp_path / "adapter"))
    assert len(loaded.tokenizer) == len(tokenizer)
    texts = [*prompts[:5], "I am a <new1> person. <new2>"]
    expected = score_perplexity(texts, wrapped.merge_and_unload(), tokenizer)
    found = score_perplexity(texts, loaded.model, loaded.tokenizer)
    np.testing.assert_allclose(found.perplexities, expected.perplexities, rtol=1e-4)


def test_the_base_itself_may_have_more_tokens_than_embeddings(save_adapter):
    """As Gemma 3 does."""
    base, folder, _ = save_adapter("llama")
    tokenizer = transformers.AutoTokenizer.from_pretrained(base)
    tokenizer.add_tokens(["<image>"])
    for place in (base, folder):
        tokenizer.save_pretrained(place)
    assert load_model(str(base), adapter=str(folder)).model.get_input_embeddings().weight.shape[0] == 400


@pytest.mark.parametrize("trained", [[400, 401], {"embed_tokens": [400, 401]}, [400], [399, 401], None])
def test_new_tokens_may_be_trained_one_by_one(trained, save_small_model, tmp_path):
    base = save_small_model("llama")
    tokenizer, model = with_new_tokens(base)
    config = peft.LoraConfig(r=4, target_modules=["q_proj"], trainable_token_indices=trained)
    wrapped = randomised(peft.get_peft_model(model, config)).eval()
    wrapped.save_pretrained(tmp_path / "adapter", save_embedding_layers=False)
    tokenizer.save_pretrained(tmp_path / "adapter")
    source = {"name": str(base), "adapter": str(tmp_path / "adapter")}
    if not {400, 401} <= {*(trained["embed_tokens"] if isinstance(trained, dict) else trained or [])}:
        with pytest.raises(ValueError, match=r"402 tokens, but the model has embeddings for only 400, "):
            load_model(**source)
        return
    loaded = load_model(**source)
    tokens = tokenizer("I am a <new1> person. <new2>", return_tensors="pt")["input_ids"]
    with torch.inference_mode():
        hidden = [each.get_decoder()(tokens)[0] for each in (loaded.model, wrapped.get_base_model())]
    torch.testing.assert_close(*hidden)


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"hidden_size": 64}, "size mismatch"), ({"num_hidden_layers": 3}, "only one of them has the weights")],
)
def test_a_base_of_another_shape_is_told_in_a_line(changes, message, save_adapter):
    base, folder, _ = save_adapter("llama")
    config = transformers.AutoConfig.from_pretrained(base)
    config.update(changes)
    transformers.AutoModelForCausalLM.from_config(config).save_pretrained(base)
    with pytest.raises(ValueError, match=f"the adapter '.*', trained on .*, does not fit model .*{message}") as raised:
        load_model(str(base), adapter=str(folder))
    assert "\n" not in str(raised.value)


def test_an_adapter_that_memory_does_not_hold_fits_its_model(save_adapter, monkeypatch):
    base, folder, _ = save_adapter("llama")

    def run_out(*args, **kwargs):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 MiB.")

    monkeypatch.setattr(peft, "load_peft_weights", run_out)
    with pytest.raises(MemoryError, match=r"not enough memory to load the adapter .* \(CUDA out of memory"):
        load_model(str(base), adapter=str(folder))


def test_virtual_tokens_are_refused(save_adapter):
    config = peft.PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=3)
    base, folder, _ = save_adapter("llama", config)
    with pytest.raises(ValueError, match=r"changes more than layers; pass one such as LoRA"):
        load_model(str(base), adapter=str(folder))


def test_what_is_no_adapter_is_told(save_small_model):
    base = str(save_small_model("llama"))
    for name in ("no/adapter", base):
        with pytest.raises(FileNotFoundError, match=f"no adapter '{name}'; set --adapter"):
            find_source(base, adapter=name)


def test_a_pickle_of_code_is_refused_without_torchs_advice(save_adapter):
    base, folder, _ = save_adapter("llama")
    (folder / "adapter_model.safetensors").unlink()
    torch.save({"x": RunsWhenRead()}, folder / "adapter_model.bin")
    with pytest.raises(OSError, match=r"adapter .* are a pickle .*; download .* as safetensors") as error:
        load_model(str(base), adapter=str(folder))
    assert "weights_only" not in str(error.value)
    (folder / "adapter_model.bin").unlink()
    with pytest.raises(FileNotFoundError, match=re.escape(f"the adapter '{folder}' has no adapter_model.safetensors")):
        load_model(str(base), adapter=str(folder))


def test_secrets_in_the_config_of_an_adapter_are_not_recorded(save_adapter):
    base, folder, _ = save_adapter("llama")
    config = folder / "adapter_config.json"

    def recorded(trained_on):
        config.write_text(json.dumps(json.loads(config.read_text()) | {"base_model_name_or_path": trained_on}))
        return find_source(str(base), adapter=str(folder)).adapter.trained_on

    secret = "hf_0123456789abcdefghij"
    assert recorded(f"https://me:{secret}@hub.example/a/b") == "https://hub.example/a/b"
    assert recorded(f"https://hub.example/a/b?token={secret}") == "https://hub.example/a/b?token="
    assert recorded("hf_team/some-model") == "hf_team/some-model"
    with pytest.raises(ValueError, match="is not the config of an adapter"):
        recorded(["a"])
