"""The replies of a model that is loaded: how what is asked is given to it, and its replies as resumable shards.

Sampling is drawn by a prompt's id and the seed; a reply does not depend on its batch, its row in the data or the number
of processes.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from hb_metrics.inference.models.contexts import (
    ContextFormat,
    check_lengths,
    encode_rendered,
    end_tokens,
    render_messages,
)
from hb_metrics.inference.models.loading import LoadedModel
from hb_metrics.inference.models.thoughts import Thoughts, split_tokens
from hb_metrics.inference.replies.cues import check_cue
from hb_metrics.inference.replies.decoding import is_invariant
from hb_metrics.inference.replies.decoding_settings import Decoded
from hb_metrics.inference.replies.decoding_shards import (
    DecodingPlan,
    decode_into_shards,
    decode_rows,
    read_decoded,
)
from hb_metrics.inference.replies.requests import REPLY_SCHEMA, Answer, ReplyRequests, answer_of, reply_columns
from hb_metrics.inference.replies.trials import takes_cache, takes_padding

REASONING_TOKENS = 2048  # of what a model thinks before a reply at most, unless the options say otherwise
ROWS_PER_SHARD = 1024


@dataclass(frozen=True, kw_only=True)
class ReplyPlan(DecodingPlan):
    """What is replied to, and how; a row is a prompt, and the other attributes are those of `DecodingPlan`.

    Attributes:
        requests: What was asked.
        context: The format of the contexts.
        context_reason: Why, in words for the report.
        chat_description: What run.json records of what the chat template is given.
        thoughts: How the model marks what it thinks; `None`: it does not think.
    """

    requests: ReplyRequests
    context: ContextFormat
    context_reason: str
    chat_description: dict[str, Any] = field(default_factory=dict)
    thoughts: Thoughts | None = None

    def description(self) -> dict[str, Any]:
        """What run.json records of the plan."""
        return {
            "context": self.context,
            "context_reason": self.context_reason,
            **self.chat_description,
            **self.requests.description(),
            "thinks": self.thoughts is not None,
            **asdict(self.decoding),
            "same_in_any_batch": self.invariant,
        }


def plan_replies(
    requests: ReplyRequests, loaded: LoadedModel, *, context: ContextFormat, context_reason: str = ""
) -> ReplyPlan:
    """Encodes the contexts of what is asked, for a model that is loaded.

    Args:
        requests: What is asked.
        loaded: A causal or encoder–decoder model.
        context: How a prompt becomes what the model is given.
        context_reason: Why this format, for the record.

    Returns:
        The plan.

    Raises:
        ValueError: The model gives no replies, or cannot take these contexts.
    """
    if loaded.kind == "masked":
        raise ValueError(
            f"a {loaded.kind} language model gives no replies; measure its likelihoods (--measurements likelihood), or "
            "give a causal or encoder-decoder model"
        )
    check_cue(requests.cue, context, context_reason)
    chat, decoding, max_reasoning_tokens = requests.chat, requests.decoding, requests.max_reasoning_tokens
    has_encoder = loaded.model.config.is_encoder_decoder
    rendered = render_messages(requests.messages, loaded.tokenizer, context, is_encoder_decoder=has_encoder, chat=chat)
    contexts = encode_rendered(rendered, loaded.tokenizer, context, is_encoder_decoder=has_encoder)
    ends = end_tokens(loaded.model, loaded.tokenizer, context, whole=requests.extent == "whole", chat=chat)
    thoughts = ends.thoughts
    if max_reasoning_tokens is None:
        max_reasoning_tokens = 0 if thoughts is None or thoughts.is_closed else REASONING_TOKENS
    decoding = replace(decoding, max_reasoning_tokens=max_reasoning_tokens)
    if decoding.num_beams > 1 and thoughts is not None and max_reasoning_tokens:
        raise ValueError(
            f"the model thinks before it replies, and beam search (num_beams {decoding.num_beams}) does not tell a "
            "thought from a reply; give --num_beams 1, turn thinking off (for many models --chat_template_kwargs "
            "'{\"enable_thinking\": false}'), or give --max_reasoning_tokens 0 if the model never thinks"
        )
    check_lengths(contexts, requests.ids, loaded.model, decoding.max_new_tokens, decoding.max_reasoning_tokens)
    cached = takes_cache(loaded.model, contexts, decoding.max_new_tokens + decoding.max_reasoning_tokens)
    return ReplyPlan(
        ids=requests.ids,
        requests=requests,
        contexts=contexts,
        context=context,
        context_reason=context_reason,
        decoding=decoding,
        ends=ends,
        chat_description=chat.description(loaded.tokenizer) if context == "chat" else {},
        thoughts=thoughts,
        seed=requests.seed,
        invariant=is_invariant(loaded.model),
        padded=takes_padding(loaded.model, contexts, cached=cached),
        cached=cached,
    )


def reply_into_shards(
    plan: ReplyPlan,
    loaded: LoadedModel,
    folder: Path,
    *,
    batch_size: int | None = None,
    progress: bool = True,
) -> pa.Table | None:
    """Generates the replies that are not on disk yet, and reads all of them.

    Args:
        plan: What is replied to.
        loaded: The model it was planned for.
        folder: Where the shards are; made if it is not there.
        batch_size: As `decode_into_shards`.
        progress: Whether the main process shows a progress bar.

    Returns:
        A table with the columns of `REPLY_SCHEMA` in the order of the plan, on the main process; `None` on all others.
        `reply` is null where the model wrote nothing, or did not end its thought (`reasoning_unclosed`); `num_tokens`
        are those of the reply. `reasoning` is null where the model did not think.
    """

    def make_columns(rows: Sequence[int], decoded: Sequence[Decoded]) -> dict[str, Any]:
        return reply_columns(plan.requests, rows, [_answer(plan, loaded, reply) for reply in decoded])

    return decode_into_shards(
        plan,
        loaded,
        folder,
        schema=REPLY_SCHEMA,
        make_columns=make_columns,
        name="replies",
        purpose="sampling",
        rows_per_shard=ROWS_PER_SHARD,
        batch_size=batch_size,
        progress=progress,
    )


def reply_to_rows(plan: ReplyPlan, loaded: LoadedModel, rows: Sequence[int]) -> list[str]:
    """The replies to some rows, without files; those of `reply_into_shards`, and "" where there is none."""
    decoded = decode_rows(plan, loaded, rows, purpose="sampling")
    return [_answer(plan, loaded, reply).text or "" for reply in decoded]


def _answer(plan: ReplyPlan, loaded: LoadedModel, decoded: Decoded) -> Answer:
    part = split_tokens(decoded.tokens, plan.ends.reader(), loaded.tokenizer)
    return answer_of(
        part.written,
        plan.requests.extent,
        num_tokens=part.num_tokens,
        truncated=decoded.truncated,
        num_reasoning_tokens=part.num_reasoning_tokens,
    )


def read_replies(plan: ReplyPlan, folder: Path) -> pa.Table:
    """Reads the replies that `reply_into_shards` has written, on any process."""
    return read_decoded(plan, folder, schema=REPLY_SCHEMA, rows_per_shard=ROWS_PER_SHARD)
