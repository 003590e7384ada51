"""Checks that a card gives the right numbers and replies.

A part is a function of the setting. It returns what it found, and under `right` whether that is as it should be.
"""

import warnings
from contextlib import nullcontext
from copy import deepcopy
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from transformers.utils import is_flash_attn_2_available

from hb_metrics.collect.replies.decoding_shards import decode_into_shards, decode_rows
from hb_metrics.collect.scoring.perplexity import score_perplexity
from hb_metrics.models.loading import LoadedModel
from tests.card.models import LARGE, NAMES, Found, Setting, Skip, attentions_of, build, plan_of, prompts
from tests.hb_metrics.decoding_batches import in_batches_of

_TOLERANCE = 1e-4  # relative, of a sentence's log-likelihood in float32: what the scoring paths promise
_TIMES_NOISE = 3  # in half precision: how many times further off than batches of equal length trees may be
_LEAST_SAME = 0.95  # the share of sampled replies that are the same on CPU and card: nearly equal words may flip


def scores(setting: Setting, *, name: str, dtype: str, attention: str) -> Found:
    """Scores on trees against one sentence at a time."""
    if attention == "flash_attention_2" and (dtype == "float32" or not is_flash_attn_2_available()):
        raise Skip("flash attention is for half precision on a card, and needs the package flash_attn")
    loaded = build(setting, name, dtype, attention=attention)
    texts = prompts(setting, setting.number(64, 12))["text"].to_pylist()
    expected = one_at_a_time(loaded, texts)
    trees = score_perplexity(texts, loaded.model, loaded.tokenizer)
    batches = score_perplexity(texts, loaded.model, loaded.tokenizer, trees=False)
    off, noise = furthest(trees.log_likelihoods, expected), furthest(batches.log_likelihoods, expected)
    at_most = _TOLERANCE
    if dtype != "float32":
        at_most = max(_TIMES_NOISE * noise, torch.finfo(loaded.model.dtype).eps)
    about = {"path": trees.plan.scoring, "reason": trees.plan.scoring_reason, "batches_off": noise}
    return {**about, "off": off, "at_most": at_most, "right": off <= at_most}  # NaN is not right


@torch.inference_mode()
def one_at_a_time(loaded: LoadedModel, texts: list[str]) -> np.ndarray:
    """[texts] summed log-likelihoods, each text run alone and as it is, without any of our code."""
    found = []
    for text in texts:
        tokens = [loaded.tokenizer.bos_token_id, *loaded.tokenizer(text, add_special_tokens=False)["input_ids"]]
        fed = torch.tensor([tokens], device=loaded.model.device)
        log_probabilities = loaded.model(input_ids=fed, use_cache=False).logits[0, :-1].float().log_softmax(-1)
        found.append(float(log_probabilities.gather(-1, fed[0, 1:, None]).double().sum()))
    return np.array(found)


def furthest(found: np.ndarray, expected: np.ndarray) -> float:
    """The greatest relative difference; NaN stays NaN."""
    return float(np.max(np.abs(found - expected) / np.abs(expected)))


def replies(setting: Setting, *, name: str) -> Found:
    """Greedy replies in float32 against `generate`, one prompt at a time."""
    loaded, tokens = build(setting, name), setting.number(24, 6)
    plan = plan_of(loaded, prompts(setting, setting.number(16, 6)), "greedy", tokens)
    found = decode_rows(plan, loaded, range(len(plan.ids)))
    same = 0
    for context, reply in zip(plan.contexts, found, strict=True):
        fed = torch.tensor([context], device=loaded.model.device)
        with torch.inference_mode():
            written = loaded.model.generate(
                fed, attention_mask=torch.ones_like(fed), do_sample=False, max_new_tokens=tokens, pad_token_id=0
            )
        expected = written[0, len(context) :].tolist()
        while expected and expected[-1] in plan.ends.dropped:
            expected.pop()
        same += expected == reply.tokens
    return {"replies": len(found), "same": same, "right": same == len(found)}


def batches(setting: Setting) -> Found:
    """The same bytes of sampled replies in float32 for batches of 1, of 512, and padded."""
    loaded = build(setting, LARGE)
    plan = plan_of(loaded, prompts(setting, setting.number(512, 12)), "sample", setting.number(16, 5))
    files = []
    for sizes in (in_batches_of(1), in_batches_of(512), nullcontext()):
        with TemporaryDirectory() as folder, sizes:
            decode_into_shards(plan, loaded, Path(folder))
            files.append({path.name: path.read_bytes() for path in Path(folder).iterdir()})
    return {"files": len(files[0]), "padded": plan.paths.padded, "right": files[0] == files[1] == files[2]}


def devices(setting: Setting) -> Found:
    """Sampled replies in float32 on CPU and on the card."""
    if setting.device == "cpu":
        raise Skip("there is no card")
    loaded = build(replace(setting, device="cpu"), LARGE)
    found = []
    for device in ("cpu", setting.device):
        there = replace(loaded, model=deepcopy(loaded.model).to(device))
        plan = plan_of(there, prompts(setting, 32), "sample", 16)
        found.append(decode_rows(plan, there, range(len(plan.ids))))
    same = sum(one == other for one, other in zip(*found, strict=True)) / len(found[0])
    return {"share_same": same, "at_least": _LEAST_SAME, "right": same >= _LEAST_SAME}


def halves(setting: Setting) -> Found:
    """The same replies where no batch of more than two rows fits; nothing is lost."""
    loaded = build(setting, LARGE)
    plan = plan_of(loaded, prompts(setting, setting.number(128, 12)), "sample", 4)
    plan = replace(plan, contexts=plan.contexts[:1] * len(plan.ids))  # of one length, so they are one batch
    expected, _ = _decoded(plan, loaded)
    with loaded.model.register_forward_pre_hook(_take_memory, with_kwargs=True):
        found, halved = _decoded(plan, loaded)
    return {"halved": halved, "right": halved > 0 and found == expected}


def _take_memory(model: Any, args: Any, inputs: dict[str, Any]) -> None:
    """Asks the device for more memory than any has, so its own error is raised."""
    if len(inputs["input_ids"]) > 2:
        torch.empty(2**50, dtype=torch.uint8, device=model.device)


def _decoded(plan: Any, loaded: LoadedModel) -> tuple[Any, int]:
    """The replies, and how often a batch was halved."""
    with TemporaryDirectory() as folder, in_batches_of(512), warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        table = decode_into_shards(plan, loaded, Path(folder))
    return table, sum("memory ran out" in str(warning.message) for warning in warned)


SCORES = {
    f"{name} {dtype} {attention}": partial(scores, name=name, dtype=dtype, attention=attention)
    for name in NAMES
    for dtype in ("float32", "bfloat16", "float16")
    for attention in attentions_of(name)
}
REPLIES = {name: partial(replies, name=name) for name in NAMES}
