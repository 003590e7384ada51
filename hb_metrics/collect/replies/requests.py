"""Makes the requests for replies: the first of each conversation, and those of later turns.

A template has the same follow-up questions for all terms. With a cue, conversations share follow-up questions only if
they also have the same question. No follow-up question is repeated within a conversation. A conversation ends when the
model does not reply.
"""

import hashlib
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hb_dataset.prompt_columns import VARIATIONS
from hb_dataset.seeded_draws import seeded_generator
from hb_dataset.variations import mixed_variations
from hb_metrics.collect.replies.cues import (
    Cue,
    cue_lines,
    cue_messages,
    draw_personas,
    draw_questions,
    read_sentences,
)
from hb_metrics.collect.replies.decoding_settings import Decoding, Extent
from hb_metrics.models.chats import Message, with_system
from hb_metrics.models.contexts import with_tag
from hb_metrics.models.layout import Layout
from hb_metrics.models.thoughts import Written, common_tag
from hb_metrics.run.replies import is_empty, prompt_ids
from hb_metrics.run.schema import about_prompts

MAX_CHARACTERS = 100_000  # longer replies are cut, because no measurement needs more text


@dataclass(frozen=True, kw_only=True)
class ReplyRequests:
    """The conversations for a model to continue, and the decoding settings.

    Attributes:
        about: [prompts] The term, noun and template of each prompt (`about_prompts`).
        texts: [prompts] The prompts, with variations applied.
        layout: The form in which the model reads the messages.
        messages: [prompts] The messages of the conversations, up to the model's reply.
        turn: The number of the reply within its conversation, counted from 1.
        flags: For the name of each variation, whether the variation was applied to each prompt: [prompts] bool.
        cue: The part of the conversation from which the model learns who the user is (see `cues`).
        questions: [prompts] The questions that the user asks after the cue, or `None` if the cue is the prompt.
        follow_ups: [prompts] The user's later messages in each conversation. Empty if there is only one reply.
        max_reasoning_tokens: The maximum length of a thought before a reply. `None` means the engine's default.
    """

    ids: list[str]
    about: pa.Table
    texts: list[str]
    messages: list[list[Message]]
    turn: int = 1
    flags: dict[str, np.ndarray]
    personas: list[list[str]]
    decoding: Decoding
    layout: Layout
    cue: Cue = "prompt"
    questions: list[str] | None = None
    all_questions: list[str] = field(default_factory=list)
    turns: int = 1
    follow_ups: list[list[str]] = field(default_factory=list)
    all_follow_ups: list[str] = field(default_factory=list)
    extent: Extent = "first_line"
    extent_reason: str = ""
    max_reasoning_tokens: int | None = None
    seed: int = 0

    @property
    def turn_seed(self) -> int:
        """Returns the seed for this turn's replies. Only the first turn uses the run's seed itself."""
        return self.seed if self.turn == 1 else int(seeded_generator(self.seed, "turn", str(self.turn)).integers(2**31))

    def request_seed(self, row: int) -> int:
        """Returns the seed for one reply, below 2³¹, for servers that accept a seed with each request."""
        return int(seeded_generator(self.turn_seed, "request", self.ids[row]).integers(2**31))

    def take(self, rows: Sequence[int]) -> "ReplyRequests":
        kept: dict[str, Any] = {"flags": {name: flags[rows] for name, flags in self.flags.items()}}
        kept["about"] = self.about.take(pa.array(rows, pa.int64()))
        for name in ("ids", "texts", "messages", "personas", "questions", "follow_ups"):
            column = getattr(self, name)
            kept[name] = column and [column[row] for row in rows]
        return replace(self, **kept)

    def description(self, **of_chat: Any) -> dict[str, object]:
        layout = self.layout
        return {
            "context": layout.context,
            "context_reason": layout.context_reason,
            **({**layout.chat.description(), **of_chat} if layout.context == "chat" else {}),
            "tag": layout.tag,
            "tag_reason": layout.tag_reason,
            "cue": self.cue,
            **({} if self.cue == "prompt" else {"questions": self.all_questions}),
            **({} if self.turns == 1 else {"turns": self.turns, "follow_ups": self.all_follow_ups}),
            "reply": self.extent,
            "reply_reason": self.extent_reason,
            "num_prompts": len(self.ids),
            "prompts_digest": hashlib.sha256("\x1f".join(self.texts).encode()).hexdigest(),
            "persona_lines": len(self.personas[0]) if self.personas else 0,
            "personas_digest": hashlib.sha256(repr(self.personas).encode()).hexdigest(),
        }


