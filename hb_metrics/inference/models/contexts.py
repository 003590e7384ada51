"""How a prompt becomes what a model is given, and where its reply ends.

One explicit setting, recorded with the results:

* `plain`: the prompt and a line break, for models that only continue text; an encoder is given the prompt as it is.
* `dialogpt`: the prompt and the end-of-text token, which separates the turns of DialoGPT.
* `chat`: the tokenizer's chat template, up to where the assistant speaks.
* `blenderbot`: turns as Blenderbot's encoder was trained on them, set off by two spaces, after a leading space.

A control tag ("no_bias", see `bias_tags.py`) comes after the last words of the prompt, before what ends the turn.

Persona lines go before the prompt: as lines of their own, as `your persona: …` where models were trained on ConvAI2's
format (dialogpt, blenderbot), and as the system message of a chat. Earlier turns go between these and the prompt: as
lines, as DialoGPT's or Blenderbot's turns, and as messages of a chat.
"""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, get_args

import yaml
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from hb_dataset.seeded_draws import seeded_generator
from hb_metrics.inference.models.chats import (
    DEFAULT_CHAT,
    ChatOptions,
    end_of_turn,
    find_thoughts,
    render_chats,
)
from hb_metrics.inference.models.loading import max_positions_of
from hb_metrics.inference.models.thoughts import ReplyReader, Thoughts

ContextFormat = Literal["plain", "dialogpt", "chat", "blenderbot"]
CONTEXTS = get_args(ContextFormat)
PERSONAS_FILE = Path(__file__).parent / "personas.yaml"
# A chat template and DialoGPT's turns have their special tokens; in these formats the tokenizer adds its own.
_SPECIAL_TOKENS_ADDED = ("plain", "blenderbot")
_NOT_IN_A_LINE = ("Cc", "Cs", "Zl", "Zp")  # line breaks, other control characters, half characters
_SENTENCE_ENDS = (".", "!", "?", '."', '!"', '?"')

UNKNOWN_ERROR = "context '{context}' is not known; allowed: auto, {allowed}"
NO_END_ERROR = (
    "context 'dialogpt', but the tokenizer has no end-of-text token, which ends a turn; give another --context"
)
TOO_LONG_ERROR = (
    "the context of prompt {id} is {length} tokens long, and with a reply of up to {reply} that is more than the "
    "{limit} tokens the model takes; give fewer persona lines, or a smaller --max_new_tokens{or_less}"
)
LONG_CONTEXT_ERROR = (
    "the context of prompt {id} is {length} tokens long, more than the {limit} tokens the model's encoder takes; give "
    "fewer persona lines, or a model that takes more"
)
LONG_REPLY_ERROR = (
    "max_new_tokens is {reply}, more than the {limit} tokens the model's decoder takes; give a smaller "
    "--max_new_tokens, or a model that takes more"
)
NO_TOKEN_ERROR = "the tokenizer makes no token of the context of prompt {id}; give another --context, or leave it out"
MISMATCH_ERROR = (
    "the tokenizer gives token {token} in the context of prompt {id} and the model knows {size} tokens: they do not "
    "belong together; load the tokenizer that the model was trained with"
)
FEW_PERSONAS_ERROR = (
    "the file has {number} persona lines, fewer than the {asked} asked for; write more, or ask for fewer"
)
BAD_SENTENCES_ERROR = "{path}: {problem}; write `{key}:` and a list of sentences, each once"


@dataclass(frozen=True)
class EndTokens:
    """Tokens that end a reply; token ids ascending.

    Attributes:
        dropped: End a reply wherever they come, and are not part of it, such as the end-of-text token.
        kept: End a reply that has begun, as its last token, such as a line break.
        sentence: End a sentence; used by `Decoding.end_after_sentence`.
        blank: Hold no text: with these alone no reply has begun.
        marks: Other special tokens. Some models write one before their reply: it is passed over. One after it ends it.
        pieces: [vocabulary] the text of each token, by which thoughts and headers before a reply are read. Empty:
            nothing is read. Not with beams.
        thoughts: How the model is known to mark its thoughts, where no other token ends anything; `None`: it is not
            known to think. Not with beams.
    """

    dropped: tuple[int, ...]
    kept: tuple[int, ...] = ()
    sentence: tuple[int, ...] = ()
    blank: tuple[int, ...] = ()
    marks: tuple[int, ...] = ()
    pieces: tuple[str, ...] = field(default=(), repr=False)
    thoughts: Thoughts | None = None

    def reader(self) -> ReplyReader:
        """A new reader of what one reply begins with."""
        return ReplyReader(self.pieces, frozenset(self.marks), self.thoughts)


