"""Chats: what a chat template makes of a prompt, which date it prints, and which marks of thoughts it names."""

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from inspect import signature
from typing import Any

from transformers import PreTrainedTokenizerBase

from hb_metrics.inference.models.thoughts import FINAL_CHANNEL, THOUGHT_MARKS, Thoughts

# Templates that print the day of the run would give another prompt each day.
CHAT_DATE = "2026-01-01"
_OWN_PARAMETERS = ("tools", "documents")  # of the renderer that a template reads

NO_TEMPLATE_ERROR = "context 'chat', but the tokenizer has no chat template; give another --context, or set a template"
NO_SYSTEM_ERROR = (
    "the chat template of this tokenizer takes no system message, which persona lines, the system prompt and the cue "
    "of --cue system are put into ({error}); leave them out (--personas 0, no --system_prompt, another --cue) or give "
    "--context plain"
)
NO_EARLIER_ERROR = (
    "the chat template of this tokenizer takes no earlier turns, which --cue history needs ({error}); give --cue "
    "system or --cue prompt"
)
RESERVED_ERROR = (
    "chat_template_kwargs has '{name}', which is not a variable of chat templates but an argument of "
    "apply_chat_template; leave it out"
)
NO_DATE_ERROR = "chat_date is '{date}', and the chat template of this tokenizer prints no day of today; leave it out"
UNKNOWN_VARIABLE_ERROR = (
    "chat_template_kwargs has '{name}', which the chat template of this tokenizer never reads; leave it out, or give "
    "one of the template's own variables"
)
TEMPLATE_ERROR = (
    "the chat template of this tokenizer does not work ({error}); mend the template, or give --context plain and no "
    "options for chats"
)


@dataclass(frozen=True)
class ChatOptions:
    """What a chat template is given beside the prompt.

    Attributes:
        template_kwargs: Variables of the template, such as `{"enable_thinking": False}`.
        system_prompt: What the system message begins with; `None`: there is none but persona lines.
        date: The day that templates take for today, as YYYY-MM-DD.
    """

    template_kwargs: Mapping[str, Any] = field(default_factory=dict)
    system_prompt: str | None = None
    date: str = CHAT_DATE

    def description(self, tokenizer: PreTrainedTokenizerBase) -> dict[str, Any]:
        """What run.json records: null for what is not given, and for the date where the template asks for none."""
        return {
            "chat_template_kwargs": dict(self.template_kwargs) or None,
            "system_prompt": self.system_prompt,
            "chat_date": self.date if _prints_date(tokenizer) else None,
        }


DEFAULT_CHAT = ChatOptions()


def recorded_chat(description: Mapping[str, Any]) -> ChatOptions:
    """The options whose `description` a run.json has; the defaults where an earlier release recorded none."""
    return ChatOptions(
        description.get("chat_template_kwargs") or {},
        description.get("system_prompt"),
        description.get("chat_date") or CHAT_DATE,
    )


def find_thoughts(tokenizer: PreTrainedTokenizerBase, chat: ChatOptions) -> Thoughts | None:
    """How a chat model marks its thoughts, and whether its context ends within one.

    Returns:
        The marks, without `ends`; `None`: neither the chat template nor the vocabulary has any.
    """
    template = _template_text(tokenizer)
    if FINAL_CHANNEL in template:
        return Thoughts("", FINAL_CHANNEL, is_opened=True, is_closed=False)
    added = tokenizer.get_added_vocab()
    marks = [each for each in THOUGHT_MARKS if each[1] in template or each[1] in added]
    if not marks:
        return None
    opening, closing = marks[0]
    generation_prompt = _generation_prompt(tokenizer, chat)
    opened, closed = generation_prompt.rfind(opening), generation_prompt.rfind(closing)
    return Thoughts(opening, closing, is_opened=opened > closed, is_closed=closed > opened)


def system_lines(personas: Sequence[str], chat: ChatOptions) -> list[str]:
    """The lines of the system message: the system prompt, then the persona lines."""
    return [*([] if chat.system_prompt is None else [chat.system_prompt]), *personas]


