"""Measures how fast a card scores and replies, and how near that is to the card's own limits.

A part is a function of the setting, and returns what it measured. Shares are of the rates in the card's data sheet.
"""

import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing, suppress
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import torch
import transformers
from torch.autograd import DeviceType
from torch.profiler import profile
from transformers import BertConfig, BertForSequenceClassification, GenerationConfig

from hb_metrics.collect.classifiers.offensive import load_offensiveness_classifier
from hb_metrics.collect.classifiers.styles import load_style_classifier
from hb_metrics.collect.replies.decoding_shards import MOST_ROWS, decode_into_shards, decode_rows
from hb_metrics.collect.replies.prompt_replies import ReplyPlan
from hb_metrics.collect.scoring.perplexity import plan_perplexity
from hb_metrics.collect.units import run_units
from hb_metrics.models.loading import LoadedModel
from tests.card.models import LARGE, Found, OutOfTime, Setting, Skip, build, make_tokenizer, plan_of, prompts

# Dense bfloat16 FLOP and bytes of memory a second, by a part of the card's name.
_DATA_SHEETS = {
    "H200": (989e12, 4.8e12),
    "H100": (989e12, 3.35e12),
    "A100": (312e12, 2.0e12),
    "L40S": (362e12, 0.864e12),
}
_WAITS = {"cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize"}


class Rates(NamedTuple):
    """FLOP and bytes a second, and where they are from."""

    flops: float
    bandwidth: float
    source: str


class Size(NamedTuple):
    """The size of a model.

    Attributes:
        parameters: All of them.
        multiplied: Those that each position is multiplied with: not an input embedding that only looks tokens up.
        attention: FLOP of a query that attends to one key, in all layers.
        cached: Bytes of keys and values a position.
        itemsize: Bytes of a parameter.
    """

    parameters: int
    multiplied: int
    attention: int
    cached: int
    itemsize: int


def size_of(model: Any) -> Size:
    config, parameters, itemsize = model.config, model.num_parameters(), model.dtype.itemsize
    looked_up = 0 if config.tie_word_embeddings else model.get_input_embeddings().weight.numel()
    width = config.head_dim * config.num_hidden_layers
    attention, cached = 4 * width * config.num_attention_heads, 2 * width * config.num_key_value_heads * itemsize
    return Size(parameters, parameters - looked_up, attention, cached, itemsize)


def scoring_work(size: Size, lengths: Sequence[int]) -> tuple[float, float]:
    """FLOP and bytes to read for trees of these many positions, in each of which all positions attend to all."""
    flops = 2 * size.multiplied * sum(lengths) + size.attention * sum(length**2 for length in lengths)
    return flops, len(lengths) * size.parameters * size.itemsize


def reply_work(size: Size, tokens: float, prompt_tokens: float, positions: float, steps: int) -> tuple[float, float]:
    """FLOP and bytes to read for replies; their tokens attend to so many `positions` on average."""
    flops = 2 * size.multiplied * (tokens + prompt_tokens) + size.attention * tokens * positions
    return flops, steps * size.parameters * size.itemsize + tokens * positions * size.cached


def shares(work: tuple[float, float], seconds: float, rates: Rates) -> Found:
    """The shares of the card's rates that FLOP and bytes take; `of_limit` is the share of whichever binds."""
    mfu, bandwidth = work[0] / seconds / rates.flops, work[1] / seconds / rates.bandwidth
    return {"mfu": mfu, "bandwidth": bandwidth, "of_limit": max(mfu, bandwidth)}


def idle_share(intervals: Iterable[tuple[float, float]]) -> float | None:
    """The share of time from the first start to the last end in which no interval is; `None`: there is none."""
    ordered = sorted(intervals)
    if not ordered:
        return None
    first = reached = ordered[0][0]
    idle = 0.0
    for start, end in ordered:
        idle += max(0.0, start - reached)
        reached = max(reached, end)
    return idle / (reached - first)


def rates_of(setting: Setting) -> Rates:
    """The card's rates by its data sheet; as measured for a card that the table lacks, and for a CPU."""
    name = torch.cuda.get_device_name(setting.device) if setting.device != "cpu" else ""
    for part, (flops, bandwidth) in _DATA_SHEETS.items():
        if part in name:
            return Rates(flops, bandwidth, f"data sheet of {part}")
    return measured_rates(setting)


@cache
def measured_rates(setting: Setting) -> Rates:
    """The rates of a product of large matrices, and of a copy, which reads and writes."""
    width, length = (8192, 2**29) if setting.device != "cpu" else (256, 2**20)
    matrix = torch.randn(width, width, device=setting.device, dtype=torch.bfloat16)
    source = torch.randn(length, device=setting.device)
    target = torch.empty_like(source)
    multiplied = _seconds(setting, lambda: matrix @ matrix)
    copied = _seconds(setting, lambda: target.copy_(source))
    return Rates(2 * width**3 / multiplied, 2 * source.nbytes / copied, "measured")


def _seconds(setting: Setting, work: Callable[[], object]) -> float:
    """The time of work: the mean of ten runs, after one to warm up."""
    work()
    started = _now(setting)
    for _ in range(10):
        work()
    return (_now(setting) - started) / 10


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
    return {**found, **packages, "rates": rates_of(setting)._asdict(), "measured": measured_rates(setting)._asdict()}


