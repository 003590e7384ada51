"""Computes the perplexity of people's replies in real dialogue, which shows whether tuning impaired a model.

The model reads each prompt in the run's context format, and with the run's control tag. The token that ends a reply is
not scored.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from hb_dataset.dialogue_pairs import Dialogue
from hb_metrics.collect.scoring.reply_scoring import MAX_POSITIONS, reply_nlls, reply_scoring
from hb_metrics.collect.scoring.scoring_shards import score_into_shards
from hb_metrics.collect.units import ScoringPlan
from hb_metrics.models.architecture import check_token_ids, decoder_prefix, max_positions_of
from hb_metrics.models.contexts import encode_rendered, encode_replies
from hb_metrics.models.layout import Layout, render_prompts
from hb_metrics.models.loading import LoadedModel


class DialoguePlan(NamedTuple):
    """The pairs that are short enough for the model, and the plan for scoring their replies."""

    dialogue: Dialogue
    scoring: ScoringPlan


def plan_dialogue(
    dialogue: Dialogue, loaded: LoadedModel, layout: Layout, *, max_positions: int = MAX_POSITIONS
) -> DialoguePlan:
    """Encodes prompt–reply pairs, and divides them into units of work.

    The encoded replies follow the prompts directly, without thoughts. Pairs that are too long for the model are left
    out.
    """
    if loaded.kind == "masked":
        raise ValueError(
            f"model '{loaded.name}' is a masked language model, which cannot compute the likelihood of a reply to a "
            "prompt; remove dialogue from --measurements, or pass a causal or encoder-decoder model"
        )
    model = loaded.model
    prefix = decoder_prefix(model, loaded.tokenizer)
    contexts, replies = encode_dialogue(dialogue.prompts, dialogue.replies, loaded, layout)
    for identifier, context_ids, reply in zip(dialogue.ids, contexts, replies, strict=True):
        if not (context_ids and reply):
            raise ValueError(f"the prompt or the reply of pair {identifier} has no tokens; omit the pair")
    check_token_ids(model, [*contexts, *replies])

    limit = max_positions_of(model)
    # The model predicts the last token of a reply but does not read it. An encoder reads the context.
    read = [len(prefix) + len(reply) - 1 for reply in replies]
    shapes = [
        (len(context_ids), length) if prefix else (len(context_ids) + length,)
        for context_ids, length in zip(contexts, read, strict=True)
    ]
    fitting = [row for row, shape in enumerate(shapes) if limit is None or max(shape) + (not prefix) <= limit]
    if not fitting:
        raise ValueError(
            f"all {len(shapes)} prompt–reply pairs are longer than the model's limit of {limit} tokens; pass shorter "
            "pairs, or a model that accepts more tokens"
        )
    encoded, shapes = [(contexts[row], replies[row]) for row in fitting], [shapes[row] for row in fitting]
    ids, prompts, said = ([column[row] for row in fitting] for column in dialogue[:3])
    return DialoguePlan(
        dialogue._replace(ids=ids, prompts=prompts, replies=said),
        reply_scoring(encoded, prefix, shapes, reply_nlls, model, loaded.tokenizer, max_positions),
    )


def encode_dialogue(
    prompts: Sequence[str], replies: Sequence[str], loaded: LoadedModel, layout: Layout
) -> tuple[list[list[int]], list[list[int]]]:
    """Returns the token ids of each prompt's context and of each reply."""
    tokenizer, context, with_encoder = loaded.tokenizer, layout.context, loaded.config.is_encoder_decoder
    rendered = render_prompts(prompts, loaded, layout)
    contexts = encode_rendered(rendered, tokenizer, context, is_encoder_decoder=with_encoder)
    return contexts, encode_replies(rendered, replies, tokenizer, context, is_encoder_decoder=with_encoder)


def dialogue_into_shards(plan: DialoguePlan, loaded: LoadedModel, folder: Path) -> pa.Table | None:
    ids, prompts, replies, *_ = plan.dialogue
    return score_into_shards(
        plan.scoring,
        {"id": ids, "prompt": prompts, "reply": replies},
        folder,
        loaded.model,
        scores=["log_likelihood"],
        inputs=list(zip(prompts, replies, strict=True)),
        label="dialogue",
        unit="reply",
    )
