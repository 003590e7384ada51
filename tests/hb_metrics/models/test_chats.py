"""Chat templates in the style of well-known models: what prompts become, and where thoughts and replies end."""

from datetime import date

import pytest

from hb_metrics.models import chats
from hb_metrics.models.chats import ChatOptions, chat_messages, find_thoughts
from hb_metrics.models.contexts import end_tokens, render_messages
from hb_metrics.models.layout import choose_layout
from hb_metrics.models.thoughts import split_tokens
from tests.hb_metrics.chat_models import STYLES, WRITTEN, chat_tokenizer, untrained_model
from tests.hb_metrics.conftest import as_loaded

PROMPT = "Hi! I'm a deaf kid."
THOUGHT, ANSWER = "They are deaf.\nBe kind.", "Hello!\n\nHow are you?"
THINKING = [style for style in WRITTEN if style != "llama3"]


def ends_of(style, chat=chats.DEFAULT_CHAT, **how):
    tokenizer = chat_tokenizer(style)
    return tokenizer, end_tokens(untrained_model(tokenizer), tokenizer, "chat", chat=chat, **how)


def tokens_of(tokenizer, text):
    return tokenizer(text, add_special_tokens=False)["input_ids"]


def rendered(style, chat=chats.DEFAULT_CHAT, personas=(), **how):
    messages = [chat_messages(PROMPT, personas, chat)]
    (text,) = render_messages(messages, chat_tokenizer(style), "chat", is_encoder_decoder=False, chat=chat, **how)
    return text


@pytest.mark.parametrize("style", THINKING)
def test_what_a_model_writes_is_split_into_thought_and_reply(style):
    tokenizer, ends = ends_of(style)
    written = WRITTEN[style].format(thought=THOUGHT, answer=ANSWER).removesuffix(tokenizer.eos_token)
    written = written.removesuffix("<|end_of_sentence|>")
    part = split_tokens(tokens_of(tokenizer, written), ends.reader(), tokenizer)
    assert part.written == (ANSWER, THOUGHT, False, False)
    assert part.num_reasoning_tokens + part.num_tokens == len(tokens_of(tokenizer, written))

    cut = written[: written.index("Be kind") + 2]
    part = split_tokens(tokens_of(tokenizer, cut), ends.reader(), tokenizer)
    assert part.written == ("", "They are deaf.\nBe", True, False)
    assert (part.num_reasoning_tokens, part.num_tokens) == (len(tokens_of(tokenizer, cut)), 0)


def test_a_reply_without_a_thought_is_a_reply_where_the_model_may_choose():
    tokenizer, ends = ends_of("qwen3")
    part = split_tokens(tokens_of(tokenizer, ANSWER), ends.reader(), tokenizer)
    assert (part.written, part.num_reasoning_tokens) == ((ANSWER, None, False, False), 0)
    empty = split_tokens(tokens_of(tokenizer, f"<think>\n\n</think>\n\n{ANSWER}"), ends.reader(), tokenizer)
    assert empty.written == (ANSWER, None, False, False)
    assert empty.num_reasoning_tokens > 0
    # The template may open a thought although no file contains the closing mark.
    tokenizer = chat_tokenizer("nemotron")
    tokenizer.chat_template = STYLES["r1"][0].replace(".split('</think>')[-1]", "")
    ends = end_tokens(untrained_model(tokenizer), tokenizer, "chat")
    for text, written in ((f"Hm.</think>{ANSWER}", (ANSWER, "Hm.", False, False)), ("Hm.", ("", "Hm.", True, False))):
        assert split_tokens(tokens_of(tokenizer, text), ends.reader(), tokenizer).written == written
    # The template of R1 has opened the thought, and the first channel of gpt-oss is no reply.
    for style in ("r1", "harmony"):
        tokenizer, ends = ends_of(style)
        assert split_tokens(tokens_of(tokenizer, ANSWER), ends.reader(), tokenizer).written.is_open


def test_whether_a_context_ends_within_a_thought():
    state = {}
    for style in STYLES:
        thoughts = find_thoughts(chat_tokenizer(style), chats.DEFAULT_CHAT)
        state[style] = thoughts and (thoughts.is_opened, thoughts.is_closed)
    free, opened = (False, False), (True, False)
    # A template that never names the marks, and a vocabulary without them, says nothing of thoughts.
    assert state == {
        "qwen3": free,
        "r1": opened,
        "magistral": free,
        "nemotron": free,
        "harmony": opened,
        "llama3": None,
    }
    silent = find_thoughts(chat_tokenizer("qwen3"), ChatOptions({"enable_thinking": False}))
    assert (silent.is_opened, silent.is_closed) == (False, True)
    asked = ChatOptions(system_prompt="Think between <think> and nothing.")  # it is no mark of the template's
    assert not find_thoughts(chat_tokenizer("qwen3"), asked).is_opened