def detect_context(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> tuple[ContextFormat, str]:
    """Which format suits a model, and why in words for the report."""
    if model.config.model_type.startswith("blenderbot"):
        return "blenderbot", f"the model is of type {model.config.model_type}"
    if "dialogpt" in str(model.config.name_or_path).lower() and tokenizer.eos_token_id is not None:
        return "dialogpt", "the model's name says DialoGPT"
    if tokenizer.chat_template:
        return "chat", "the tokenizer has a chat template"
    return "plain", "the tokenizer has no chat template"


def encode_contexts(
    texts: Sequence[str],
    personas: Sequence[Sequence[str]],
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    context: ContextFormat,
    tag: str | None = None,
    chat: ChatOptions = DEFAULT_CHAT,
    earlier: Sequence[Sequence[str]] | None = None,
) -> list[list[int]]:
    """The token ids a model is given for each prompt.

    Args:
        texts: The prompts.
        personas: The persona lines of each prompt; may be empty.
        model: The model.
        tokenizer: Its tokenizer.
        context: The format.
        tag: The control tag at the end of each prompt (see `bias_tags.py`); `None`: none.
        chat: What the chat template is given beside the prompt.
        earlier: What was said before each prompt, by the user and the model in turn; `None`: nothing.

    Returns:
        Token ids of each context.

    Raises:
        ValueError: The format is unknown, or the tokenizer lacks what it needs.
    """
    is_encoder_decoder = model.config.is_encoder_decoder
    rendered = render_contexts(
        texts, personas, tokenizer, context, is_encoder_decoder=is_encoder_decoder, tag=tag, chat=chat, earlier=earlier
    )
    return encode_rendered(rendered, tokenizer, context, is_encoder_decoder=is_encoder_decoder)


def render_contexts(
    texts: Sequence[str],
    personas: Sequence[Sequence[str]],
    tokenizer: PreTrainedTokenizerBase,
    context: ContextFormat,
    *,
    is_encoder_decoder: bool,
    tag: str | None = None,
    chat: ChatOptions = DEFAULT_CHAT,
    earlier: Sequence[Sequence[str]] | None = None,
    thought: bool = True,
) -> list[str]:
    """Each prompt as the text a model is given, with everything but the tokens that its tokenizer adds by itself.

    Arguments and errors as `encode_contexts`; the weights are not needed, only whether the model has an encoder.
    Without `thought`, a chat ends where the words of the reply begin, if the model would think before.
    """
    if context not in CONTEXTS:
        raise ValueError(UNKNOWN_ERROR.format(context=context, allowed=", ".join(CONTEXTS)))
    texts = [with_tag(text, tag) for text in texts]
    if context == "chat":
        return render_chats(texts, personas, tokenizer, chat, earlier=earlier, thought=thought)
    turns = [[text] for text in texts]
    if earlier is not None:
        turns = [[*before, text] for before, text in zip(earlier, texts, strict=True)]
    if context == "dialogpt":
        end = tokenizer.eos_token
        if end is None:
            raise ValueError(NO_END_ERROR)
        return [text + end for text in _with_persona_lines([end.join(said) for said in turns], personas, "\n")]
    if context == "blenderbot":
        return [" " + text for text in _with_persona_lines(["  ".join(said) for said in turns], personas, "  ")]
    joined = ["\n".join([*mine, *said]) for said, mine in zip(turns, personas, strict=True)]
    return joined if is_encoder_decoder else [text + "\n" for text in joined]


def with_tag(text: str, tag: str | None) -> str:
    """A prompt with its control tag after its last word; `None`: there is none."""
    return text if tag is None else f"{text} {tag}"


def encode_rendered(
    rendered: Sequence[str], tokenizer: PreTrainedTokenizerBase, context: ContextFormat, *, is_encoder_decoder: bool
) -> list[list[int]]:
    """The token ids of what `render_contexts` returns."""
    encoded = _tokens(tokenizer, list(rendered), special=context in _SPECIAL_TOKENS_ADDED)
    return encoded if context != "plain" or is_encoder_decoder else _left_open(encoded, tokenizer)


def encode_replies(
    rendered: Sequence[str],
    replies: Sequence[str],
    tokenizer: PreTrainedTokenizerBase,
    context: ContextFormat,
    *,
    is_encoder_decoder: bool,
) -> list[list[int]]:
    """The token ids of each reply as the model would write it after its context, without a token that ends it.

    Args:
        rendered: What `render_contexts` returns.
        replies: The replies.
        tokenizer: The model's tokenizer.
        context: The format.
        is_encoder_decoder: Whether the replies are written by a decoder of its own.

    Returns:
        Token ids of each reply. A context and its reply together are the context's own tokens and these.
    """
    alone = _tokens(tokenizer, list(replies), special=False)
    if is_encoder_decoder:
        return alone
    special = context in _SPECIAL_TOKENS_ADDED
    contexts = encode_rendered(rendered, tokenizer, context, is_encoder_decoder=False)
    together = _tokens(tokenizer, [a + b for a, b in zip(rendered, replies, strict=True)], special=special)
    if special:
        together = _left_open(together, tokenizer)
    # Where a word's tokens depend on what comes before it, take them from the whole; but never change the context.
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
    """Raises a ValueError that names the first prompt whose context, thought and reply the model cannot take."""
    size = model.get_input_embeddings().num_embeddings
    for identifier, context in zip(ids, contexts, strict=True):
        if not context:
            raise ValueError(NO_TOKEN_ERROR.format(id=identifier))
        if max(context) >= size:
            raise ValueError(MISMATCH_ERROR.format(token=max(context), id=identifier, size=size))
    limit = max_positions_of(model)
    if limit is None:
        return
    beside, message = max_new_tokens + max_reasoning_tokens, TOO_LONG_ERROR
    if model.config.is_encoder_decoder:  # the context and the reply have positions of their own
        beside, message = 0, LONG_CONTEXT_ERROR
        if max_new_tokens > limit:
            raise ValueError(LONG_REPLY_ERROR.format(reply=max_new_tokens, limit=limit))
    for identifier, context in zip(ids, contexts, strict=True):
        if len(context) + beside > limit:
            or_less = " or --max_reasoning_tokens" if max_reasoning_tokens else ""
            raise ValueError(
                message.format(id=identifier, length=len(context), reply=beside, limit=limit, or_less=or_less)
            )


def end_tokens(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    context: ContextFormat,
    *,
    whole: bool = False,
    chat: ChatOptions = DEFAULT_CHAT,
) -> EndTokens:
    """What ends a reply: end tokens, and unless `whole`, a line break: one line of dialogue (Smith et al., 2022, A.5)."""
    configured = model.generation_config.eos_token_id
    dropped = {tokenizer.eos_token_id, *(configured if isinstance(configured, list) else [configured])}
    if context == "chat":
        dropped |= end_of_turn(tokenizer, chat)
    # `all_special_ids` are those with a name; decoding leaves out all that are marked special.
    special = {token for token, added in tokenizer.added_tokens_decoder.items() if added.special}
    special |= set(tokenizer.all_special_ids) - {tokenizer.unk_token_id}
    size = model.get_output_embeddings().weight.shape[0]
    pieces = tokenizer.batch_decode([[token] for token in range(min(size, len(tokenizer)))])
    dropped = {token for token in dropped if token is not None and token < size}
    marks = {token for token in special - dropped - {tokenizer.unk_token_id} if token < size}
    thoughts = find_thoughts(tokenizer, chat) if context == "chat" else None
    if thoughts is not None:
        of_thoughts = {token for token, piece in enumerate(pieces) if piece.strip() in thoughts.mark_tokens}
        thoughts = replace(thoughts, ends=tuple(sorted((dropped | marks) - of_thoughts)))
        if thoughts.open:
            dropped, marks = dropped - of_thoughts, marks - of_thoughts
        else:  # in the final channel of gpt-oss any of its tokens ends the reply
            dropped, marks = dropped | marks, set()
    text = [token for token in range(len(pieces)) if token not in dropped and token not in marks]
    return EndTokens(
        dropped=tuple(sorted(dropped)),
        kept=() if whole else tuple(token for token in text if "\n" in pieces[token]),
        sentence=tuple(
            token for token in text if pieces[token].rstrip().endswith(_SENTENCE_ENDS) and "\n" not in pieces[token]
        ),
        blank=tuple(token for token in text if not pieces[token].strip()),
        marks=tuple(sorted(marks)),
        pieces=tuple(pieces),
        thoughts=thoughts,
    )


def reply_end(tokenizer: PreTrainedTokenizerBase, context: ContextFormat) -> int | None:
    """The token with which a model ends its reply: the chat template's end of turn, or the end-of-text token."""
    if context == "chat":
        for token in end_of_turn(tokenizer, DEFAULT_CHAT):
            return token
    return tokenizer.eos_token_id


def reply_text(tokens: Sequence[int], tokenizer: PreTrainedTokenizerBase, *, whole: bool = False) -> str:
    """The text of a reply, without the white space around it: its first line, or the whole."""
    text = tokenizer.decode(tokens, skip_special_tokens=True).strip()
    return text if whole else text.split("\n", 1)[0].strip()


def read_personas(path: str | Path = PERSONAS_FILE) -> list[str]:
    """Reads persona sentences from YAML; errors as `read_sentences`."""
    return read_sentences(path, "personas")


def read_sentences(path: str | Path, key: str) -> list[str]:
    """Reads the list of sentences under a key of a YAML file.

    Args:
        path: The file.
        key: What the sentences are, in the plural, such as "personas".

    Returns:
        The sentences, in their order.

    Raises:
        ValueError: The file is not such a list, or a sentence is empty or there twice.
        OSError: It cannot be read.
    """
    try:
        content = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # such as a date that is none
        reason = " ".join(str(error).split())
        problem = f"is not valid YAML ({reason})"
        raise ValueError(BAD_SENTENCES_ERROR.format(path=path, problem=problem, key=key)) from error
    sentences = content.get(key) if isinstance(content, dict) else None
    if not isinstance(sentences, list) or not sentences:
        raise ValueError(BAD_SENTENCES_ERROR.format(path=path, problem=f"has no list of {key}", key=key))
    for number, line in enumerate(sentences, start=1):
        if (
            not isinstance(line, str)
            or not line.strip()
            or any(unicodedata.category(c) in _NOT_IN_A_LINE for c in line)
        ):
            problem = f"{key.removesuffix('s')} {number} is {line!r}"
            raise ValueError(BAD_SENTENCES_ERROR.format(path=path, problem=problem, key=key))
        if line in sentences[: number - 1]:
            problem = f"{line!r} is there twice"
            raise ValueError(BAD_SENTENCES_ERROR.format(path=path, problem=problem, key=key))
    return sentences


def draw_personas(ids: Sequence[str], personas: Sequence[str], number: int, *, seed: int) -> list[list[str]]:
    """Draws persona lines for each prompt, by its id and the seed alone, whatever the order of the prompts.

    Args:
        ids: The prompts' ids.
        personas: The sentences to draw from.
        number: How many for each prompt, none twice.
        seed: Another seed, other lines.

    Returns:
        The lines of each prompt.

    Raises:
        ValueError: There are fewer sentences than asked for.
    """
    if number < 0 or number > len(personas):
        raise ValueError(FEW_PERSONAS_ERROR.format(number=len(personas), asked=number))
    if not number:
        return [[] for _ in ids]
    drawn = (seeded_generator(seed, "personas", name).choice(len(personas), number, replace=False) for name in ids)
    return [[personas[index] for index in indices] for indices in drawn]


def _left_open(encoded: list[list[int]], tokenizer: PreTrainedTokenizerBase) -> list[list[int]]:
    """Without the end token that some tokenizers close every text with; a reply continues an open one."""
    return [tokens[:-1] if len(tokens) > 1 and tokens[-1] == tokenizer.eos_token_id else tokens for tokens in encoded]


def _with_persona_lines(texts: Sequence[str], personas: Sequence[Sequence[str]], separator: str) -> list[str]:
    """Each text behind its persona lines as ConvAI2 writes them."""
    return [
        separator.join([*(f"your persona: {line}" for line in mine), text])
        for text, mine in zip(texts, personas, strict=True)
    ]


def _tokens(tokenizer: PreTrainedTokenizerBase, texts: list[str], *, special: bool = True) -> list[list[int]]:
    if not texts:
        return []
    encoded = tokenizer(texts, add_special_tokens=special, return_attention_mask=False)["input_ids"]
    return [list(tokens) for tokens in encoded]
