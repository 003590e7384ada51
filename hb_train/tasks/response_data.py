from collections.abc import Sequence
from typing import TYPE_CHECKING

from datasets import Dataset

from hb_dataset.seeded_draws import seeded_generator
from hb_metrics.models.chats import DEFAULT_CHAT, chat_messages
from hb_metrics.models.contexts import encode_replies, render_messages
from hb_train.training.encoding import EncodedRows, encode_rows

if TYPE_CHECKING:
    from hb_dataset.dialogue_pairs import Dialogue
    from hb_metrics.models.contexts import ContextFormat
    from hb_metrics.models.loading import LoadedModel


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
    rows: Sequence[tuple[str, str, str]], loaded: "LoadedModel", context: "ContextFormat", max_length: int
) -> tuple[EncodedRows, int]:
    """Encodes contexts and responses, of which only the responses are learnt. Counts the dropped rows.

    If a context is too long, its beginning is cut. A row is dropped if its response is longer than half of
    `max_length`. Such a response would leave little room for the context, and would be truncated in generation.
    """
    conversations = [chat_messages(prompt, [], DEFAULT_CHAT) for _, prompt, _ in rows]
    rendered = render_messages(conversations, loaded.tokenizer, context, is_encoder_decoder=False)
    texts = [reply for _, _, reply in rows]
    replies = encode_replies(rendered, texts, loaded.tokenizer, context, is_encoder_decoder=False)
    fitting = [
        {"id": identifier, "prompt": prompt, "completion": text, "tag": "", "truncated": False}
        for (identifier, _, text), prompt, reply in zip(rows, rendered, replies, strict=True)
        if len(reply) < max_length // 2
    ]
    if not fitting:
        raise ValueError(
            f"all {len(rows):,} responses are longer than {max_length // 2} tokens; set --max_length above {max_length}"
        )
    data = Dataset.from_list(fitting)
    encoded = encode_rows(data, loaded, context=context, suffix="", with_tags=True, max_length=max_length)
    return encoded, len(rows) - len(fitting)
