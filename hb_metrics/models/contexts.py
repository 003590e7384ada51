"""Turns prompts into the input of a model, and finds the tokens that end a reply.

The input has one of four context formats:

* `plain`: The prompt and a line break, for models that only continue text. The line break is left out if the model has
  an encoder.
* `dialogpt`: The prompt and the end-of-text token, which separates the turns of DialoGPT.
* `chat`: The tokenizer's chat template, up to the assistant's turn.
* `blenderbot`: A space, and then the turns, separated by two spaces. Blenderbot was trained on this format.

Persona lines come before the prompt. In a chat, they are part of the system message. In the formats `dialogpt` and
`blenderbot`, each line begins with "your persona: ". Earlier turns come between the persona lines and the prompt. A
control tag, such as "no_bias" (see `layout`), is the last word of the prompt.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, get_args

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from hb_metrics.models.architecture import added_around, check_token_ids, max_positions_of
from hb_metrics.models.chats import (
    DEFAULT_CHAT,
    ChatOptions,
    Message,
    end_of_turn,
    find_thoughts,
    render_chats,
)
from hb_metrics.models.thoughts import CHANNEL_TOKENS, ReplyReader, Thoughts
from hb_metrics.run.blank_texts import is_blank

if TYPE_CHECKING:
    from hb_metrics.models.loading import LoadedTokenizer

ContextFormat = Literal["plain", "dialogpt", "chat", "blenderbot"]
CONTEXTS = get_args(ContextFormat)
# In these formats, the tokenizer adds special tokens. In the other formats, the text already contains them.
_SPECIAL_TOKENS_ADDED = ("plain", "blenderbot")
# Matches an id or a path whose last part contains the name. The folder of a commit (in the Hub's cache) or of a
# checkpoint does not count as the last part. The names of other folders say nothing about the model.
_DIALOGPT = re.compile(r"dialogpt[^/\\]*([/\\](snapshots[/\\]\w+|checkpoint-\d+))?[/\\]?$", re.IGNORECASE)
_PERSONA = "your persona: "
_SENTENCE_ENDS = (".", "!", "?", '."', '!"', '?"')


@dataclass(frozen=True)
class EndTokens:
    """The ids of the tokens that end a reply.

    A reply begins with the first token that contains more than white space. Beam search uses neither `pieces` nor
    `thoughts`.

    Attributes:
        dropped: Tokens that end a reply at any position and are not part of it, such as the end-of-text token.
        kept: Tokens that end a reply once it has begun, and are part of it, such as a line break.
        marks: Other special tokens. They are skipped before a reply has begun, and end the reply afterwards.
        pieces: [vocabulary] The text of each token, from which thoughts before a reply are recognised.
        thoughts: The marks of the model's thoughts. Within a thought, only its `ends` end the reply.
    """

    dropped: frozenset[int]
    kept: frozenset[int] = frozenset()
    sentence: frozenset[int] = frozenset()
    blank: frozenset[int] = frozenset()
    marks: frozenset[int] = frozenset()
    pieces: tuple[str, ...] = field(default=(), repr=False)
    thoughts: Thoughts | None = None

    def reader(self) -> ReplyReader:
        return ReplyReader(self.pieces, self.marks, self.thoughts)


def detect_context(
    model: "PreTrainedModel | LoadedTokenizer", tokenizer: PreTrainedTokenizerBase
) -> tuple[ContextFormat, str]:
    if model.config.model_type.startswith("blenderbot"):
        return "blenderbot", f"the model is of type {model.config.model_type}"
    is_named = model.config.model_type == "gpt2" and _DIALOGPT.search(str(model.config.name_or_path))
    if is_named and tokenizer.eos_token_id is not None:
        return "dialogpt", "the model's name contains DialoGPT"
    if tokenizer.chat_template:
        return "chat", "the tokenizer has a chat template"
    return "plain", "the tokenizer has no chat template"


def render_messages(
    conversations: Sequence[Sequence[Message]],
    tokenizer: PreTrainedTokenizerBase | None,
    context: ContextFormat,
    *,
    is_encoder_decoder: bool,
    chat: ChatOptions = DEFAULT_CHAT,
    thought: bool = True,
) -> list[str]:
    """Renders each conversation as the text that the model reads before its reply.

    All formats except `plain` need a tokenizer. If `thought` is false, chats are rendered up to the beginning of the
    reply, so that the model does not think first.
    """
    if context == "chat":
        assert tokenizer is not None
        return render_chats(conversations, tokenizer, chat, thought=thought)
    end = None if tokenizer is None else tokenizer.eos_token
    if context == "dialogpt" and end is None:
        raise ValueError("the tokenizer has no end-of-text token for the context 'dialogpt'; set --context plain")
    rendered = []
    for messages in conversations:
        system = [message["content"] for message in messages if message["role"] == "system"]
        turns = [message["content"] for message in messages if message["role"] != "system"]
        lines = [line for content in system for line in content.split("\n")]
        personas = [_PERSONA + line for line in lines]
        if context == "dialogpt":
            rendered.append("\n".join([*personas, str(end).join(turns)]) + str(end))
        elif context == "blenderbot":
            rendered.append(" " + "  ".join([*personas, *turns]))
        else:
            rendered.append("\n".join([*lines, *turns]) + ("" if is_encoder_decoder else "\n"))
    return rendered


def encode_messages(
    conversations: Sequence[Sequence[Message]], loaded: "LoadedTokenizer", context: ContextFormat, **how: Any
) -> list[list[int]]:
    """Returns the token ids that the model reads before its reply. `how` are the options of `render_messages`."""
    tokenizer, has_encoder = loaded.tokenizer, loaded.config.is_encoder_decoder
    rendered = render_messages(conversations, tokenizer, context, is_encoder_decoder=has_encoder, **how)
    return encode_rendered(rendered, tokenizer, context, is_encoder_decoder=has_encoder)


def with_tag(text: str, tag: str | None) -> str:
    return text if tag is None else f"{text} {tag}"


def encode_rendered(
    rendered: Sequence[str], tokenizer: PreTrainedTokenizerBase, context: ContextFormat, *, is_encoder_decoder: bool
) -> list[list[int]]:
    encoded = _tokens(tokenizer, list(rendered), special=context in _SPECIAL_TOKENS_ADDED)
    return encoded if context != "plain" or is_encoder_decoder else _without_end(encoded, rendered, tokenizer)


def encode_replies(
    rendered: Sequence[str],
    replies: Sequence[str],
    tokenizer: PreTrainedTokenizerBase,
    context: ContextFormat,
    *,
    is_encoder_decoder: bool,
) -> list[list[int]]:
    alone = _tokens(tokenizer, list(replies), special=False)
    if is_encoder_decoder:
        return alone
    special = context in _SPECIAL_TOKENS_ADDED
    contexts = encode_rendered(rendered, tokenizer, context, is_encoder_decoder=False)
    whole_texts = [a + b for a, b in zip(rendered, replies, strict=True)]
    together = _tokens(tokenizer, whole_texts, special=special)
    if special:
        together = _without_end(together, whole_texts, tokenizer)
    # The first tokens of a reply may depend on the context, so the context and the reply are encoded together. However,
    # if joint encoding changes the tokens of the context, the reply is encoded alone.
    return [
        whole[len(given) :] if whole[: len(given)] == given else separate
        for whole, given, separate in zip(together, contexts, alone, strict=True)
    ]


def check_lengths(
    contexts: Sequence[Sequence[int]],
    ids: Sequence[str],
    model: PreTrainedModel,
    max_new_tokens: int,
    max_reasoning_tokens: int = 0,
) -> None:
    check_token_ids(model, contexts)
    limit = max_positions_of(model)
    for identifier, context in zip(ids, contexts, strict=True):
        if not context:
            raise ValueError(f"the context of prompt {identifier} has no tokens; omit it, or set --context chat")
        # An encoder reads only the context, and the decoder writes the reply, so their lengths are not added.
        beside = 0 if model.config.is_encoder_decoder else max_new_tokens + max_reasoning_tokens
        if limit is not None and max(len(context) + beside, max_new_tokens) > limit:
            raise ValueError(
                f"the model accepts only {limit} tokens, but prompt {identifier} may need more: {len(context)} for its "
                f"context, up to {max_new_tokens} for its reply, and up to {max_reasoning_tokens} for its thought; "
                "reduce --max_new_tokens (or personas or max_reasoning_tokens), or use a model that accepts more tokens"
            )


def end_tokens(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    context: ContextFormat,
    *,
    whole: bool = False,
    chat: ChatOptions = DEFAULT_CHAT,
) -> EndTokens:
    """Finds the tokens that end a reply. Unless `whole` is true, they include line breaks (Smith et al., 2022, A.5)."""
    configured = model.generation_config.eos_token_id
    dropped = {tokenizer.eos_token_id, *(configured if isinstance(configured, list) else [configured])}
    if context == "chat":
        dropped |= end_of_turn(tokenizer, chat)
    # `all_special_ids` does not contain all special tokens, so the added tokens are also searched.
    special = {token for token, added in tokenizer.added_tokens_decoder.items() if added.special}
    special |= set(tokenizer.all_special_ids) - {tokenizer.unk_token_id}
    size = model.get_output_embeddings().weight.shape[0]
    pieces = tokenizer.batch_decode([[token] for token in range(min(size, len(tokenizer)))])
    dropped = {token for token in dropped if token is not None and token < size}
    marks = {token for token in special - dropped - {tokenizer.unk_token_id} if token < size}
    thoughts = find_thoughts(tokenizer, chat) if context == "chat" else None
    if thoughts is not None:
        named = (thoughts.open, thoughts.close) if thoughts.open else CHANNEL_TOKENS
        of_thoughts = {token for token, piece in enumerate(pieces) if piece.strip() in named}
        thoughts = replace(thoughts, ends=frozenset((dropped | marks) - of_thoughts))
        if thoughts.open:
            dropped, marks = dropped - of_thoughts, marks - of_thoughts
        else:  # the model is gpt-oss, whose reply ends at any special token
            dropped, marks = dropped | marks, set()
    text = [token for token in range(len(pieces)) if token not in dropped and token not in marks]
    return EndTokens(
        dropped=frozenset(dropped),
        kept=frozenset() if whole else frozenset(token for token in text if "\n" in pieces[token]),
        sentence=frozenset(
            token for token in text if pieces[token].rstrip().endswith(_SENTENCE_ENDS) and "\n" not in pieces[token]
        ),
        blank=frozenset(token for token in text if is_blank(pieces[token])),
        marks=frozenset(marks),
        pieces=tuple(pieces),
        thoughts=thoughts,
    )


def reply_end(tokenizer: PreTrainedTokenizerBase, context: ContextFormat) -> int | None:
    if context == "chat":
        for token in end_of_turn(tokenizer, DEFAULT_CHAT):
            return token
    return tokenizer.eos_token_id


def reply_text(tokens: Sequence[int], tokenizer: PreTrainedTokenizerBase) -> str:
    return tokenizer.decode(tokens, skip_special_tokens=True).strip().split("\n", 1)[0].strip()


def _without_end(encoded: list[list[int]], texts: Sequence[str], tokenizer: PreTrainedTokenizerBase) -> list[list[int]]:
    """Removes the tokens that some tokenizers add after every text, so that a reply can follow."""
    number = len(added_around(tokenizer, max(texts, key=len, default=""))[1])
    return [tokens[: len(tokens) - number] for tokens in encoded]


def _tokens(tokenizer: PreTrainedTokenizerBase, texts: list[str], *, special: bool = True) -> list[list[int]]:
    if not texts:
        return []
    encoded = tokenizer(texts, add_special_tokens=special, return_attention_mask=False)["input_ids"]
    return [list(tokens) for tokens in encoded]
