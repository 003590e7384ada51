from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np
import pyarrow as pa
import torch
from transformers import PreTrainedModel

from hb_metrics.collect.replies.decoding import Reply, allowed_next
from hb_metrics.collect.replies.decoding_settings import REASONING_TOKENS, Decoded, Decoding
from hb_metrics.collect.replies.decoding_shards import DecodingPlan, decode_rows
from hb_metrics.collect.replies.forward import decoding_paths
from hb_metrics.collect.replies.requests import ReplyAnswer, ReplyRequests, answer_of, next_turn, reply_columns
from hb_metrics.collect.replies.sampling import entropies, table_of
from hb_metrics.collect.scoring.reply_scoring import reply_logits
from hb_metrics.models.architecture import decoder_start, max_positions_of
from hb_metrics.models.chats import CHAT_DATE, prints_date
from hb_metrics.models.contexts import check_lengths, encode_messages, end_tokens
from hb_metrics.models.float32 import is_exact
from hb_metrics.models.loading import LoadedModel
from hb_metrics.models.thoughts import Thoughts, split_tokens
from hb_metrics.run.schema import REPLY_SCHEMA


@dataclass(frozen=True, kw_only=True)
class ReplyPlan(DecodingPlan):
    """The prompts to reply to, one per row. `thoughts` is `None` if the model does not think before it replies."""

    schema = REPLY_SCHEMA
    label = "replies"
    purpose = "sampling"
    requests: ReplyRequests
    chat_date: str | None = None
    thoughts: Thoughts | None = None

    def columns(self, loaded: LoadedModel, rows: Sequence[int], decoded: Sequence[Decoded]) -> dict[str, object]:
        return reply_columns(self.requests, rows, [read_decoded(self, loaded, reply) for reply in decoded])

    def description(self) -> dict[str, object]:
        return {
            **self.requests.description(chat_date=self.chat_date),
            "thinks": self.thoughts is not None,
            **asdict(self.decoding),
            "same_in_any_batch": self.invariant,
        }


def plan_replies(requests: ReplyRequests, loaded: LoadedModel) -> ReplyPlan:
    decoding, max_reasoning_tokens = requests.decoding, requests.max_reasoning_tokens
    context, chat = requests.layout.context, requests.layout.chat
    contexts = encode_messages(requests.messages, loaded, context, chat=chat)
    ends = end_tokens(loaded.model, loaded.tokenizer, context, whole=requests.extent == "whole", chat=chat)
    thoughts = ends.thoughts
    if max_reasoning_tokens is None:
        max_reasoning_tokens = 0 if thoughts is None or thoughts.is_closed else REASONING_TOKENS
    decoding = replace(decoding, max_reasoning_tokens=max_reasoning_tokens)
    if decoding.num_beams > 1 and thoughts is not None and max_reasoning_tokens:
        raise ValueError(
            f"num_beams is {decoding.num_beams}, but the model thinks before it replies; set --decoding sample"
        )
    check_lengths(contexts, requests.ids, loaded.model, decoding.max_new_tokens, decoding.max_reasoning_tokens)
    if requests.turn == 1 and requests.turns > 1:
        _check_turns(requests, loaded, decoding)
    longest = decoding.max_new_tokens + decoding.max_reasoning_tokens
    paths = decoding_paths(loaded.model, contexts, longest)
    return ReplyPlan(
        ids=requests.ids,
        requests=requests,
        contexts=contexts,
        decoding=decoding,
        ends=ends,
        chat_date=str(CHAT_DATE) if prints_date(loaded.tokenizer) else None,
        thoughts=thoughts,
        seed=requests.turn_seed,
        invariant=is_exact(loaded.model),
        paths=paths,
    )


def _check_turns(requests: ReplyRequests, loaded: LoadedModel, decoding: Decoding) -> None:
    """Raises `ValueError` if a conversation of `requests.turns` turns could become too long for the model.

    The replies are not known yet, so each counts as `max_new_tokens` tokens plus the marks of its turn.
    """
    limit = max_positions_of(loaded.model)
    beside = 0 if loaded.config.is_encoder_decoder else decoding.max_new_tokens + decoding.max_reasoning_tokens
    for turn in range(2, requests.turns + 1):
        requests = next_turn(requests, pa.table({"id": requests.ids, "reply": ["Yes"] * len(requests.ids)}))
        contexts = encode_messages(requests.messages, loaded, requests.layout.context, chat=requests.layout.chat)
        longest = max(map(len, contexts), default=0) + (turn - 1) * decoding.max_new_tokens + beside
        if limit is not None and longest > limit:
            raise ValueError(
                f"turn {turn} may need {longest:,} tokens, but the model accepts {limit:,}; set --turns to {turn - 1}"
            )


def reply_to_rows(plan: ReplyPlan, loaded: LoadedModel, rows: Sequence[int]) -> list[str]:
    """Returns the replies to some of the plan's prompts, without writing files. A missing reply is an empty string."""
    decoded = decode_rows(plan, loaded, rows)
    return [read_decoded(plan, loaded, reply).text or "" for reply in decoded]


def read_decoded(plan: ReplyPlan, loaded: LoadedModel, decoded: Decoded) -> ReplyAnswer:
    part = split_tokens(decoded.tokens, plan.ends.reader(), loaded.tokenizer)
    return answer_of(
        part.written,
        plan.requests.extent,
        num_tokens=part.num_tokens,
        truncated=decoded.truncated,
        num_reasoning_tokens=part.num_reasoning_tokens,
    )


@torch.inference_mode()
def reply_entropies(plan: ReplyPlan, loaded: LoadedModel) -> np.ndarray:
    """Samples the plan's replies and computes the mean entropy of each reply's tokens, in nats: [prompts] float64.

    The token that ends a reply counts, unless the reply was cut. A thought before the reply does not count. The value
    of an empty reply is NaN. The decoding settings must have `sample=True`.
    """
    values = np.full(len(plan.ids), np.nan)
    for row, decoded in enumerate(decode_rows(plan, loaded, range(len(plan.ids)))):
        if read_decoded(plan, loaded, decoded).text:
            logits = _logits(plan, loaded.model, plan.contexts[row], decoded)
            values[row] = float(entropies(logits, **plan.decoding.sampling).mean())
    return values


def _logits(plan: ReplyPlan, model: PreTrainedModel, context: list[int], decoded: Decoded) -> torch.Tensor:
    """Returns the logits from which the tokens of a reply were drawn: [tokens, vocabulary]."""
    tokens, ends, decoding = decoded.tokens, plan.ends, plan.decoding
    drawn = list(tokens)
    ends_itself = tokens[-1] in ends.kept or (decoding.end_after_sentence and tokens[-1] in ends.sentence)
    if not (decoded.truncated or ends_itself):
        drawn.append(tokens[-1])  # any token: only the distribution from which the end was drawn matters
    prefix = decoder_start(model) if model.config.is_encoder_decoder else []
    logits = reply_logits(model, [(context, drawn)], prefix)[0].float()
    is_end = table_of([*ends.dropped, *ends.marks, *ends.kept], logits.shape[1], logits.device)
    reply, rows, start = Reply(decoding, ends, len(drawn)), [], 0
    for step, token in enumerate(drawn):
        start = reply.reader.start
        rows.append(allowed_next(logits[step : step + 1], [reply], is_end))
        reply.add(token, is_close=False)
    return torch.cat(rows)[start:]