class ReplyAnswer(NamedTuple):
    """The answer to a prompt. `None` means unknown, unless the attribute's description states another meaning.

    Attributes:
        text: The reply, without white space around it. If there is no reply, it is empty or `None`.
        truncated: Whether the reply was cut at its maximum length, or after `MAX_CHARACTERS` characters.
        reasoning: The model's thought before the reply, or `None` if it did not think.
        num_reasoning_tokens: The number of tokens in the thought, including its marks.
        reasoning_unclosed: Whether the thought was cut before it ended, so there is no reply.
        invented_turn: Whether the model wrote more text after its turn, which `text` does not include.
    """

    text: str | None
    num_tokens: int | None = None
    truncated: bool | None = None
    reasoning: str | None = None
    num_reasoning_tokens: int | None = 0
    reasoning_unclosed: bool = False
    invented_turn: bool = False


def answer_of(
    written: Written,
    extent: Extent,
    *,
    num_tokens: int | None,
    truncated: bool | None,
    num_reasoning_tokens: int | None,
) -> ReplyAnswer:
    """Keeps what `extent` states of the reply. The number of tokens of a part of it is `None`, which means unknown."""
    text = written.reply if extent == "whole" else written.reply.split("\n", 1)[0].strip()
    is_whole = text == written.reply
    is_long = len(text) > MAX_CHARACTERS
    return ReplyAnswer(
        text=text[:MAX_CHARACTERS],
        num_tokens=num_tokens if is_whole and not is_long else None,
        truncated=is_long or (truncated and is_whole and not (written.is_open or written.invents_turn)),
        reasoning=written.reasoning,
        num_reasoning_tokens=num_reasoning_tokens,
        reasoning_unclosed=written.is_open,
        invented_turn=written.invents_turn,
    )


def reply_columns(requests: ReplyRequests, rows: Sequence[int], answers: Sequence[ReplyAnswer]) -> dict[str, object]:
    """Returns the columns of `REPLY_SCHEMA` except `id`. `rows` and `answers` are in the same order."""
    by_name = dict(zip(ReplyAnswer._fields, zip(*answers, strict=True), strict=True))
    about = requests.about.take(pa.array(rows, pa.int64()))
    return {
        **dict(zip(about.column_names, about.columns, strict=True)),
        "turn": [requests.turn] * len(rows),
        "text": [requests.texts[row] for row in rows],
        "question": [None if requests.questions is None else requests.questions[row] for row in rows],
        "personas": [requests.personas[row] for row in rows],
        **{name: flags[rows] for name, flags in requests.flags.items()},
        "reply": [text or None for text in by_name.pop("text")],
        **by_name,
    }


def make_requests(
    prompts: pa.Table,
    *,
    decoding: Decoding,
    layout: Layout,
    personas: Sequence[str] = (),
    num_personas: int = 0,
    variations: bool = False,
    cue: Cue = "prompt",
    questions: Sequence[str] = (),
    seed: int = 0,
    **about: Any,
) -> ReplyRequests:
    """Makes the first request for each prompt.

    The choice of questions depends on the template, the prompt's id and the seed. All other random choices depend only
    on the prompt's id and the seed.

    `prompts` must come from `prompts_for_cue`. If `variations` is true, some prompts are varied as in the paper (Smith
    et al., 2022, A.3). Each conversation gets `num_personas` of the lines in `personas` (A.4). Unless the cue is the
    prompt, each conversation also gets one of the `questions`, or its own prompt (`hb_dataset.own_prompts`). `about`
    contains other attributes of `ReplyRequests`.
    """
    ids = prompts["id"].to_pylist()
    lines = cue_lines(prompts, cue)
    if variations:
        varied = mixed_variations(lines, seed=seed)
        texts, flags = varied.texts.to_pylist(), varied.flags
    else:
        texts, flags = lines["text"].to_pylist(), {name: np.zeros(len(ids), bool) for name in VARIATIONS}
    drawn = draw_personas(ids, personas, num_personas, seed=seed)
    is_own = "own_id" in prompts.column_names
    asked, chats = None, [layout.chat] * len(ids)
    if cue != "prompt":
        own = prompts["question"].to_pylist() if is_own else None
        asked = own or draw_questions(drawn_cells(prompts, seed=seed), questions, seed=seed)
    if is_own:
        chats = [with_system(*pair) for pair in zip(chats, prompts["system"].to_pylist(), strict=True)]
    messages = [
        cue_messages(cue, text, None if asked is None else asked[row], drawn[row], chats[row], layout.tag)
        for row, text in enumerate(texts)
    ]
    return ReplyRequests(
        ids=ids,
        about=about_prompts(prompts),
        texts=texts,
        messages=messages,
        flags=flags,
        personas=drawn,
        decoding=decoding,
        layout=layout,
        cue=cue,
        questions=asked,
        all_questions=list(questions),
        seed=seed,
        **about,
    )


