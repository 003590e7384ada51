from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from datasets import Dataset

from hb_dataset.seeded_draws import seeded_generator
from hb_metrics.models.chats import DEFAULT_CHAT, chat_messages
from hb_metrics.models.contexts import encode_rendered, encode_replies, render_messages, reply_end
from hb_train.training.encoding import add_row, last_tokens, length_limit

if TYPE_CHECKING:
    from hb_dataset.dialogue_pairs import Dialogue
    from hb_metrics.models.contexts import ContextFormat
    from hb_metrics.models.loading import LoadedTokenizer


class ResponseRows(NamedTuple):
    """Tokenized rows. `num_too_long` counts the rows that were dropped because their response is too long."""

    dataset: Dataset
    num_cut: int
    num_too_long: int


def split_pairs(
    dialogue: "Dialogue", num_test: int, seed: int
) -> tuple[list[tuple[str, str, str]], list[tuple[str, str, list[str]]]]:
    """Splits prompt–reply pairs into training and test pairs. No prompt is in both splits.

    The seed and the words of the prompts determine the `num_test` prompts of the test split.
    """
    by_prompt: dict[str, list[tuple[str, str]]] = {}
    for identifier, prompt, reply in zip(dialogue.ids, dialogue.prompts, dialogue.replies, strict=True):
        by_prompt.setdefault(prompt, []).append((identifier, reply))
    if num_test >= len(by_prompt):
        raise ValueError(
            f"num_test uses {num_test:,} of the {len(by_prompt):,} different prompts, so none is left for training; "
            "lower --num_test or raise --num_pairs"
        )
    order = sorted(by_prompt, key=lambda prompt: (seeded_generator(seed, "response test", prompt).random(), prompt))
    in_test = set(order[:num_test])
    train: list[tuple[str, str, str]] = []
    test: list[tuple[str, str, list[str]]] = []
    for prompt, replies in by_prompt.items():
        if prompt in in_test:
            test.append((replies[0][0], prompt, [reply for _, reply in replies]))
        else:
            train.extend((identifier, prompt, reply) for identifier, reply in replies)
    return train, test


def encode_responses(
    rows: Sequence[tuple[str, str, str]], loaded: "LoadedTokenizer", context: "ContextFormat", max_length: int
) -> ResponseRows:
    """Encodes contexts and responses. Only the responses are learnt.

    If a context is too long, its beginning is cut. A row is dropped if its response is longer than half of
    `max_length`. Such a response would leave little room for the context, and would be truncated in generation.
    """
    tokenizer, limit = loaded.tokenizer, length_limit(loaded, max_length)
    assert limit is not None
    conversations = [chat_messages(prompt, [], DEFAULT_CHAT) for _, prompt, _ in rows]
    rendered = render_messages(conversations, tokenizer, context, is_encoder_decoder=False)
    contexts = encode_rendered(rendered, tokenizer, context, is_encoder_decoder=False)
    replies = encode_replies(rendered, [reply for _, _, reply in rows], tokenizer, context, is_encoder_decoder=False)
    end, start_tokens = reply_end(tokenizer, context), set(tokenizer.all_special_ids)
    columns: dict[str, list[Any]] = {}
    num_cut = num_too_long = 0
    for whole, reply in zip(contexts, replies, strict=True):
        if len(reply) >= max_length // 2:
            num_too_long += 1
            continue
        learnt = reply if end is None else [*reply, end]
        cut = last_tokens(whole, limit - len(learnt), start_tokens)
        num_cut += len(cut) < len(whole)
        add_row(columns, cut, learnt)
    return ResponseRows(Dataset.from_dict(columns), num_cut, num_too_long)
