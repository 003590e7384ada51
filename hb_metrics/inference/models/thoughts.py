"""Separates a model's reply from the thoughts and marks around it.

Users do not read thoughts, so thoughts are not measured. A model may also write marks around its answer, the header of
its turn, or another speaker's turn. None of these is part of its reply.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

# The marks with which these models begin and end a thought, in this order: Qwen3, DeepSeek-R1 and most others;
# Magistral; Seed-OSS; Kimi; Gemma 4; Sky-T1; Command A; MedGemma; MiniMax; EXAONE Deep and models tuned with GRPO.
THOUGHT_MARKS = (
    ("<think>", "</think>"),
    ("[THINK]", "[/THINK]"),
    ("<seed:think>", "</seed:think>"),
    ("◁think▷", "◁/think▷"),
    ("<|channel>", "<channel|>"),
    ("<|begin_of_thought|>", "<|end_of_thought|>"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("<unused94>", "<unused95>"),
    ("<mm:think>", "</mm:think>"),
    *((f"<{name}>", f"</{name}>") for name in ("reasoning", "thought", "thoughts", "thinking", "reflection")),
    *((f"<{name}>", f"</{name}>") for name in ("reason", "analysis", "scratchpad", "inner_monologue")),
)
# Plain words with which Granite 3.2, and gpt-oss without its marks, begin and end a thought. They count only if the
# text begins with the first phrase and also contains the second.
_SPOKEN_THOUGHTS = (("Here is my thought process:", "Here is my response:"), ("analysis", "assistantfinal"))
# Marks around the answer.
_WRAPPERS = (
    ("<|START_RESPONSE|>", "<|END_RESPONSE|>"),
    ("<|START_TEXT|>", "<|END_TEXT|>"),
    ("<|begin_of_solution|>", "<|end_of_solution|>"),
    *((f"<{name}>", f"</{name}>") for name in ("answer", "response", "reply", "final_answer", "output", "solution")),
)
# The header of the assistant's turn, which some models write themselves.
_HEADERS = (
    "<|start_header_id|>assistant<|end_header_id|>",
    "<|im_start|>assistant",
    "<|start|>assistant",
    "<|assistant|>",
    "<|Assistant|>",
    "<｜Assistant｜>",
    "<start_of_turn>model",
    "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>",
    "### Assistant:",
    "### Response:",
    "ASSISTANT:",
    "Assistant:",
    "assistant\n",
)
_LEADS = (*(opening for opening, _ in (*THOUGHT_MARKS, *_WRAPPERS)), *_HEADERS)
# Matches the beginning of another speaker's turn, in the formats of Vicuna, Alpaca, Llama, ChatML and others.
_NEXT_TURN = re.compile(
    r"<\|im_start\|>|<\|start_header_id\|>|<\|(?:user|User|system)\|>|<｜User｜>|<start_of_turn>|\[INST\]"
    r"|(?:^|\s)(?:USER|HUMAN):(?=\s|$)|(?:^|\n)[ \t]*(?:User|Human|<human>):(?=\s|$)"
    r"|(?:^|\n)[ \t]*###? ?(?:Human|User|Instruction|Input)\b|(?:^|\n)(?:user|human)\n"
)
# gpt-oss writes messages to channels. The message in the final channel is the reply.
FINAL_CHANNEL = "<|channel|>final<|message|>"
CHANNEL_TOKENS = ("<|channel|>", "<|message|>", "<|start|>", "<|end|>", "<|constrain|>")
_MESSAGE = re.compile(r"<\|message\|>(.*?)(?=<\|end\|>|<\|start\|>|<\|channel\|>|$)", re.DOTALL)
_LABEL = "thought\n"  # the word after the mark, in Gemma 4 and MedGemma
_TAG = re.compile(r"<[^<>\n]{1,40}>|\[[^\[\]\n]{1,40}\]|◁[^▷\n]{1,40}▷")
# A tag is common if at least this number of replies, and at least this share of all replies, begin with it.
_LEAST_ALIKE, _SHARE_ALIKE = 3, 0.05


@dataclass(frozen=True)
class Thoughts:
    """The marks of a model's thoughts.

    Attributes:
        open: The mark at the beginning of a thought. If it is empty, all text before `close` is a thought.
        is_opened: Whether the context ends within a thought, which the model then continues.
        is_closed: Whether the context ends with a finished thought, so the model does not think.
        ends: The ids of tokens that end the reply even within a thought.
    """

    open: str
    close: str
    is_opened: bool
    is_closed: bool
    ends: tuple[int, ...] = ()

    @property
    def mark_tokens(self) -> set[str]:
        """Returns the texts of the tokens that mark thoughts. These tokens do not end a reply."""
        return {self.open, self.close} if self.open else set(CHANNEL_TOKENS)


class Written(NamedTuple):
    """The parts of a model's text.

    Attributes:
        is_open: Whether the thought is unfinished, so there is no reply.
        invents_turn: Whether the model also wrote another speaker's turn, which `reply` does not include.
    """

    reply: str
    reasoning: str | None = None
    is_open: bool = False
    invents_turn: bool = False


def read_written(text: str) -> Written:
    """Splits a model's text into a thought and a reply.

    All text before the last closing mark is a thought, even if the opening mark is missing because it is part of the
    prompt.
    """
    rest, reasoning, is_open = _without_header(text), None, False
    if rest.startswith("<|channel|>") or FINAL_CHANNEL in rest:
        before, final, rest = rest.rpartition(FINAL_CHANNEL)
        reasoning, is_open = _channels(before if final else rest), not final
    else:
        for opening, closing in (*THOUGHT_MARKS, *_SPOKEN_THOUGHTS):
            spoken = (opening, closing) in _SPOKEN_THOUGHTS
            before, closed, after = rest.rpartition(closing)
            begins = rest.startswith(opening)
            if closed and (begins or not spoken):
                is_open = opening in after and not spoken
                reasoning, rest = _without_marks(rest if is_open else before, opening, closing), after
            elif begins and not spoken:
                reasoning, is_open = _without_marks(rest, opening, closing), True
            if (closed and (begins or not spoken)) or is_open:
                break
    if is_open:
        return Written("", reasoning or None, True)
    rest = _without_header(rest)
    for opening, closing in _WRAPPERS:
        if rest.startswith(opening):
            rest = rest.removeprefix(opening).partition(closing)[0].strip()
    turn = _NEXT_TURN.search(rest)
    return Written((rest if turn is None else rest[: turn.start()]).strip(), reasoning or None, False, turn is not None)


class ReplyReader:
    """Reads a model's text token by token, and finds the beginning of its reply.

    Attributes:
        is_thinking: Whether the tokens so far end within a thought.
        start: The number of tokens up to the end of the last thought.
    """

    def __init__(self, pieces: Sequence[str], passed: frozenset[int], thoughts: Thoughts | None) -> None:
        """Creates a reader.

        `pieces` contains the text of every token in the vocabulary. `passed` contains the tokens to skip before a
        reply.
        """
        self._pieces, self._passed, self._thoughts = pieces, passed, thoughts
        self.is_thinking = thoughts is not None and thoughts.is_opened
        self.has_begun = False
        self.start = 0
        self._close = "" if thoughts is None else thoughts.close
        self._text, self._num_read = "", 0

    @property
    def is_done(self) -> bool:
        return self.has_begun and self._thoughts is None

    def read(self, token: int) -> None:
        self._num_read += 1
        piece = self._pieces[token] if token < len(self._pieces) else ""
        if self.is_thinking:
            self._text += piece
            if self._close in self._text:
                self.is_thinking, self.start, self._text = False, self._num_read, ""
            else:
                self._text = self._text[-len(self._close) :]
        elif self.has_begun:
            opening = "" if self._thoughts is None else self._thoughts.open
            self._text = (self._text + piece)[-len(opening) - len(piece) :]
            if opening and opening in self._text:
                self._think(self._thoughts.close if self._thoughts else "")
        elif token not in self._passed or any(piece in lead for lead in _LEADS):
            self._text = (self._text + piece).lstrip()
            self._read_lead()

    def _read_lead(self) -> None:
        for opening, closing in THOUGHT_MARKS:
            if self._text.startswith(opening):
                return self._think(closing)
        for lead in _LEADS:
            if self._text.startswith(lead):
                self._text = self._text.removeprefix(lead).lstrip()
                return self._read_lead()
        self.has_begun = bool(self._text) and not any(lead.startswith(self._text) for lead in _LEADS)
        return None

    def _think(self, closing: str) -> None:
        self.is_thinking, self.has_begun, self._close, self._text = True, False, closing, ""


def common_tag(replies: Sequence[str | None]) -> tuple[str, list[int]] | None:
    """Finds a tag that opens many replies and may therefore mark thoughts. Also returns the rows of these replies."""
    tags = {row: found[0] for row, reply in enumerate(replies) if reply and (found := _TAG.match(reply.lstrip()))}
    for tag, number in Counter(tags.values()).most_common(1):
        if number >= max(_LEAST_ALIKE, _SHARE_ALIKE * sum(map(bool, replies))):
            return tag, [row for row, found in tags.items() if found == tag]
    return None


class SplitReply(NamedTuple):
    """The parts of a sequence of tokens.

    Attributes:
        num_reasoning_tokens: The number of tokens in the thought, including its marks.
        num_tokens: The number of tokens in the reply. `None` if the model also wrote another speaker's turn.
    """

    written: Written
    num_reasoning_tokens: int
    num_tokens: int | None


def split_tokens(tokens: Sequence[int], reader: ReplyReader, tokenizer: "PreTrainedTokenizerBase") -> SplitReply:
    has_thought = reader.is_thinking
    for token in tokens:
        reader.read(token)
        has_thought |= reader.is_thinking
    start = len(tokens) if reader.is_thinking else reader.start
    reply = tokenizer.decode(tokens[start:], skip_special_tokens=True)
    written = Written("", is_open=True) if reader.is_thinking else read_written(reply)
    if written.is_open:
        start = len(tokens)
    if has_thought:
        thought = _channels(_without_header(tokenizer.decode(tokens[:start], skip_special_tokens=False)))
        for opening, closing in THOUGHT_MARKS:
            thought = _without_marks(thought, opening, closing)
        written = written._replace(reasoning="\n".join(filter(None, [thought, written.reasoning])) or None)
    thinks = has_thought or written.is_open
    return SplitReply(written, start if thinks else 0, None if written.invents_turn else len(tokens) - start)


def _without_header(text: str) -> str:
    text = text.strip()
    for header in _HEADERS:
        if f"{text}\n".startswith(header):
            return _without_header(text.removeprefix(header.strip()))
    return text


def _without_marks(text: str, opening: str, closing: str) -> str:
    return text.replace(opening, "").replace(closing, "").strip().removeprefix(_LABEL).strip()


def _channels(text: str) -> str:
    if CHANNEL_TOKENS[1] not in text:
        return text.strip()
    return "\n".join(_MESSAGE.findall(text.removesuffix(FINAL_CHANNEL))).strip()
