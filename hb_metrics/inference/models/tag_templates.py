"""Lets a chat template add a control tag, so that every program that uses the template sends the tag."""

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
    chats = [[{"role": role, "content": text} for role, text in _TURNS[start:stop]] for start, stop in _SLICES]
    num_rendered = 0
    for chat in chats:
        with_tag = [*chat[:-1], {**chat[-1], "content": f"{chat[-1]['content']} {tag}"}]
        try:
            wanted = _rendered(tokenizer, template, with_tag)
        except Exception:  # noqa: BLE001 - templates may reject a system message with any error
            continue
        num_rendered += 1
        if _rendered(tokenizer, changed, chat) != wanted:
            return None
    return changed if num_rendered else None


_SLICES = ((1, 2), (1, 4), (0, 2), (0, 4))


def _rendered(tokenizer: PreTrainedTokenizerBase, template: str, chat: list[dict[str, str]]) -> str:
    parts = [{**message, "content": [{"type": "text", "text": message["content"]}]} for message in chat]
    texts = [
        tokenizer.apply_chat_template(each, chat_template=template, tokenize=False, add_generation_prompt=True)
        for each in (chat, parts)[: 2 if "'text'" in template or '"text"' in template else 1]
    ]
    return "\n".join(texts)
