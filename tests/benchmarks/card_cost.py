"""What a whole run should cost an 8B model on one current card: an estimate, derived from counts that are made here.

    python tests/benchmarks/card_cost.py

Counts positions, tokens and batches of v1.0 as a run makes them, with the tokenizer of the embedded model, and the
length of replies of the embedded model; takes the size of Llama 3.1 8B from its config and the rates of the card from
its data sheet. Prints the numbers of docs/performance.md. No card is needed: nothing here is measured on one.
"""

from argparse import ArgumentParser
from collections.abc import Sequence
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from tempfile import TemporaryDirectory
from time import thread_time
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import torch
from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM

from hb_dataset import load_table
from hb_metrics.inference.models.loading import EMBEDDED, LoadedModel, load_model
from hb_metrics.inference.replies.decoding_shards import MOST_ROWS, _batches, _shards, decode_into_shards
from hb_metrics.inference.replies.presets import decoding_preset
from hb_metrics.inference.replies.prompt_replies import ReplyPlan, plan_replies
from hb_metrics.inference.replies.requests import make_requests, select_prompts
from hb_metrics.inference.scoring.perplexity import MAX_POSITIONS
from hb_metrics.inference.scoring.prefix_tree import pack_prefix_trees

CONFIG, REPLIES_PER_CELL, SEED = "v1.0", 8, 0
BYTES = 2  # of a number in bfloat16
# Llama 3.1 8B, as its config.json has it.
MODEL = {
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "tie_word_embeddings": False,
}


class Card(NamedTuple):
    """Rates of a data sheet: dense bfloat16 FLOP and bytes of memory a second."""

    flops: float
    bandwidth: float


H100 = Card(flops=989e12, bandwidth=3.35e12)  # SXM, 80 GB of HBM3; the data sheet's 1,979 is with sparsity
# How much of a data sheet's rates is reached, assumed: of FLOP by plain PyTorch, of bandwidth by reading weights.
UTILISATION, OF_BANDWIDTH = 0.4, 0.7


@dataclass(frozen=True, kw_only=True)
class Weights:
    """The size of a model.

    Attributes:
        parameters: All of them.
        multiplied: Those that each position is multiplied with: all but the input embedding, which is looked up.
        attention: FLOP of a query that attends to one key, in all layers: 2 to multiply and add, for scores and values.
        cached: Bytes of keys and values a position.
    """

    parameters: int
    multiplied: int
    attention: int
    cached: int


class Scoring(NamedTuple):
    """What scoring all sentences takes: how many there are, tokens predicted, positions run, pairs attended, runs."""

    sentences: int
    tokens: int
    positions: int
    pairs: int
    runs: int


class Replying(NamedTuple):
    """What replies take: how many, tokens of prompts, distinct contexts, batches, tokens written, rows × positions."""

    replies: int
    prompt_tokens: int
    batches: int
    mean_context: float
    mean_tokens: float
    longest: int


def weights(**config: int | bool) -> Weights:
    """Of a Llama model with these settings, counted on the model itself, without its memory."""
    settings = LlamaConfig(**config)
    with torch.device("meta"):
        model = LlamaForCausalLM(settings)
    looked_up = 0 if settings.tie_word_embeddings else model.get_input_embeddings().weight.numel()
    parameters = model.num_parameters()
    width, layers = settings.num_attention_heads * settings.head_dim, settings.num_hidden_layers
    return Weights(
        parameters=parameters,
        multiplied=parameters - looked_up,
        attention=4 * width * layers,
        cached=2 * settings.num_key_value_heads * settings.head_dim * layers * BYTES,
    )


def count_scoring(sequences: Sequence[Sequence[int]], max_positions: int = MAX_POSITIONS) -> Scoring:
    """Of sentences as token ids with their start token; equal ones are scored once."""
    distinct = sorted(set(map(tuple, sequences)))
    lengths = [len(tree.tokens) for tree in pack_prefix_trees(distinct, max_positions)]
    return Scoring(
        sentences=len(distinct),
        tokens=sum(len(sequence) - 1 for sequence in distinct),
        positions=sum(lengths),
        pairs=sum(length**2 for length in lengths),  # a tree's mask is of all its positions
        runs=len(lengths),
    )


def scoring_seconds(scoring: Scoring, model: Weights, card: Card) -> float:
    """Whichever takes longer: the multiplications, or reading the weights once a run."""
    flops = 2 * model.multiplied * scoring.positions + model.attention * scoring.pairs
    read = scoring.runs * model.parameters * BYTES
    return max(flops / (card.flops * UTILISATION), read / (card.bandwidth * OF_BANDWIDTH))


