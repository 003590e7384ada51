import itertools
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from functools import partial
from os.path import commonprefix
from typing import Any

from transformers import PreTrainedTokenizerBase

from hb_metrics.models.thoughts import FINAL_CHANNEL, THOUGHT_MARKS, Thoughts

# The date for templates that print the current date. It is fixed, so that prompts are the same every day.
CHAT_DATE = date(2026, 1, 1)

Message = dict[str, str]  # role and content


@dataclass(frozen=True)
class ChatOptions:
    """The options of a chat template.

    Attributes:
        system_prompt: The beginning of the system message, before the persona lines.
    """

    template_kwargs: Mapping[str, object] = field(default_factory=dict)
    system_prompt: str | None = None

    def description(self) -> dict[str, object]:
        return {"chat_template_kwargs": dict(self.template_kwargs) or None, "system_prompt": self.system_prompt}


DEFAULT_CHAT = ChatOptions()


def with_system(chat: ChatOptions, system: str | None) -> ChatOptions:
    return chat if system is None else replace(chat, system_prompt=system)


def find_thoughts(tokenizer: PreTrainedTokenizerBase, chat: ChatOptions) -> Thoughts | None:
    """Searches a chat template and a vocabulary for the marks that enclose thoughts. Does not set `ends`."""
    template = _template_text(tokenizer)
    if FINAL_CHANNEL in template:
        return Thoughts("", FINAL_CHANNEL, is_opened=True, is_closed=False)
    added = tokenizer.get_added_vocab()
    last = _generation_prompt(tokenizer, chat).rfind
    # A template may open a thought although no file contains the closing mark, which the model has learnt as text.
    opened = [pair for pair in THOUGHT_MARKS if last(pair[0]) > last(pair[1])]
    for opening, closing in opened or [pair for pair in THOUGHT_MARKS if pair[1] in template or pair[1] in added]:
        return Thoughts(opening, closing, is_opened=bool(opened), is_closed=last(closing) > last(opening))
    return None


def chat_messages(text: str, personas: Sequence[str], chat: ChatOptions, earlier: Sequence[str] = ()) -> list[Message]:
    """Returns the messages of a conversation up to the model's reply.

    `text` is the user's last message. `earlier` contains the messages before it, in which the user and the assistant
    take turns. The system prompt and the persona lines form the system message.
    """
    system = [*([] if chat.system_prompt is None else [chat.system_prompt]), *personas]
    roles = itertools.cycle(("user", "assistant"))
    turns = [{"role": role, "content": turn} for role, turn in zip(roles, [*earlier, text], strict=False)]
    return [*([{"role": "system", "content": "\n".join(system)}] if system else []), *turns]


def render_chats(
    conversations: Sequence[Sequence[Message]],
    tokenizer: PreTrainedTokenizerBase,
    chat: ChatOptions,
    *,
    thought: bool = True,
) -> list[str]:
    """Renders each conversation up to the model's next message.

    If `thought` is false, the chats are rendered up to the beginning of the reply, so that the model does not think
    first.

    Raises:
        ValueError: There is no template, the template raises an error, or it leaves out a message.
    """
    if not tokenizer.chat_template:
        raise ValueError("the context is 'chat', but the tokenizer has no chat template; set --context plain")
    if not conversations:
        return []
    roles = {message["role"] for messages in conversations for message in messages} - {"user"}
    try:
        rendered = _apply(tokenizer, conversations, chat, add_generation_prompt=True)
        if not thought and (marks := find_thoughts(tokenizer, chat)) is not None and not marks.is_closed:
            rendered = _without_thought(conversations, rendered, marks, tokenizer, chat)
    except ValueError as error:
        if not roles:
            raise
        raise _rejected_roles(roles, error.__cause__ or error) from error
    for role in (*sorted(roles, reverse=True), "user"):
        # One chat is enough, because a template leaves out such messages either always or never.
        text, messages = next(
            (text, messages)
            for text, messages in zip(rendered, conversations, strict=True)
            if role in [message["role"] for message in messages]
        )
        lines = [line for message in messages if message["role"] == role for line in message["content"].split("\n")]
        if all(line.strip() in text for line in lines):
            continue
        if role == "user":
            raise ValueError("the chat template leaves out the user's messages; correct it, or set --context plain")
        raise _rejected_roles({role}, "it leaves them out")
    return rendered


