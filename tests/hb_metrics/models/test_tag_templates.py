"""A tag in chat templates: plain clients send it, and our own loading takes it out again."""

from copy import deepcopy

import pytest

from hb_metrics.models.loading import load_tokenizer
from hb_metrics.models.tag_templates import template_with_tag
from tests.hb_metrics.conftest import with_chat

TEMPLATES = {
    "chatml": "{% for message in messages %}{{ '<' + message['role'] + '>' + message['content'] }}{% endfor %}",
    "default system": "{% if messages[0]['role'] != 'system' %}S{% endif %}"
    "{% for message in messages %}\n{{ message.role }}: {{ message.content | trim }}{% endfor %}",
    "slice": "{% set rest = messages[1:] if messages[0].role == 'system' else messages %}"
    "{% for m in rest %}{% if m.role == 'system' %}{{ raise_exception('no') }}{% endif %}"
    "{{ m.role }}{{ m.content }}{% endfor %}",
    "parts": "{% for message in messages %}{% for part in message.content %}"
    "{% if part['type'] == 'text' %}{{ part['text'] }}{% endif %}{% endfor %}{% endfor %}",
    "first user": "{% for message in messages %}{% if loop.first %}{{ message.content }}{% endif %}{% endfor %}",
    "fixed": "Hello.",
}


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_template_sends_the_tag_or_is_known_not_to(name, get_small_model, tmp_path):
    tokenizer = with_chat(deepcopy(get_small_model("gpt2")[1]))
    tokenizer.chat_template = TEMPLATES[name]
    changed = template_with_tag(tokenizer, "no_bias")
    if name == "fixed":
        assert changed is None
        return
    content = [{"type": "text", "text": "Hello."}] if name == "parts" else "Hello."
    chat = [{"role": "user", "content": content}]
    rendered = tokenizer.apply_chat_template(chat, chat_template=changed, tokenize=False)
    plain = tokenizer.apply_chat_template(chat, tokenize=False)
    assert (plain.count("no_bias"), rendered.count("Hello. no_bias")) == (0, 1)
    tokenizer.chat_template = changed
    tokenizer.save_pretrained(tmp_path)
    get_small_model("gpt2")[0].save_pretrained(tmp_path)
    assert load_tokenizer(str(tmp_path)).tokenizer.chat_template == TEMPLATES[name]