def scoring(setting: Setting) -> Found:
    """Scores all of v1.0 by the 8B shape in bfloat16, or as much as the time allows."""
    end = perf_counter() + 0.9 * setting.seconds
    loaded = build(setting, LARGE, "bfloat16", all_layers=True)
    texts = prompts(setting, setting.number(10**9, 48))["text"].to_pylist()
    started = _now(setting)
    plan = plan_perplexity(texts, loaded.model, loaded.tokenizer)
    planning = _now(setting) - started
    lengths, num_scored, started = [], 0, _now(setting)
    with closing(run_units(plan, plan.units, loaded.model)) as running:
        for unit, _ in running:
            lengths.append(len(unit.payload.tokens))
            num_scored += len(unit.sequences)
            if perf_counter() > end:
                break
    elapsed = _now(setting) - started
    about = {"sentences": len(plan.num_tokens), "scored": num_scored, "planning_s": planning, "s": elapsed}
    rates = {
        "s_for_all": planning + elapsed * plan.positions / sum(lengths),
        "positions_a_s": sum(lengths) / elapsed,
        "tokens_a_s": plan.num_tokens.mean() * num_scored / elapsed,
    }
    return {**about, **rates, **shares(scoring_work(size_of(loaded.model), lengths), elapsed, rates_of(setting))}


def replying(setting: Setting, *, reply: Callable[[Setting, LoadedModel, ReplyPlan], int | None]) -> Found:
    """Makes replies of 64 tokens by the 8B shape in bfloat16: some to warm up, and 10,000 or what the time allows."""
    end = perf_counter() + 0.9 * setting.seconds
    loaded, length = build(setting, LARGE, "bfloat16", all_layers=True), setting.number(64, 5)
    for number in (setting.number(16, 4), setting.number(10_000, 12)):
        plan = plan_of(loaded, prompts(setting, number), "sample", length, least=length)
        rows: list[int] = []  # each step writes a token a row
        started, written = _now(setting), None
        count = partial(_count, rows=rows, end=end)
        with loaded.model.register_forward_pre_hook(count, with_kwargs=True), suppress(OutOfTime):
            written = reply(setting, loaded, plan)
        elapsed = _now(setting) - started
    tokens, size = written or sum(rows), size_of(loaded.model)
    context = float(np.mean(list(map(len, plan.contexts))))
    # A captured graph does not call the model, so there are no steps, and `bandwidth` is too low.
    work = reply_work(size, tokens, context * tokens / length, context + length / 2, len(rows))
    # As `fitting_batch_size` counts, beside the weights: four times as much is free.
    row = (max(map(len, plan.contexts)) + length) * size.cached + 4 * 4 * loaded.config.vocab_size * size.itemsize
    planned = size.parameters * size.itemsize + max(rows, default=0) * row
    about = {"replies": tokens / length, "tokens": tokens, "steps": len(rows), "s": elapsed, "planned_bytes": planned}
    return {**about, "tokens_a_s": tokens / elapsed, **shares(work, elapsed, rates_of(setting))}


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
    for start in range(0, len(contexts), most):
        batch = {"input_ids": contexts[start : start + most]}
        fed = loaded.tokenizer.pad(batch, padding_side="left", return_tensors="pt").to(setting.device)
        with torch.inference_mode():
            loaded.model.generate(**fed, generation_config=_sampling(plan))


def continuous(setting: Setting, loaded: LoadedModel, plan: ReplyPlan) -> int:
    """Uses transformers' continuous batching."""
    if setting.device == "cpu":
        raise Skip("continuous batching needs a card")
    found = loaded.model.generate_batch(plan.contexts, generation_config=_sampling(plan)).values()
    return sum(len(output.generated_tokens) for output in found)


def _sampling(plan: ReplyPlan) -> GenerationConfig:
    settings = {name: getattr(plan.decoding, name) for name in ("temperature", "top_k", "top_p", "max_new_tokens")}
    return GenerationConfig(do_sample=True, **settings, eos_token_id=None, pad_token_id=0)  # nothing ends a reply early


def profile_replies(setting: Setting) -> Found:
    loaded, tokens = build(setting, LARGE, "bfloat16", all_layers=True), setting.number(16, 4)
    plan = plan_of(loaded, prompts(setting, setting.number(256, 6)), "sample", tokens, least=tokens)
    return _profiled(setting, loaded, partial(decode_rows, plan, loaded, range(len(plan.ids))))


def profile_scoring(setting: Setting) -> Found:
    loaded = build(setting, LARGE, "bfloat16", all_layers=True)
    texts = prompts(setting, setting.number(10_000, 24))["text"].to_pylist()
    plan = plan_perplexity(texts, loaded.model, loaded.tokenizer)
    return _profiled(setting, loaded, lambda: list(run_units(plan, plan.units[:16], loaded.model)))


def _profiled(setting: Setting, loaded: LoadedModel, work: Callable[[], object]) -> Found:
    """How often the host waits for the card in a step, and the share of time in which the card does nothing."""
    work()
    steps: list[int] = []
    with loaded.model.register_forward_pre_hook(lambda *_: steps.append(1)), profile() as found:
        work()
    events = found.events()
    ran = [event.time_range for event in events if event.device_type == DeviceType.CUDA]
    waits = sum(event.name in _WAITS for event in events)
    syncs = waits / len(steps) if setting.device != "cpu" else None
    return {"steps": len(steps), "syncs_a_step": syncs, "idle": idle_share([(time.start, time.end) for time in ran])}


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
