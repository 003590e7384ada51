"""Greedy replies of the embedded model to prompts of v1.0-small, from the prompts to the texts.

The prompts are drawn at random, which is the case where ours shares least: a whole run has more contexts of each
beginning and length. Ours includes the encoding of the contexts and the shards on disk, as in `measure.py`; the peer is
given the tokens that end a reply, and keeps its replies in memory.

Both decode in float32, so a reply can only differ where two tokens are nearly as likely; ours decides such cases on the
context alone, a padded batch may not. Every reply has to be the same all the same, and is.
"""

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from transformers import PreTrainedTokenizerBase, pipeline

from hb_dataset import load_table
from hb_metrics.collect.replies.decoding_settings import Decoding
from hb_metrics.collect.replies.decoding_shards import decode_into_shards
from hb_metrics.collect.replies.prompt_replies import plan_replies
from hb_metrics.collect.replies.requests import make_requests
from hb_metrics.models.contexts import EndTokens, end_tokens, reply_text
from hb_metrics.models.layout import Layout
from hb_metrics.models.loading import LoadedModel, load_model
from tests.benchmarks.row import OURS, Row, Side
from tests.benchmarks.scoring import load_embedded
from tests.hb_metrics.conftest import encode_contexts

NUM_PROMPTS = 320
NEW_TOKENS = 24
SEED = 0
PEER_BATCH_SIZE = 64


class Peer(NamedTuple):
    """The pipeline, its tokenizer, what ends a reply, and the contexts that the pipeline has to be given."""

    pipeline: Any
    tokenizer: PreTrainedTokenizerBase
    ends: EndTokens
    contexts: Sequence[Sequence[int]]


def prompts(fraction: float) -> pa.Table:
    """So many prompts of v1.0-small, drawn at random; a smaller draw is a part of a larger one."""
    table = load_table("v1.0-small")
    drawn = np.random.default_rng(SEED).permutation(len(table))[: round(fraction * NUM_PROMPTS)]
    return table.take(pa.array(np.sort(drawn)))


def load_pipeline(inputs: pa.Table) -> Peer:
    """The embedded model as a pipeline."""
    loaded = load_model("embedded")
    loaded.tokenizer.padding_side = "left"
    pipe = pipeline("text-generation", model=loaded.model, tokenizer=loaded.tokenizer)
    contexts = encode_contexts(inputs["text"].to_pylist(), [[]] * len(inputs), loaded.model, loaded.tokenizer, "chat")
    return Peer(pipe, loaded.tokenizer, end_tokens(loaded.model, loaded.tokenizer, "chat"), contexts)


def by_us(inputs: pa.Table, loaded: LoadedModel) -> dict[str, np.ndarray]:
    """Plans and writes shards, as a measurement does."""
    requests = make_requests(inputs, decoding=Decoding(max_new_tokens=NEW_TOKENS), layout=Layout("chat"))
    plan = plan_replies(requests, loaded)
    with tempfile.TemporaryDirectory() as folder:
        table = decode_into_shards(plan, loaded, Path(folder) / "replies")
    assert table is not None
    return {
        "replies": np.array([reply or "" for reply in table["reply"].to_pylist()]),
        "num_tokens": table["num_tokens"].to_numpy(),
    }


def by_pipeline(inputs: pa.Table, peer: Peer) -> dict[str, np.ndarray]:
    """The pipeline over chats sorted by length, so that batches have little padding."""
    texts = inputs["text"].to_pylist()
    order = sorted(range(len(texts)), key=lambda row: len(texts[row]))
    found = peer.pipeline(
        [[{"role": "user", "content": texts[row]}] for row in order],
        batch_size=PEER_BATCH_SIZE,
        do_sample=False,
        min_new_tokens=1,
        max_new_tokens=NEW_TOKENS,
        eos_token_id=[*peer.ends.dropped, *peer.ends.kept],
        return_tensors=True,
    )
    replies, num_tokens = [""] * len(texts), np.zeros(len(texts), dtype=np.int64)
    for row, (each,) in zip(order, found, strict=True):
        tokens = _reply(each["generated_token_ids"], peer.contexts[row], peer.ends)
        replies[row], num_tokens[row] = reply_text(tokens, peer.tokenizer), len(tokens)
    return {"replies": np.array(replies), "num_tokens": num_tokens}


def told(found: Mapping[str, np.ndarray]) -> str:
    """How many tokens were said, and how many replies are distinct."""
    tokens, distinct = found["num_tokens"].sum(), len(set(found["replies"].tolist()))
    return f"{tokens:,} tokens in {len(found['replies']):,} replies, {distinct:,} of them distinct"


def _reply(tokens: list[int], context: Sequence[int], ends: EndTokens) -> list[int]:
    """The reply in a row of a batch, which is padding, the context, the reply, padding."""
    start = tokens.index(context[0])
    reply = start + len(context)
    if tokens[start:reply] != list(context):
        raise ValueError("the pipeline was given another context than we are")
    for place in range(reply, len(tokens)):
        if tokens[place] in ends.dropped:
            return tokens[reply:place]
        if tokens[place] in ends.kept:
            return tokens[reply : place + 1]
    return tokens[reply:]


ROW = Row(
    title="greedy replies of 24 tokens, embedded model",
    inputs=prompts,
    work=len,
    unit="prompts of v1.0-small",
    sides={
        OURS: Side(run=by_us, load=load_embedded),
        "transformers pipeline": Side(run=by_pipeline, load=load_pipeline, repeats=2),
    },
    notes=told,
)