def test_marks_end_no_reply_and_within_a_thought_only_ends_of_text_do():
    for style, end in (("qwen3", "<|im_end|>"), ("magistral", "<|end_of_sentence|>")):
        tokenizer, ends = ends_of(style)
        marks = tokenizer.convert_tokens_to_ids([ends.thoughts.open, ends.thoughts.close])
        assert not set(marks) & {*ends.dropped, *ends.marks, *ends.thoughts.ends}
        assert tokenizer.convert_tokens_to_ids(end) in ends.dropped
        assert set(ends.thoughts.ends) == {*ends.dropped, *ends.marks}
    tokenizer, ends = ends_of("harmony")
    structure = set(tokenizer.convert_tokens_to_ids(["<|start|>", "<|end|>", "<|message|>", "<|channel|>"]))
    assert structure <= set(ends.dropped)  # of the final channel
    assert not structure & set(ends.thoughts.ends)
    assert set(tokenizer.convert_tokens_to_ids(["<|return|>", "<|call|>"])) <= set(ends.thoughts.ends)


def test_templates_print_a_fixed_date(monkeypatch):
    assert "Today Date: 01 Jan 2026\n" in rendered("llama3")
    assert "Today: 2026-01-01\n" in rendered("harmony")
    monkeypatch.setattr(chats, "CHAT_DATE", date(2031, 12, 5))
    assert "Today Date: 05 Dec 2031\n" in rendered("llama3")
    # Nothing else of the template changes.
    tokenizer, chat = chat_tokenizer("llama3"), [{"role": "user", "content": PROMPT}]
    how = {"add_generation_prompt": True, "tokenize": False}
    assert rendered("llama3") == tokenizer.apply_chat_template(chat, date_string="05 Dec 2031", **how)


@pytest.mark.parametrize(
    ("call", "printed"),
    [
        ("{% set form = '%d %b %Y' %}{{ strftime_now(form) }}", "05 Dec 2031"),
        ("{{ strftime_now('%d ' ~ '%Y') }}", "05 2031"),
        ("{{ strftime_now(format='%-d %B %y') }}", "5 December 31"),
        (r"{{ strftime_now('%d \'%y') }}", "05 '31"),
        ("{% if strftime_now is defined %}{{ strftime_now('%F %H:%M:%S') }}{% endif %}", "2031-12-05 00:00:00"),
    ],
)
def test_the_date_is_fixed_however_a_template_asks_for_it(call, printed, monkeypatch):
    monkeypatch.setattr(chats, "CHAT_DATE", date(2031, 12, 5))
    tokenizer = chat_tokenizer("qwen3")
    tokenizer.chat_template = call + "|{{ messages[0]['content'] }}"
    messages = [[{"role": "user", "content": PROMPT}]]
    assert chats.render_chats(messages, tokenizer, chats.DEFAULT_CHAT) == [f"{printed}|{PROMPT}"]


def test_templates_take_variables_and_a_system_prompt():
    assert rendered("qwen3").endswith("<|im_start|>assistant\n")
    assert rendered("qwen3", ChatOptions({"enable_thinking": False})).endswith("<think>\n\n</think>\n\n")
    assert "Reasoning: high" in rendered("harmony", ChatOptions({"reasoning_effort": "high"}))
    brief = ChatOptions(system_prompt="Be brief.")
    assert rendered("qwen3", brief).startswith("<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n")
    lines = rendered("qwen3", brief, ["I like tea."])
    assert lines.startswith("<|im_start|>system\nBe brief.\nI like tea.<|im_end|>\n<|im_start|>user\n")
    assert rendered("qwen3", ChatOptions(system_prompt="")).startswith("<|im_start|>system\n<|im_end|>\n")


@pytest.mark.parametrize(
    ("style", "end"),
    [
        ("qwen3", "<|im_start|>assistant\n<think>\n\n</think>\n\n"),
        ("r1", f"<|User|>{PROMPT}<|Assistant|><think>\n\n</think>\n\n"),
        ("harmony", "<|start|>assistant<|channel|>final<|message|>"),
        ("llama3", "<|start_header_id|>assistant<|end_header_id|>\n\n"),
    ],
)
def test_a_chat_can_end_where_the_words_of_the_reply_begin(style, end):
    text = rendered(style, thought=False)
    assert text.endswith(end)
    assert text.startswith(rendered(style))  # what the model is given when it may think
    assert (text == rendered(style)) == (style == "llama3")


def test_what_is_for_chats_is_refused_elsewhere():
    tokenizer = chat_tokenizer("qwen3")
    loaded = as_loaded(untrained_model(tokenizer), tokenizer)
    silent = ChatOptions({"enable_thinking": False})
    assert choose_layout(loaded, context="chat", tag="none", chat=silent).chat == silent
    options = {"chat_template_kwargs": silent, "system_prompt": ChatOptions(system_prompt="Be brief.")}
    for name, chat in options.items():
        with pytest.raises(ValueError, match=f"{name} applies only to chats, but the context is 'plain'"):
            choose_layout(loaded, context="plain", tag="none", chat=chat)
    for name in ("enable_thinkng", "thinking", "Enable_thinking"):  # that would silently change nothing
        with pytest.raises(ValueError, match=f"does not use '{name}'; remove it"):
            choose_layout(loaded, context="chat", tag="none", chat=ChatOptions({name: False}))


@pytest.mark.parametrize("template", ["{% if %}", "{{ raise_exception('no') }}"])
def test_a_template_that_does_not_work_is_explained(template):
    tokenizer = chat_tokenizer("qwen3")
    tokenizer.chat_template = template
    with pytest.raises(ValueError, match=r"chat template raises an error \(.+\); set"):
        chats.render_chats([[{"role": "user", "content": PROMPT}]], tokenizer, chats.DEFAULT_CHAT)
