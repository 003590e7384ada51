"""Lets a chat template add a control tag, so that every program that uses the template sends the tag."""

from collections.abc import Sequence
from itertools import product

from transformers import PreTrainedTokenizerBase

_START, _END = "{#- holistic-bias: adds a control tag to the user's last message -#}", "{{- '' }}"
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
    return template.partition(_END)[2] if template.startswith(_START) else template


def template_with_tag(tokenizer: PreTrainedTokenizerBase, tag: str) -> str | None:
    """Returns the tokenizer's chat template, changed so that the tag is the last word of the user's last message.

    Returns `None` if the changed template does not render chats as the original template renders chats with the tag.
    """
    template = tokenizer.chat_template
    if not isinstance(template, str):
        return None
    changed = _START + _TAGGING.replace("TAG", tag) + _END + template
    num_rendered = 0
    for turns, as_parts in product(_CHATS, (False, True)):
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
    chat = [{"role": role, "content": [{"type": "text", "text": text}] if as_parts else text} for role, text in turns]
    return tokenizer.apply_chat_template(chat, chat_template=template, tokenize=False, add_generation_prompt=True)