def chat_messages(
    text: str, personas: Sequence[str], chat: ChatOptions, earlier: Sequence[str] = ()
) -> list[dict[str, str]]:
    """The messages (role and content) of a chat up to where the assistant speaks.

    Args:
        text: What the user says last.
        personas: The lines that follow the system prompt in the system message; may be empty.
        chat: What else the chat has.
        earlier: What was said before `text`, by the user and the assistant in turn.
    """
    roles = itertools.cycle(("user", "assistant"))
    before = [{"role": role, "content": turn} for role, turn in zip(roles, earlier, strict=False)]
    return [*_system(system_lines(personas, chat)), *before, _user(text)]


def render_chats(
    texts: Sequence[str],
    personas: Sequence[Sequence[str]],
    tokenizer: PreTrainedTokenizerBase,
    chat: ChatOptions,
    *,
    earlier: Sequence[Sequence[str]] | None = None,
    thought: bool = True,
) -> list[str]:
    """Each prompt as a chat up to where the assistant speaks.

    Args:
        texts: The prompts.
        personas: The persona lines of each prompt, which follow the system prompt; may be empty.
        tokenizer: The tokenizer.
        chat: What else the template is given.
        earlier: The turns before each prompt, as of `chat_messages`; `None`: there are none.
        thought: Whether the model may think next; else the chat goes on to where its reply begins.

    Raises:
        ValueError: There is no template, it does not work, or it takes no system message or no earlier turns.
    """
    if not tokenizer.chat_template:
        raise ValueError(NO_TEMPLATE_ERROR)
    lines = [system_lines(mine, chat) for mine in personas]
    turns = [()] * len(texts) if earlier is None else earlier
    asked = zip(texts, personas, turns, strict=True)
    chats = [chat_messages(text, mine, chat, before) for text, mine, before in asked]
    if not chats:
        return []
    try:
        rendered = _apply(tokenizer, chats, chat, add_generation_prompt=True)
        if not thought and (marks := find_thoughts(tokenizer, chat)) is not None and not marks.is_closed:
            rendered = _without_thought(chats, rendered, marks, tokenizer, chat)
    except ValueError as error:
        if any(turns) and _works_without(lines, tokenizer, chat):
            raise ValueError(NO_EARLIER_ERROR.format(error=error.__cause__ or error)) from error
        if any(lines):
            raise ValueError(NO_SYSTEM_ERROR.format(error=error.__cause__ or error)) from error
        raise
    for parts, message in ((lines, NO_SYSTEM_ERROR), (turns, NO_EARLIER_ERROR)):
        for text, mine in zip(rendered, parts, strict=True):
            if mine:  # one stands for all: a template leaves such messages out, or it does not
                if any(part.strip() not in text for part in mine):
                    raise ValueError(message.format(error="it leaves them out"))
                break
    return rendered


def end_of_turn(tokenizer: PreTrainedTokenizerBase, chat: ChatOptions) -> set[int]:
    """The added token, marked special or not, that the chat template puts right after what the assistant says."""
    turns = [_user("Hi"), {"role": "assistant", "content": _ANSWER}]
    after = _apply(tokenizer, [turns], chat)[0].rpartition(_ANSWER)[2]
    tokens = tokenizer([after.lstrip()], add_special_tokens=False, return_attention_mask=False)["input_ids"][0]
    return set(tokens[:1]) & set(tokenizer.added_tokens_decoder)


def check_template_reads(chat: ChatOptions, tokenizer: PreTrainedTokenizerBase) -> None:
    """Checks that the chat template can read what it is given.

    Raises:
        ValueError: A variable has the name of an argument of `apply_chat_template`, or the template does not name it,
            so that it would have no effect; or there is another day than `CHAT_DATE`, and the template prints none.
    """
    if chat.date != CHAT_DATE and not _prints_date(tokenizer):
        raise ValueError(NO_DATE_ERROR.format(date=chat.date))
    parameters = signature(PreTrainedTokenizerBase.apply_chat_template).parameters
    for name in chat.template_kwargs:
        if (name in parameters or name == "messages") and name not in _OWN_PARAMETERS:
            raise ValueError(RESERVED_ERROR.format(name=name))
        text = _template_text(tokenizer)
        if name not in _OWN_PARAMETERS and text and not re.search(rf"\b{re.escape(name)}\b", text):
            raise ValueError(UNKNOWN_VARIABLE_ERROR.format(name=name))