def end_of_turn(tokenizer: PreTrainedTokenizerBase, chat: ChatOptions) -> set[int]:
    """Returns a set with the token that the chat template puts directly after the assistant's words.

    The set is empty if this token is not one of the tokenizer's added tokens.
    """
    turns = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": _ANSWER}]
    after = _apply(tokenizer, [turns], chat)[0].rpartition(_ANSWER)[2]
    tokens = tokenizer([after.lstrip()], add_special_tokens=False, return_attention_mask=False)["input_ids"][0]
    return set(tokens[:1]) & set(tokenizer.added_tokens_decoder)


def check_template_reads(chat: ChatOptions, tokenizer: PreTrainedTokenizerBase) -> None:
    text = _template_text(tokenizer)
    for name in chat.template_kwargs:
        if text and not re.search(rf"\b{re.escape(name)}\b", text):
            raise ValueError(f"the chat template does not use '{name}'; remove it from chat_template_kwargs")


_ANSWER = "Yes"


def _without_thought(
    chats: Sequence[Sequence[Message]],
    given: Sequence[str],
    marks: Thoughts,
    tokenizer: PreTrainedTokenizerBase,
    chat: ChatOptions,
) -> list[str]:
    """Renders the chats of a thinking model up to the beginning of the reply.

    The result is the text that the template writes before an assistant's answer. Some templates, such as DeepSeek-R1's,
    begin a thought in `given`, but write no thought before an answer. The thought in `given` is then closed.
    """
    answered = [[*messages, {"role": "assistant", "content": _ANSWER}] for messages in chats]
    written = [text.rpartition(_ANSWER)[0] for text in _apply(tokenizer, answered, chat)]
    if not (marks.open and marks.is_opened):
        return written
    return [
        text if text.startswith(before) else before.rstrip("\n") + f"\n\n{marks.close}\n\n"
        for text, before in zip(written, given, strict=True)
    ]


def _rejected_roles(roles: Collection[str], error: object) -> ValueError:
    places = {"system": "system message", "assistant": "earlier turns"}
    what = " or ".join(places[role] for role in sorted(roles, reverse=True))
    return ValueError(
        f"this tokenizer's chat template accepts no {what} ({error}); remove --system_prompt, and set --personas 0 and "
        "--cue prompt or signature. Alternatively, set --context plain"
    )


def _apply(
    tokenizer: PreTrainedTokenizerBase,
    chats: Sequence[Sequence[Message]],
    chat: ChatOptions,
    *,
    add_generation_prompt: bool = False,
) -> list[str]:
    settings: dict[str, object] = dict(chat.template_kwargs)
    if prints_date(tokenizer):  # transformers passes no functions to templates, so the template itself is changed
        settings["chat_template"] = _pinned_date() + _template_text(tokenizer)
    apply = partial(tokenizer.apply_chat_template, tokenize=False, **settings)
    try:
        if _ANSWER not in apply([{"role": "user", "content": _ANSWER}]):
            chats = list(map(_with_parts, chats))
        return apply(chats, add_generation_prompt=add_generation_prompt)
    except Exception as error:  # a template may raise anything
        raise ValueError(f"this tokenizer's chat template raises an error ({error}); set --context plain") from error


