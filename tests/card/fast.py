"""Measures how fast a card scores and replies.

A part is a function of the setting, and returns what it measured.
"""

import os
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import numpy as np
import torch
import transformers
from transformers import BertConfig, BertForSequenceClassification, GenerationConfig

from hb_metrics.collect.classifiers.offensive import load_offensiveness_classifier
from hb_metrics.collect.classifiers.styles import load_style_classifier
from hb_metrics.collect.replies.decoding_shards import MOST_ROWS, decode_into_shards
from hb_metrics.collect.replies.prompt_replies import ReplyPlan
from hb_metrics.collect.scoring.perplexity import plan_perplexity
from hb_metrics.collect.units import run_units
from hb_metrics.models.loading import LoadedModel
from tests.card.models import LARGE, Found, OutOfTime, Setting, build, make_tokenizer, plan_of, prompts


def _now(setting: Setting) -> float:
    if setting.device != "cpu":
        torch.cuda.synchronize()
    return perf_counter()


def machine(setting: Setting) -> Found:
    """What this runs on."""
    packages = {module.__name__: module.__version__ for module in (torch, transformers, np)}
    found = {"device": setting.device, "tiny": setting.tiny, "cores": os.cpu_count()}
    if setting.device != "cpu":
        card = torch.cuda.get_device_properties(setting.device)
        found |= {"name": card.name, "memory": card.total_memory, "cuda": torch.version.cuda}
    return {**found, **packages}


def scoring(setting: Setting) -> Found:
    """Scores all of v1.0 by the 8B shape in bfloat16, or as much as the time allows."""
    end = perf_counter() + 0.9 * setting.seconds
    loaded = build(setting, LARGE, "bfloat16", all_layers=True)
    texts = prompts(setting, setting.number(10**9, 48))["text"].to_pylist()
    started = _now(setting)
    plan = plan_perplexity(texts, loaded.model, loaded.tokenizer)
    planning = _now(setting) - started
    num_units, num_scored, started = 0, 0, _now(setting)
    with closing(run_units(plan, plan.units, loaded.model)) as running:
        for unit, _ in running:
            num_units += 1
            num_scored += len(unit.sequences)
            if perf_counter() > end:
                break
    elapsed, share = _now(setting) - started, num_units / len(plan.units)  # nearly all units have as many positions
    about = {"sentences": len(plan.num_tokens), "scored": num_scored, "planning_s": planning, "s": elapsed}
    return {**about, "s_for_all": planning + elapsed / share, "positions_a_s": share * plan.positions / elapsed}


def replying(setting: Setting, *, reply: Callable[[Setting, LoadedModel, ReplyPlan], None]) -> Found:
    """Makes replies of 64 tokens by the 8B shape in bfloat16: some to warm up, and 10,000 or what the time allows."""
    end = perf_counter() + 0.9 * setting.seconds
    loaded, length = build(setting, LARGE, "bfloat16", all_layers=True), setting.number(64, 5)
    for number in (setting.number(16, 4), setting.number(10_000, 12)):
        plan = plan_of(loaded, prompts(setting, number), "sample", length, least=length)
        rows: list[int] = []  # each step writes a token a row
        started = _now(setting)
        count = partial(_count, rows=rows, end=end)
        with loaded.model.register_forward_pre_hook(count, with_kwargs=True), suppress(OutOfTime):
            reply(setting, loaded, plan)
        elapsed = _now(setting) - started
    tokens = sum(rows)
    return {"replies": tokens / length, "steps": len(rows), "s": elapsed, "tokens_a_s": tokens / elapsed}


def _count(model: Any, args: Any, inputs: dict[str, Any], *, rows: list[int], end: float) -> None:
    rows.append(len(inputs["input_ids"]))
    if perf_counter() > end:
        raise OutOfTime


def ours(setting: Setting, loaded: LoadedModel, plan: ReplyPlan) -> None:
    """Writes them as a run does."""
    with TemporaryDirectory() as folder:
        decode_into_shards(plan, loaded, Path(folder))


def generate(setting: Setting, loaded: LoadedModel, plan: ReplyPlan) -> None:
    """Uses transformers' `generate`, in batches sorted by length and padded on the left."""
    contexts, most = sorted(plan.contexts, key=len), MOST_ROWS["other" if setting.device != "cpu" else "cpu"]
    names = ("temperature", "top_k", "top_p", "max_new_tokens")
    sampling = {name: getattr(plan.decoding, name) for name in names}
    config = GenerationConfig(do_sample=True, **sampling, eos_token_id=None, pad_token_id=0)  # nothing ends a reply
    for start in range(0, len(contexts), most):
        batch = {"input_ids": contexts[start : start + most]}
        fed = loaded.tokenizer.pad(batch, padding_side="left", return_tensors="pt").to(setting.device)
        with torch.inference_mode():
            loaded.model.generate(**fed, generation_config=config)


def classifier(setting: Setting, *, load: Callable[..., Any], labels: Sequence[str]) -> Found:
    """Texts a second of BERT base with random weights on the card, and the probabilities of the CPU."""
    size, texts = setting.number(30522, 1024), prompts(setting, setting.number(20_000, 24))["text"].to_pylist()
    shape = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4} if setting.tiny else {}
    names = {"id2label": dict(enumerate(labels)), "label2id": {label: index for index, label in enumerate(labels)}}
    torch.manual_seed(0)
    with TemporaryDirectory() as folder:
        BertForSequenceClassification(BertConfig(vocab_size=size, **names, **shape)).save_pretrained(folder)
        make_tokenizer(size).save_pretrained(folder)
        on_card, on_cpu = load(folder, device=setting.device), load(folder, device="cpu")
    on_card.classify(texts[:8])
    started = _now(setting)
    found = on_card.classify(texts).probabilities
    elapsed = _now(setting) - started
    off = float(np.abs(found[:32] - on_cpu.classify(texts[:32]).probabilities).max())
    return {"texts": len(texts), "texts_a_s": len(texts) / elapsed, "off": off, "at_most": 1e-4, "right": off <= 1e-4}


CLASSIFIERS = {
    "styles": partial(classifier, load=load_style_classifier, labels=("calm", "kind", "curt")),
    "offensiveness": partial(classifier, load=load_offensiveness_classifier, labels=("fine", "offensive")),
}