def with_follow_ups(requests: ReplyRequests, templates: Sequence[str], turns: int) -> ReplyRequests:
    follow_ups = read_sentences(Path(__file__).parent / "follow_ups.yaml")
    if turns - 1 > len(follow_ups):
        raise ValueError(f"turns is {turns}; set --turns to at most {len(follow_ups) + 1}, the number of questions")
    asked: list[tuple[str, str | None]] = [(template, None) for template in templates]
    if requests.questions is not None:
        asked = list(zip(templates, requests.questions, strict=True))
    drawn = {}
    for template, question in dict.fromkeys(asked):
        order = seeded_generator(requests.seed, "follow-ups", f"{template}\x1f{question}").permutation(len(follow_ups))
        drawn[template, question] = [follow_ups[index] for index in order[: turns - 1]]
    return replace(requests, turns=turns, follow_ups=[drawn[key] for key in asked], all_follow_ups=list(follow_ups))


def next_turn(requests: ReplyRequests, replies: pa.Table) -> ReplyRequests:
    """Returns the requests for the next turn of every conversation with a reply.

    The ids of the requests are the ids of the replies, and the texts are the user's follow-up questions.
    """
    row_of = {identifier: row for row, identifier in enumerate(requests.ids)}
    rows, ids, texts, messages, tag = [], [], [], [], requests.layout.tag
    columns = replies["id"].to_pylist(), prompt_ids(replies["id"]).to_pylist(), replies["reply"].to_pylist()
    for identifier, prompt, reply in zip(*columns, strict=True):
        if is_empty(reply):
            continue
        row = row_of[identifier if identifier in row_of else prompt]
        *earlier, last = requests.messages[row]
        follow_up = requests.follow_ups[row][requests.turn - 1]
        content = last["content"] if tag is None else last["content"].removesuffix(f" {tag}")
        messages.append(
            [
                *earlier,
                {**last, "content": content},
                {"role": "assistant", "content": reply},
                {"role": "user", "content": with_tag(follow_up, tag)},
            ]
        )
        rows.append(row)
        ids.append(identifier)
        texts.append(follow_up)
    return replace(requests.take(rows), ids=ids, texts=texts, messages=messages, turn=requests.turn + 1, questions=None)


def select_prompts(prompts: pa.Table, replies_per_cell: int | None, *, seed: int) -> pa.Table:
    """Draws `replies_per_cell` prompts from each cell, in their original order. `None` selects all prompts.

    A cell contains the prompts with the same axis, descriptor and template. If a cell has too few prompts, all of them
    are selected.
    """
    if replies_per_cell is None:
        return prompts
    rows = [row for cell in drawn_cells(prompts, seed=seed).values() for row in cell[:replies_per_cell]]
    return prompts.take(pa.array(sorted(rows), pa.int64()))


def drawn_cells(prompts: pa.Table, *, seed: int) -> dict[tuple[str, str, str], list[int]]:
    """Returns the row numbers of each cell's prompts, in a random order that depends on the ids and the seed.

    The keys are (axis, descriptor, template).
    """
    cells = defaultdict(list)
    columns = [prompts[name].to_pylist() for name in ("axis", "descriptor", "template", "id")]
    for row, (axis, descriptor, template, identifier) in enumerate(zip(*columns, strict=True)):
        draw = seeded_generator(seed, "prompts", identifier).random()
        cells[axis, descriptor, template].append((draw, row))
    return {cell: [row for _, row in sorted(drawn)] for cell, drawn in cells.items()}


def note_marks(table: pa.Table) -> None:
    """Prints what may be wrong with replies, a table of `schema.REPLY_SCHEMA`."""
    if number := sum(table["invented_turn"].to_pylist()):
        print(f"{number:,} replies contained text after an end mark or a user turn, which was removed")
    if number := pc.sum(pc.equal(pc.utf8_length(table["reply"]), MAX_CHARACTERS)).as_py():
        print(f"{number:,} replies were longer than {MAX_CHARACTERS:,} characters, and were cut there")
    cut = pc.sum(pc.and_(table["truncated"], table["reasoning"].is_null())).as_py()
    if cut and table["reasoning"].null_count < len(table):
        print(f"warning: {cut:,} replies were cut and have no thought; they may be thoughts that the template opened")
    if (common := common_tag(table["reply"].to_pylist())) is not None:
        tag, rows = common
        shown = ", ".join(table["id"].take(rows[:3]).to_pylist())
        print(
            f"warning: {len(rows):,} replies begin with the unknown tag {tag!r}. If this tag marks a thought, the "
            f"thought was measured as part of the reply. To find out, read some of these replies: {shown}"
        )
