"""Computes the probability of each option as a model's answer to a prompt.

The probability of an option is the probability that the reply begins with its text, in one of the forms in which models
write it ("yes" and "Yes"). It is computed token by token, and nothing is sampled. Prompts that begin alike share their
computation on prefix trees.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from hb_metrics.collect.scoring.perplexity import most_tokens
from hb_metrics.collect.scoring.reply_scoring import reply_nlls, reply_scoring, shapes_of
from hb_metrics.collect.scoring.scoring_paths import on_trees
from hb_metrics.collect.units import ScoringPlan
from hb_metrics.models.architecture import check_token_ids, decoder_prefix
from hb_metrics.models.chats import Message
from hb_metrics.models.contexts import encode_rendered, encode_replies, render_messages
from hb_metrics.models.layout import Layout
from hb_metrics.models.loading import LoadedModel
from hb_metrics.reply_checks.first_tokens import forms_of


class OptionPlan(NamedTuple):
    """The options to score. `columns` contains the strings to store with each score, one per form of an option."""

    columns: dict[str, list[str]]
    scores: ScoringPlan
    scoring: str
    scoring_reason: str


def plan_options(
    ids: Sequence[str],
    conversations: Sequence[Sequence[Message]],
    options: Sequence[Sequence[str]],
    loaded: LoadedModel,
    layout: Layout,
) -> OptionPlan:
    """Encodes the options of each prompt, and divides them into units of work.

    The answer follows the prompt directly, without a thought.

    Args:
        ids: [prompts] The ids of the prompts.
        conversations: [prompts] The messages up to the answers.
        options: [prompts] The options of each prompt.
        loaded: The model.
        layout: The form in which the model reads prompts.

    Raises:
        ValueError: A prompt with an option is longer than the model allows, or has no tokens.
    """
    tokenizer = loaded.tokenizer
    how: Any = {"context": layout.context, "is_encoder_decoder": loaded.config.is_encoder_decoder}
    rendered = render_messages(conversations, tokenizer, chat=layout.chat, thought=False, **how)
    contexts = encode_rendered(rendered, tokenizer, **how)
    written = [
        (row, option, form) for row, names in enumerate(options) for option in names for form in forms_of(option)
    ]
    prompts = [rendered[row] for row, _, _ in written]
    replies = encode_replies(prompts, [form for _, _, form in written], tokenizer, **how)
    pairs = [(contexts[row], reply) for (row, _, _), reply in zip(written, replies, strict=True)]
    limit = most_tokens(loaded.model, tokenizer)
    for (row, _, _), (context, reply) in zip(written, pairs, strict=True):
        if not context or not reply or len(context) + len(reply) > limit:
            raise ValueError(
                f"prompt {ids[row]} and an option have {len(context)} and {len(reply)} tokens, but the model "
                f"needs at least 1 for each, and accepts {limit} together; shorten the prompt, or omit it"
            )
    check_token_ids(loaded.model, [[*context, *reply] for context, reply in pairs])
    columns = {
        "id": [f"{ids[row]}-{number}" for number, (row, _, _) in enumerate(written)],
        "prompt_id": [ids[row] for row, _, _ in written],
        "text": prompts,
        "option": [option for _, option, _ in written],
        "form": [form for _, _, form in written],
    }
    prefix = decoder_prefix(loaded.model, tokenizer)
    scores = reply_scoring(pairs, prefix, shapes_of(pairs, prefix), reply_nlls, loaded.model, tokenizer)
    if not prefix:
        scores = on_trees(scores, loaded.model, pairs)
    return OptionPlan(columns, scores, scores.scoring, scores.scoring_reason)
