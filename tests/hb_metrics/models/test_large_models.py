"""Models of which a part is elsewhere, quantised checkpoints, and digests that are made once."""

from types import SimpleNamespace

import numpy as np
import psutil
import pytest
import torch
from accelerate.hooks import AlignDevicesHook, add_hook_to_module

from hb_metrics.collect.replies import decoding_shards
from hb_metrics.collect.replies.decoding import decode
from hb_metrics.collect.replies.decoding_settings import Decoding
from hb_metrics.collect.replies.forward import decoding_paths
from hb_metrics.collect.scoring.perplexity import score_perplexity
from hb_metrics.models.contexts import EndTokens
from hb_metrics.models.float32 import is_exact, quantization_of
from hb_metrics.models.loading import load_model
from hb_metrics.models.processes import check_device_map, input_device, is_offloaded, weight_shares
from tests.hb_metrics.conftest import small_model

DISK, CPU = "disk", "cpu"
MAPS = {
    "llama": {
        "model.embed_tokens": DISK, "model.layers.0": CPU, "model.layers.1": DISK, "model.norm": DISK,
        "model.rotary_emb": CPU, "lm_head": DISK,
    },
    "t5": {
        "shared": CPU, "encoder.embed_tokens": CPU, "encoder.block.0": CPU, "encoder.block.1": DISK,
        "encoder.final_layer_norm": CPU, "encoder.dropout": CPU, "decoder.embed_tokens": CPU, "decoder.block.0": DISK,
        "decoder.block.1": CPU, "decoder.final_layer_norm": CPU, "decoder.dropout": CPU, "lm_head": CPU,
    },
    "bert": {"bert.embeddings": CPU, "bert.encoder.layer.0": DISK, "bert.encoder.layer.1": CPU, "cls": CPU},
}  # fmt: skip
WAYS = {
    "greedy": Decoding(max_new_tokens=8),
    "sampled": Decoding(max_new_tokens=8, sample=True),
    "beams": Decoding(max_new_tokens=6, num_beams=3),
}


@pytest.fixture
def spread(save_small_model):
    """Loads a small model with a part of it on disk; returns it and the whole one."""

    def load(name):
        folder = str(save_small_model(name))
        return load_model(folder, device_map=MAPS[name]), load_model(folder)

    return load


def test_a_spread_model_scores_as_the_whole(spread, prompts):
    parts, whole = spread("llama")
    assert parts.model.device.type == "meta"  # which nothing may go by
    assert input_device(parts.model).type == "cpu"
    assert is_offloaded(parts.model)
    assert not is_offloaded(whole.model)
    assert (parts.digest, parts.dtype) == (whole.digest, whole.dtype)
    assert parts.model.num_parameters() == whole.model.num_parameters()
    found, expected = (score_perplexity(prompts[:60], each.model, each.tokenizer) for each in (parts, whole))
    np.testing.assert_array_equal(found.log_likelihoods, expected.log_likelihoods)


@pytest.mark.parametrize(("name", "way"), [("llama", "sampled"), ("llama", "beams"), ("t5", "greedy")])
def test_a_spread_model_replies_as_the_whole(name, way, spread, prompts):
    replies = []
    numbers = np.random.default_rng(0).random((6, 8))
    for each in spread(name):
        contexts = [each.tokenizer(text)["input_ids"][: 5 + row % 3] for row, text in enumerate(prompts[:6])]
        cached, padded = decoding_paths(each.model, contexts, 8)
        assert cached
        batches = [contexts] if padded else [[context] for context in contexts]
        drawn = [numbers] if padded else numbers[:, None]
        with torch.inference_mode():
            replies.append(
                [
                    reply
                    for batch, uniforms in zip(batches, drawn, strict=True)
                    for reply in decode(each.model, batch, WAYS[way], EndTokens(dropped=()), uniforms)
                ]
            )
    assert replies[0] == replies[1]


def test_the_fullest_device_decides_how_many_contexts_fit(get_small_model, monkeypatch):
    model, _ = get_small_model("llama")
    loaded = SimpleNamespace(model=model)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=4_000_000))
    whole = decoding_shards.fitting_batch_size(loaded, 64)
    assert 1 < whole < decoding_shards.MOST_ROWS["cpu"]
    layer = model.model.layers[1]
    hooked = [module for module in layer.modules() if next(module.parameters(recurse=False), None) is not None]
    shares = weight_shares(model)
    assert list(shares.values()) == [1]
    try:
        for module in hooked:  # says where it runs; nothing is moved until it is
            add_hook_to_module(module, AlignDevicesHook(io_same_device=True))
            module._hf_hook.execution_device = "cuda:1"
        shares = weight_shares(model)
        assert sum(shares.values()) == pytest.approx(1)
        free = {"cuda:1": 1_000_000}
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (free[str(device)], 10**9))
        spread = decoding_shards.fitting_batch_size(loaded, 64)
        free["cuda:1"] = 10**9
        assert spread < whole < decoding_shards.fitting_batch_size(loaded, 64)
    finally:
        for module in hooked:
            del module._hf_hook
            module.forward = type(module).forward.__get__(module)


def test_a_device_map_is_for_one_process_of_a_machine(monkeypatch):
    check_device_map("auto")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    check_device_map(None)
    with pytest.raises(ValueError, match=r"--device_map auto needs one process per machine, but 2"):
        check_device_map("auto")


def test_quantised_weights_are_described_and_not_exact():
    model, _ = small_model("llama")
    for quantization, words in (
        ({"quant_method": "gptq", "bits": 4}, "gptq, 4 bits"),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}, "bitsandbytes, 4 bits"),
        ({"quant_method": "mxfp4"}, "mxfp4"),
    ):
        assert quantization_of(type(model.config)(quantization_config=quantization)) == words
    assert quantization_of(model.config) is None
    assert is_exact(model)
    assert not is_exact(SimpleNamespace(dtype=torch.float32, is_quantized=True))
    assert not is_exact(SimpleNamespace(dtype=torch.bfloat16))
