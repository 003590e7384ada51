"""Separates a model's reply from the thoughts and marks around it.

Users do not read thoughts, so thoughts are not measured. A model may also write marks around its answer, the header of
its turn, or another speaker's turn. None of these is part of its reply.
"""

import re
import string
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import yaml

from hb_metrics.run.blank_texts import is_blank

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


class _Marks(NamedTuple):
    thoughts: list[tuple[str, str]]
    spoken_thoughts: list[tuple[str, str]]
    wrappers: list[str]
    headers: list[str]
    first_tokens: list[str]
    tokens: list[str]
    users: list[str]
    turn_ends: list[tuple[str, str]]


_LISTED = _Marks(**yaml.safe_load(Path(__file__).with_name("marks.yaml").read_text(encoding="utf-8")))
THOUGHT_MARKS: list[tuple[str, str]] = [(opening, closing) for opening, closing in _LISTED.thoughts]
_LEADS = [*dict(THOUGHT_MARKS), *map("<{}>".format, _LISTED.wrappers), *_LISTED.headers]
_BLANK = f"{string.whitespace}\u00a0\u00ad\u200b\u2060\ufeff"  # white space and characters without a width
# Matches all that may come before the first word of a turn.
_FIRST = [rf"[\s{_BLANK}]++", *map(re.escape, _LISTED.headers), *_LISTED.first_tokens]
_LEAD = re.compile(f"(?:{'|'.join(_FIRST)})*+")
_TOKEN = "|".join(_LISTED.tokens)
_USERS = f"(?:{'|'.join(_LISTED.users)})"
# Matches marks of thoughts. The name of the group states the side and the pair's index.
_SIDES = "".join(
    rf"(?P<{side}_{pair}>{re.escape(mark[:-1])}(?:\s[^<>\n]{{0,200}})?{re.escape(mark[-1])})|"
    for pair, marks in enumerate(THOUGHT_MARKS)
    for side, mark in zip(("open", "close"), marks, strict=True)
)
_MARK = re.compile(rf"(?=[<\[◁])(?:{_SIDES}(?P<token>{_TOKEN}))", re.IGNORECASE)
_LINE_END = re.compile(r"[ \t]*(?:\n|<|\Z)")
# A token between words of a sentence is spoken of, as in "Use </s> to close". <|end|> and its like always end a reply.
_ENDS = [(rf"(?=<\|)(?:{_TOKEN})|(?<![\w,] )(?:{_TOKEN})|(?:{_TOKEN})(?! [a-z])", ""), *_LISTED.turn_ends]
_TURN_ENDS = [(re.compile(pattern.replace("USERS", _USERS)), needed) for pattern, needed in _ENDS]
# Matches code, special tokens in quotation marks, and struck-out text in HTML, whose tags look like special tokens.
_CODE = r"```.*?```|~~~.*?~~~|`[^`\n]+`|<(code|s)\b[^<>\n]{0,99}>[^\n]{0,200}?</\1>"
_QUOTED = re.compile(rf"{_CODE}|[\"'“‘«](?:{_TOKEN})[\"'”’»]", re.DOTALL)
_WRAPPED = re.compile(rf"<({'|'.join(_LISTED.wrappers)})>(.*?)(?:</\1>(.*)|\Z)", re.DOTALL | re.IGNORECASE)
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
    ends: frozenset[int] = frozenset()


class Written(NamedTuple):
    """The parts of a model's text.

    Attributes:
        is_open: Whether the thought is unfinished, so there is no reply.
        invents_turn: Whether the model wrote more text after its turn, which `reply` does not include.
    """

    reply: str
    reasoning: str | None = None
    is_open: bool = False
    invents_turn: bool = False


def read_written(text: str) -> Written:
    """Splits a model's text into a thought and a reply.

    A thought begins the text. If its opening mark is missing, because it is part of the prompt, all text before the
    closing mark is a thought. The reply ends where the model's turn ends. Quoted marks have no effect.
    """
    thoughts, rest, is_open = [], _without_lead(text), False
    while not is_open and (parts := _split_thought(rest)) is not None:
        thought, rest, is_open = parts
        thoughts.append(thought)
        rest = _without_lead(rest)
    reasoning = "\n".join(filter(None, thoughts)) or None
    if is_open:
        return Written("", reasoning, True)
    wrapped = _WRAPPED.match(rest)
    rest, beyond = (_without_lead(wrapped[2]), wrapped[3] or "") if wrapped else (rest, "")
    end = _end_of_turn(rest)
    reply, beyond = rest[:end].strip(), rest[end:] + beyond
    return Written("" if is_blank(reply) else reply, reasoning, False, bool(_without_lead(re.sub(_TOKEN, "", beyond))))