def replying_seconds(replying: Replying, model: Weights, card: Card) -> dict[str, float]:
    """Of reading the prompts, and of writing: its multiplications, and the weights and cache it reads."""
    flops, bandwidth = card.flops * UTILISATION, card.bandwidth * OF_BANDWIDTH
    tokens = replying.replies * replying.mean_tokens
    positions = replying.mean_context + replying.mean_tokens / 2  # that a token attends to
    steps = replying.batches * replying.longest  # the longest reply of a batch sets how many it takes
    return {
        "prompts": 2 * model.multiplied * replying.prompt_tokens / flops,
        "multiplying": tokens * (2 * model.multiplied + model.attention * positions) / flops,
        "reading": (steps * model.parameters * BYTES + tokens * positions * model.cached) / bandwidth,
    }


def count_replying(plan: ReplyPlan, lengths: np.ndarray) -> Replying:
    """Of a plan, in batches as they are in half precision on a card, and the lengths of some replies."""
    contexts = [len(context) for context in plan.contexts]
    shards = _shards(plan, Path())
    return Replying(
        replies=len(contexts),
        prompt_tokens=sum(contexts),
        batches=sum(len(_batches(plan.contexts, shard.rows, MOST_ROWS["other"], 1, padded=False)) for shard in shards),
        mean_context=float(np.mean(contexts)),
        mean_tokens=float(lengths.mean()),
        longest=plan.decoding.max_new_tokens,
    )


def reply_lengths(prompts: pa.Table, loaded: LoadedModel, number: int) -> np.ndarray:
    """[number] tokens of replies to prompts drawn at random, decoded as a run decodes them by default."""
    drawn = np.sort(np.random.default_rng(SEED).permutation(len(prompts))[:number])
    with TemporaryDirectory() as folder:
        table = decode_into_shards(plan(prompts.take(pa.array(drawn)), loaded), loaded, Path(folder) / "replies")
    assert table is not None
    return table["num_tokens"].to_numpy()


def plan(prompts: pa.Table, loaded: LoadedModel) -> ReplyPlan:
    """Whole replies to chats, sampled: the default for chat models."""
    decoding = decoding_preset("sample", extent="whole")
    requests = make_requests(prompts, decoding=decoding, extent="whole", seed=SEED)
    return plan_replies(requests, loaded, context="chat")


def host_seconds(steps: int = 20) -> float:
    """What Python and PyTorch take to start a step of as many layers, of next to no width: processor time, here."""
    torch.set_num_threads(1)
    narrow = {"hidden_size": 64, "intermediate_size": 64, "vocab_size": 64, "head_dim": 2}
    model = LlamaForCausalLM(LlamaConfig(**{**MODEL, **narrow})).eval()
    cache, token, times = DynamicCache(config=model.config), torch.tensor([[1]]), []
    # Before transformers 5.24 the argument was called past_key_values.
    cached = {"cache" if "cache" in signature(model.forward).parameters else "past_key_values": cache}
    with torch.inference_mode():
        for _ in range(steps):
            started = thread_time()
            model(input_ids=token, use_cache=True, **cached)
            times.append(thread_time() - started)
    return float(np.median(times))


def main() -> None:
    """Counts, and prints the table."""
    parser = ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--replies", type=int, default=128, help="How many replies are made to see how long they are.")
    number = parser.parse_args().replies

    prompts, loaded, model = load_table(CONFIG), load_model(EMBEDDED), weights(**MODEL)
    encoded = loaded.tokenizer(prompts["text"].unique().to_pylist(), add_special_tokens=False)["input_ids"]
    scoring = count_scoring([(loaded.tokenizer.bos_token_id, *tokens) for tokens in encoded])
    chosen = select_prompts(prompts, REPLIES_PER_CELL, seed=SEED)
    lengths = reply_lengths(chosen, loaded, number)
    replying = count_replying(plan(chosen, loaded), lengths)
    error = lengths.std(ddof=1) / len(lengths) ** 0.5
    print(f"{model}\n{scoring}\n{replying}, standard error of the mean {error:.1f}, from {len(lengths)} replies")

    host = host_seconds()
    parts = {"scoring": scoring_seconds(scoring, model, H100), **replying_seconds(replying, model, H100)}
    for name, seconds in parts.items():
        print(f"{name}: {seconds:,.0f} s, {seconds / 3600:.2f} h")
    print(f"starting a step: {1e3 * host:.1f} ms")
    print(f"  of scoring {scoring.runs * host:,.0f} s, of replies {replying.batches * replying.longest * host:,.0f} s")


if __name__ == "__main__":
    main()