def _with_parts(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Returns messages with a list as content, which the templates of models that read images may need."""
    return [{**message, "content": [{"type": "text", "text": message["content"]}]} for message in messages]


def _generation_prompt(tokenizer: PreTrainedTokenizerBase, chat: ChatOptions) -> str:
    turns = [chat_messages("Hi", [], chat)]
    (whole,), (without,) = (
        _apply(tokenizer, turns, chat, add_generation_prompt=generation) for generation in (True, False)
    )
    return whole.removeprefix(commonprefix([whole, without]))  # noqa: RUF071 - character by character


def _template_text(tokenizer: PreTrainedTokenizerBase) -> str:
    try:
        return tokenizer.get_chat_template()
    except Exception:  # noqa: BLE001 - tokenizers without a template raise various errors
        return ""


def prints_date(tokenizer: PreTrainedTokenizerBase) -> bool:
    return "strftime_now" in _template_text(tokenizer)


def _pinned_date() -> str:
    """Returns a macro that replaces a chat template's function `strftime_now` and prints `CHAT_DATE`."""
    directives = sorted(set("aAbBdjmyYHIMSpFDexuwUWVG"))
    replaced = "".join(f' | replace("%-{one}", "{_unpadded(one)}")' for one in directives if one in "djmHIMSe")
    replaced += "".join(f' | replace("%{one}", "{CHAT_DATE.strftime("%" + one)}")' for one in directives)
    # The line break after the macro is not printed.
    return "{% macro strftime_now(format) %}{{ format" + replaced + " }}{% endmacro %}\n"


def _unpadded(directive: str) -> str:
    return CHAT_DATE.strftime("%" + directive).strip().lstrip("0") or "0"


# With these lines at its beginning, a chat template adds a control tag (see `layout`).
_TAG_START, _TAG_END = "{#- holistic-bias: adds a control tag to the user's last message -#}", "{{- '' }}"
_TAGGING = """\
{%- set tagged = namespace(messages=[], last=-1) -%}
{%- for message in messages -%}
{%- if message['role'] == 'user' -%}{%- set tagged.last = loop.index0 -%}{%- endif -%}
{%- endfor -%}
{%- for message in messages -%}
{%- if loop.index0 != tagged.last -%}{%- set new = message -%}
{%- elif message['content'] is string -%}{%- set new = dict(message, content=message['content'] ~ ' TAG') -%}
{%- else -%}
{%- set new = dict(message, content=message['content'] + [{'type': 'text', 'text': ' TAG'}]) -%}
{%- endif -%}
{%- set tagged.messages = tagged.messages + [new] -%}
{%- endfor -%}
{%- set messages = tagged.messages -%}"""
_TURNS = [("system", "Be brief."), ("user", "Hello."), ("assistant", "Hi."), ("user", "How are you?")]
_CHATS = (_TURNS[1:2], _TURNS[1:], _TURNS[:2], _TURNS)


def without_tag(template: str) -> str:
    return template.partition(_TAG_END)[2] if template.startswith(_TAG_START) else template


def template_with_tag(tokenizer: PreTrainedTokenizerBase, tag: str) -> str | None:
    """Returns the tokenizer's chat template, changed so that the tag is the last word of the user's last message.

    Returns `None` if the changed template does not render chats as the original template renders chats with the tag.
    """
    template = tokenizer.chat_template
    if not isinstance(template, str):
        return None
    changed = _TAG_START + _TAGGING.replace("TAG", tag) + _TAG_END + template
    num_rendered = 0
    for turns, as_parts in itertools.product(_CHATS, (False, True)):
        tagged = [*turns[:-1], (turns[-1][0], f"{turns[-1][1]} {tag}")]
        try:
            wanted = _rendered(tokenizer, template, tagged, as_parts)
        except Exception:  # noqa: BLE001 - templates may reject a system message or a list with any error
            continue
        if f" {tag}" in wanted and "'type'" not in wanted:  # templates that read texts may print a list as it is
            num_rendered += 1
            if _rendered(tokenizer, changed, turns, as_parts) != wanted:
                return None
    return changed if num_rendered else None


def _rendered(
    tokenizer: PreTrainedTokenizerBase, template: str, turns: Sequence[tuple[str, str]], as_parts: bool
) -> str:
    messages = [{"role": role, "content": text} for role, text in turns]
    chat = _with_parts(messages) if as_parts else messages
    return tokenizer.apply_chat_template(chat, chat_template=template, tokenize=False, add_generation_prompt=True)