def _split_thought(text: str) -> tuple[str, str, bool] | None:
    """Returns a thought, the text after it, and whether the thought is unfinished. `None` if there is no thought."""
    before, final, after = text.partition(FINAL_CHANNEL)
    if final or text.startswith(CHANNEL_TOKENS[0]):
        return _channels(before), after, not final
    for opening, closing in _LISTED.spoken_thoughts:
        if begun := re.match(opening, text):
            before, closed, after = text.partition(closing)
            return before[begun.end() :].strip(), after, not closed
    seen = _without_quotations(text)
    # Other special tokens end the turn, and with it the thought.
    marks = list(takewhile(lambda mark: mark.lastgroup != "token", _MARK.finditer(seen)))
    pair = _pair_around_thought(marks, seen)
    if pair is None:
        return None
    closings = [mark for mark in marks if mark.lastgroup == f"close_{pair}"]
    end = closings[-1].end() if closings else 0
    is_open = not closings or any(mark.lastgroup == f"open_{pair}" and mark.start() >= end for mark in marks)
    return _without_marks(text if is_open else text[:end]), text[end:], is_open


def _pair_around_thought(marks: Sequence[re.Match[str]], text: str) -> str | None:
    """Finds the pair of marks whose opening begins the text, or whose closing has no opening before it.

    A closing that is a common word, such as </reason>, must also end its line, because it may be quoted.
    """
    opened = set()
    for mark in marks:
        side, _, pair = str(mark.lastgroup).partition("_")
        is_word = mark[0].startswith("</") and "think" not in mark[0].lower()
        if side == "open" and not mark.start():
            return pair
        if side == "close" and pair not in opened and (not is_word or _LINE_END.match(text, mark.end())):
            return pair
        opened.add(pair)
    return None


def _end_of_turn(text: str) -> int:
    seen = _without_quotations(text)
    turns = ((pattern.search(seen), needed) for pattern, needed in _TURN_ENDS)
    return min((turn.start() for turn, needed in turns if turn and needed in seen[turn.end() :]), default=len(text))


def _without_quotations(text: str) -> str:
    """Replaces quotations with text of the same length that contains no marks."""
    return _QUOTED.sub(lambda quoted: "`" * len(quoted[0]), text)


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
        self._pieces, self._passed = pieces, passed
        self.is_thinking = thoughts is not None and thoughts.is_opened
        self.has_begun = False
        self.start = 0
        # A later thought counts only if the text began with a thought, and only between the same marks.
        self._open, self._close = (thoughts.open, thoughts.close) if thoughts and thoughts.is_opened else ("", "")
        self._text, self._num_read = "", 0

    @property
    def is_done(self) -> bool:
        return self.has_begun and not self._open

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
            self._text = (self._text + piece)[-len(self._open) - len(piece) :]
            if self._open and self._open in self._text:
                self._think(self._open, self._close)
        elif token not in self._passed or any(piece in lead for lead in _LEADS):
            self._text = (self._text + piece).lstrip(_BLANK)
            self._read_lead()

    def _read_lead(self) -> None:
        for opening, closing in THOUGHT_MARKS:
            if self._text.startswith(opening):
                return self._think(opening, closing)
        for lead in _LEADS:
            if self._text.startswith(lead):
                self._text = self._text.removeprefix(lead).lstrip(_BLANK)
                return self._read_lead()
        self.has_begun = not is_blank(self._text) and not any(lead.startswith(self._text) for lead in _LEADS)
        return None

    def _think(self, opening: str, closing: str) -> None:
        self.is_thinking, self.has_begun, self._text = True, False, ""
        self._open, self._close = opening, closing


def common_tag(replies: Sequence[str | None]) -> tuple[str, list[int]] | None:
    """Finds a tag that opens many replies and may therefore mark thoughts. Also returns the rows of these replies."""
    tags = {row: tag[0] for row, reply in enumerate(replies) if reply and (tag := _TAG.match(reply.lstrip()))}
    for common, number in Counter(tags.values()).most_common(1):
        if number >= max(_LEAST_ALIKE, _SHARE_ALIKE * sum(map(bool, replies))):
            return common, [row for row, tag in tags.items() if tag == common]
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
        thought = _without_marks(_channels(_without_lead(tokenizer.decode(tokens[:start], skip_special_tokens=False))))
        written = written._replace(reasoning="\n".join(filter(None, [thought, written.reasoning])) or None)
    thinks = has_thought or written.is_open
    return SplitReply(written, start if thinks else 0, None if written.invents_turn else len(tokens) - start)


def _without_lead(text: str) -> str:
    return text[_LEAD.match(text).end() :]  # type: ignore[union-attr]  # the pattern matches any text


def _without_marks(text: str) -> str:
    return _MARK.sub("", text).strip().removeprefix(_LABEL).strip()


def _channels(text: str) -> str:
    if CHANNEL_TOKENS[1] not in text:
        return text.strip()
    return "\n".join(_MESSAGE.findall(text.removesuffix(FINAL_CHANNEL))).strip()