_ANSWER = "Yes"


def _without_thought(
    chats: Sequence[Sequence[Mapping[str, str]]],
    given: Sequence[str],
    marks: Thoughts,
    tokenizer: PreTrainedTokenizerBase,
    chat: ChatOptions,
) -> list[str]:
    """The chats up to where the reply begins, for a model that would think: as the template writes answers.

    A template may leave out of them the thought that it opens when the assistant is to speak (DeepSeek-R1). What the
    model was given has it, so it is closed here.
    """
    answered = [[*messages, {"role": "assistant", "content": _ANSWER}] for messages in chats]
    written = [text.rpartition(_ANSWER)[0] for text in _apply(tokenizer, answered, chat)]
    if not (marks.open and marks.is_opened):
        return written
    return [
        text if text.startswith(before) else before.rstrip("\n") + f"\n\n{marks.close}\n\n"
        for text, before in zip(written, given, strict=True)
    ]


def _works_without(lines: Sequence[Sequence[str]], tokenizer: PreTrainedTokenizerBase, chat: ChatOptions) -> bool:
    """Whether the template takes a chat with the first of these system messages, and no earlier turns."""
    try:
        _apply(tokenizer, [[*_system(lines[0]), _user("Hi")]], chat, add_generation_prompt=True)
    except ValueError:
        return False
    return True


def _system(lines: Sequence[str]) -> list[dict[str, str]]:
    return [{"role": "system", "content": "\n".join(lines)}] if lines else []


def _user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def _apply(
    tokenizer: PreTrainedTokenizerBase,
    chats: Sequence[Sequence[Mapping[str, str]]],
    chat: ChatOptions,
    *,
    add_generation_prompt: bool = False,
) -> list[str]:
    """The chats as texts; raises a ValueError if the template raises anything."""
    settings: dict[str, Any] = dict(chat.template_kwargs)
    if _prints_date(tokenizer):
        settings["chat_template"] = _pinned_date(date.fromisoformat(chat.date)) + _template_text(tokenizer)
    how: dict[str, Any] = {"add_generation_prompt": add_generation_prompt, "tokenize": False}
    try:
        return list(tokenizer.apply_chat_template(chats, **how, **settings))
    except Exception as error:  # a template raises what it likes
        raise ValueError(TEMPLATE_ERROR.format(error=error)) from error


def _generation_prompt(tokenizer: PreTrainedTokenizerBase, chat: ChatOptions) -> str:
    """What the template adds for the assistant to speak."""
    turns = [[*_system([chat.system_prompt] if chat.system_prompt is not None else []), _user("Hi")]]
    (whole,), (without,) = (
        _apply(tokenizer, turns, chat, add_generation_prompt=generation) for generation in (True, False)
    )
    shared = next((index for index, (a, b) in enumerate(zip(whole, without, strict=False)) if a != b), len(without))
    return whole[min(shared, len(whole)) :]


def _template_text(tokenizer: PreTrainedTokenizerBase) -> str:
    """The chat template that prompts are rendered with; empty: there is none."""
    try:
        return tokenizer.get_chat_template()
    except Exception:  # noqa: BLE001 - tokenizers without one raise what they like
        return ""


def _prints_date(tokenizer: PreTrainedTokenizerBase) -> bool:
    return "strftime_now" in _template_text(tokenizer)


def _pinned_date(day: date) -> str:
    """A macro that stands for the function `strftime_now` of templates, on that day at midnight.

    transformers takes no function as a variable, and a template may compute the format.
    """
    directives = sorted(set("aAbBdjmyYHIMSpFDexuwUWVG"))
    replaced = "".join(f' | replace("%-{one}", "{_unpadded(day, one)}")' for one in directives if one in "djmHIMSe")
    replaced += "".join(f' | replace("%{one}", "{day.strftime("%" + one)}")' for one in directives)
    # The line break after the macro is taken away with it, and nothing of the template.
    return "{% macro strftime_now(format) %}{{ format" + replaced + " }}{% endmacro %}\n"


def _unpadded(day: date, directive: str) -> str:
    return day.strftime("%" + directive).strip().lstrip("0") or "0"
