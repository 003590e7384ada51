"""Conversations of four turns with the embedded model, as `--cue history --turns 4` has them.

The peer is ourselves, but each turn encodes the whole conversation again. Every reply has to be the same, though the
states that are kept differ from those that are computed again in their last bits.
"""

import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from hb_dataset import load_table
from hb_metrics.collect.engines.local import LocalEngine
from hb_metrics.collect.replies.cues import prompts_for_cue, read_questions
from hb_metrics.collect.replies.decoding_settings import decoding_preset
from hb_metrics.collect.replies.decoding_shards import KeptStates
from hb_metrics.collect.replies.requests import ReplyRequests, make_requests, next_turn, with_follow_ups
from hb_metrics.models.chats import ChatOptions
from hb_metrics.models.loading import load_model
from hb_metrics.models.sources import EMBEDDED
from tests.benchmarks.row import OURS, Row, Side

CONVERSATIONS = 48
TURNS = 4
NEW_TOKENS = 24
SEED = 0


def first_turn(fraction: float) -> ReplyRequests:
    """So many prompts of v1.0 in which users describe themselves, drawn at random, each with a question."""
    table = prompts_for_cue(load_table("v1.0"), "history")
    drawn = np.random.default_rng(SEED).permutation(len(table))[: max(2, round(fraction * CONVERSATIONS))]
    prompts = table.take(pa.array(np.sort(drawn)))
    decoding = decoding_preset("sample", None, "whole", max_new_tokens=NEW_TOKENS)
    requests = make_requests(prompts, decoding=decoding, cue="history", questions=read_questions(), extent="whole")
    return with_follow_ups(requests, prompts["template"].to_pylist(), TURNS)


def load(requests: ReplyRequests) -> LocalEngine:
    """The embedded model in float32."""
    return LocalEngine(load_model(EMBEDDED))


def converse(requests: ReplyRequests, engine: LocalEngine, *, anew: bool = False) -> dict[str, np.ndarray]:
    """Plans and writes the replies of each turn, as the measurement does."""
    layout = engine.layout(context="chat", tag="none", chat=ChatOptions())
    replies: list[str] = []
    num_tokens = []
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(1, TURNS + 1):
            if anew:
                engine.kept = KeptStates()
            plan = engine.plan_replies(requests, layout)
            table = engine.reply(plan, Path(folder) / str(turn))
            replies += [reply or "" for reply in table["reply"].to_pylist()]
            num_tokens.append([sum(map(len, plan.contexts)), sum(table["num_tokens"].to_pylist())])
            if turn < TURNS:
                requests = next_turn(requests, table)
    return {"replies": np.array(replies), "num_tokens": np.array(num_tokens)}


def told(found: Mapping[str, np.ndarray]) -> str:
    """How many tokens the conversations have at each turn."""
    given, said = found["num_tokens"].sum(0)
    return f"{given:,} tokens of conversations up to {len(found['replies']):,} replies of {said:,} tokens"


ROW = Row(
    title="conversations of four turns, embedded model",
    inputs=first_turn,
    work=lambda requests: len(requests.ids),
    unit="conversations",
    sides={
        OURS: Side(run=converse, load=load),
        "each turn encoded anew": Side(run=partial(converse, anew=True), load=load),
    },
    notes=told,
)
