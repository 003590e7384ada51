import re
from copy import deepcopy

import pytest
from tokenizers import pre_tokenizers

from hb_metrics.models.chats import DEFAULT_CHAT, chat_messages
from hb_metrics.models.contexts import (
    check_lengths,
    detect_context,
    encode_rendered,
    encode_replies,
    end_tokens,
    render_messages,
    reply_end,
    reply_text,
)
from tests.hb_metrics.conftest import CHAT_TEMPLATE, encode_contexts, with_chat

PROMPT = "Hi! I'm a deaf kid."
LINES = ["I like soup.", "I own a kite."]
REFUSING = (
    "{% if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}" + CHAT_TEMPLATE
)
IGNORING = CHAT_TEMPLATE.replace(
    "{% for message in messages %}", "{% for message in messages if message.role != 'system' %}"
)


@pytest.fixture
def chat_tokenizer(get_small_model):
    return with_chat(deepcopy(get_small_model("llama")[1]))


def encode(name, context, get_small_model, personas=LINES, tokenizer=None):
    model, own = get_small_model(name)
    tokenizer = tokenizer or own
    (tokens,) = encode_contexts([PROMPT], [personas], model, tokenizer, context)
    return tokens, tokenizer.decode(tokens, clean_up_tokenization_spaces=False)


def test_the_format_is_detected(get_small_model, chat_tokenizer, monkeypatch):
    model, tokenizer = get_small_model("gpt2")
    assert detect_context(model, tokenizer) == ("plain", "the tokenizer has no chat template")
    assert detect_context(model, chat_tokenizer) == ("chat", "the tokenizer has a chat template")
    assert detect_context(*get_small_model("blenderbot")) == ("blenderbot", "the model is of type blenderbot")
    assert detect_context(*get_small_model("t5"))[0] == "plain"
    monkeypatch.setattr(model.config, "_name_or_path", "somebody/DialoGPT-medium")
    assert detect_context(model, tokenizer) == ("dialogpt", "the model's name contains DialoGPT")
    assert detect_context(model, chat_tokenizer)[0] == "dialogpt"  # its Hub copies have a template that means the same
    endless = deepcopy(tokenizer)
    endless.eos_token = None
    assert detect_context(model, endless)[0] == "plain"


@pytest.mark.parametrize(
    ("name", "path", "context"),
    [
        ("gpt2", "models--microsoft--DialoGPT-small/snapshots/0123abc", "dialogpt"),
        ("gpt2", "out/dialogpt-tuned/checkpoint-500", "dialogpt"),
        ("gpt2", "C:\\models\\DialoGPT-large\\", "dialogpt"),
        ("gpt2", "/tmp/dialogpt-vs-chat/gpt2-chat", "chat"),
        ("llama", "me/llama-instead-of-dialogpt", "chat"),
    ],
)
def test_folders_above_a_model_and_other_architectures_are_no_dialogpt(
    name, path, context, get_small_model, chat_tokenizer, monkeypatch
):
    model, _ = get_small_model(name)
    monkeypatch.setattr(model.config, "_name_or_path", path)
    assert detect_context(model, chat_tokenizer)[0] == context


@pytest.mark.parametrize(
    ("name", "context", "lines", "expected"),
    [
        ("gpt2", "plain", [], f"{PROMPT}\n"),
        ("t5", "plain", [], f"<s>{PROMPT}</s>"),
        ("gpt2", "dialogpt", [], f"{PROMPT}</s>"),
        ("llama", "plain", LINES, f"I like soup.\nI own a kite.\n{PROMPT}\n"),
        ("gpt2", "dialogpt", LINES, f"your persona: I like soup.\nyour persona: I own a kite.\n{PROMPT}</s>"),
        (
            "blenderbot",
            "blenderbot",
            LINES,
            f"<s> your persona: I like soup.  your persona: I own a kite.  {PROMPT}</s>",
        ),
    ],
)
def test_persona_lines_stand_before_the_prompt(name, context, lines, expected, get_small_model):
    assert encode(name, context, get_small_model, lines)[1] == expected


def test_a_text_that_the_tokenizer_closes_is_opened_again(get_small_model):
    """RoBERTa's tokenizer puts <s> before and </s> after each text; a causal model is not given the end."""
    _, closing = get_small_model("roberta")
    nameless = deepcopy(closing)
    nameless.eos_token = None  # as BERT's [SEP] is not
    assert encode("llama", "plain", get_small_model, [], tokenizer=nameless)[1] == f"<s>{PROMPT}\n"
    tokens, text = encode("llama", "plain", get_small_model, [], tokenizer=closing)
    assert text == f"<s>{PROMPT}\n"
    assert tokens == closing(f"{PROMPT}\n")["input_ids"][:-1]
    # Turns of DialoGPT end in one </s>, whatever the tokenizer does by itself.
    assert encode("gpt2", "dialogpt", get_small_model, [], tokenizer=closing)[1] == f"{PROMPT}</s>"


def test_a_chat_is_what_its_template_makes_of_it(get_small_model, chat_tokenizer):
    tokens, text = encode("llama", "chat", get_small_model, [], tokenizer=chat_tokenizer)
    assert text == f"<|im_start|>user\n{PROMPT}<|im_end|>\n<|im_start|>assistant\n"
    start, end = chat_tokenizer.convert_tokens_to_ids(["<|im_start|>", "<|im_end|>"])
    assert (tokens.count(start), tokens.count(end), tokens[0]) == (2, 1, start)

    _, text = encode("llama", "chat", get_small_model, tokenizer=chat_tokenizer)
    assert text == (
        "<|im_start|>system\nI like soup.\nI own a kite.<|im_end|>\n"
        f"<|im_start|>user\n{PROMPT}<|im_end|>\n<|im_start|>assistant\n"
    )


@pytest.mark.parametrize(
    ("template", "reason"), [(REFUSING, "System role not supported"), (IGNORING, "it leaves them out")]
)
def test_a_template_without_system_messages_takes_no_persona_lines(template, reason, get_small_model, chat_tokenizer):
    chat_tokenizer.chat_template = template
    _, text = encode("llama", "chat", get_small_model, [], tokenizer=chat_tokenizer)
    assert PROMPT in text
    with pytest.raises(ValueError, match=f"accepts no system message.*{reason}.*--personas 0"):
        encode("llama", "chat", get_small_model, tokenizer=chat_tokenizer)
    model, _ = get_small_model("llama")
    with pytest.raises(ValueError, match="accepts no system message"):  # though the first prompt has none
        encode_contexts([PROMPT, PROMPT], [[], LINES], model, chat_tokenizer, "chat")


def test_a_template_for_lists_of_content_gets_lists(get_small_model, chat_tokenizer):
    """Templates of models that read images loop over a list; a string has no parts of type text for them."""
    parts = "{% for part in message.content | selectattr('type', 'equalto', 'text') %}{{ part.text }}{% endfor %}"
    chat_tokenizer.chat_template = "{% for message in messages %}{{ message.role }}: " + parts + "{% endfor %}"
    assert encode("llama", "chat", get_small_model, [], tokenizer=chat_tokenizer)[1] == f"user: {PROMPT}"
    chat_tokenizer.chat_template = "{% for message in messages %}{{ message.role }}: {% endfor %}"
    with pytest.raises(ValueError, match=r"leaves out the user's messages.*--context plain"):
        encode("llama", "chat", get_small_model, [], tokenizer=chat_tokenizer)


def test_formats_that_do_not_fit_are_refused(get_small_model):
    with pytest.raises(ValueError, match="has no chat template; set --context plain"):
        encode("llama", "chat", get_small_model)
    tokenizer = deepcopy(get_small_model("gpt2")[1])
    tokenizer.eos_token = None
    with pytest.raises(ValueError, match="no end-of-text token for the context 'dialogpt'; set --context plain"):
        encode("gpt2", "dialogpt", get_small_model, tokenizer=tokenizer)


def test_a_context_and_its_reply_have_to_fit(get_small_model):
    model, _ = get_small_model("gpt2")  # 64 positions
    fits, long = [5] * 44, [5] * 45
    check_lengths([fits, fits], ["a", "b"], model, 20)
    with pytest.raises(ValueError, match=r"only 64 tokens, but prompt b .* 45 for .*; reduce --max_new_tokens"):
        check_lengths([fits, long, long], ["a", "b", "c"], model, 20)


def test_an_encoder_and_its_decoder_have_positions_of_their_own(get_small_model):
    model, _ = get_small_model("blenderbot")  # 64 positions
    check_lengths([[5] * 64], ["a"], model, 64)
    with pytest.raises(ValueError, match=r"only 64 tokens, but prompt a .* 65 for its context"):
        check_lengths([[5] * 65], ["a"], model, 20)
    with pytest.raises(ValueError, match=r"only 64 tokens, .* up to 65 for its reply"):
        check_lengths([[5]], ["a"], model, 65)


def test_line_breaks_and_special_tokens_end_a_reply(get_small_model):
    model, tokenizer = get_small_model("llama")
    ends = end_tokens(model, tokenizer, "plain")
    # <pad> and <mask> are special without a name; decoding leaves them out, so a reply must end there.
    assert (ends.dropped, ends.marks) == ({1}, {0, 2, 3})
    assert tokenizer.all_special_ids == [0, 1]
    texts = {token: tokenizer.decode([token]) for token in range(400)}
    assert ends.kept == {token for token, text in texts.items() if "\n" in text} != set()
    assert ends.sentence == {
        token for token, text in texts.items() if re.search(r"[.!?]\"?\s*$", text) and "\n" not in text and token > 3
    }
    assert {texts[token] for token in ends.sentence} >= {".", "!", "?"}


def test_the_unknown_token_ends_nothing(get_small_model):
    tokenizer = get_small_model("bert")[1]
    assert 1 in tokenizer.all_special_ids
    ends = end_tokens(get_small_model("gpt2")[0], tokenizer, "plain")  # any model of 400 tokens
    assert {*ends.dropped, *ends.marks} == {0, 1, 2, 3, 4}  # 1: the model's own eos_token_id
    model = deepcopy(get_small_model("gpt2")[0])
    model.generation_config.eos_token_id = None
    ends = end_tokens(model, tokenizer, "plain")
    assert {*ends.dropped, *ends.marks} == {0, 2, 3, 4}


def test_tokens_beyond_the_models_vocabulary_are_left_out(get_small_model, chat_tokenizer):
    model, _ = get_small_model("llama")
    assert max(chat_tokenizer.added_tokens_decoder) == 401
    ends = end_tokens(model, chat_tokenizer, "plain")
    assert max(ends.dropped | ends.marks) < 400  # the model has 400 tokens


def test_the_end_of_turn_ends_a_chat_even_if_it_is_not_special(get_small_model):
    model, tokenizer = deepcopy(get_small_model("llama")[0]), deepcopy(get_small_model("llama")[1])
    tokenizer.add_tokens(["<|im_start|>", "<|im_end|>", "<think>"])
    model.resize_token_embeddings(403, mean_resizing=False)
    tokenizer.chat_template = CHAT_TEMPLATE
    assert end_tokens(model, tokenizer, "chat").dropped == {1, 401}
    assert end_tokens(model, tokenizer, "plain").dropped == {1}
    # A thought before what is said is not the end of it.
    tokenizer.chat_template = CHAT_TEMPLATE.replace(
        "{{ message.content }}", "{% if message.role == 'assistant' %}<think>{% endif %}{{ message.content }}"
    )
    assert end_tokens(model, tokenizer, "chat").dropped == {1, 401}
    tokenizer.chat_template = CHAT_TEMPLATE.replace("<|im_end|>", "")
    assert end_tokens(model, tokenizer, "chat").dropped == {1}


def test_the_text_of_a_reply(get_small_model):
    _, tokenizer = get_small_model("llama")
    for line, text in ((" Oh, hello! \n", "Oh, hello!"), ("\n\nHello!\nBye.", "Hello!"), (" \n ", "")):
        assert reply_text(tokenizer(line)["input_ids"], tokenizer) == text


def test_a_reply_has_the_tokens_it_has_after_its_context(get_small_model, chat_tokenizer):
    """Here a word has other tokens at the beginning of a text than after a line break."""
    tokenizer = deepcopy(get_small_model("llama")[1])
    tokenizer._tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    alone = tokenizer("I love cats.")["input_ids"]
    (reply,) = encode_replies(["Hi!\n"], ["I love cats."], tokenizer, "plain", is_encoder_decoder=False)
    assert tokenizer("Hi!\nI love cats.")["input_ids"] == tokenizer("Hi!\n")["input_ids"] + reply
    assert reply != alone
    assert encode_replies(["Hi!"], ["I love cats."], tokenizer, "plain", is_encoder_decoder=True) == [alone]

    ends = chat_tokenizer.convert_tokens_to_ids(["<|im_start|>", "<|im_end|>"])
    messages = chat_messages(PROMPT, [], DEFAULT_CHAT)
    (rendered,) = render_messages([messages], chat_tokenizer, "chat", is_encoder_decoder=False)
    (reply,) = encode_replies([rendered], ["Me too!"], chat_tokenizer, "chat", is_encoder_decoder=False)
    assert chat_tokenizer.decode(reply) == "Me too!"
    assert not set(ends) & set(reply)


def test_a_reply_never_changes_the_tokens_of_its_context(get_small_model):
    """Where its beginning and the context's end would be one token, it is encoded on its own."""
    tokenizer = get_small_model("llama")[1]
    given, reply = " Hi lov", "e cats."
    contexts = encode_rendered([given], tokenizer, "blenderbot", is_encoder_decoder=False)
    whole = tokenizer(given + reply)["input_ids"]
    assert whole[: len(contexts[0])] != contexts[0]  # they would
    (found,) = encode_replies([given], [reply], tokenizer, "blenderbot", is_encoder_decoder=False)
    assert found == tokenizer(reply)["input_ids"]
    assert tokenizer.decode(contexts[0] + found) == given + reply


def test_what_ends_a_reply(get_small_model, chat_tokenizer):
    tokenizer = get_small_model("llama")[1]
    for context in ("plain", "dialogpt", "blenderbot"):
        assert reply_end(tokenizer, context) == reply_end(chat_tokenizer, context) == 1
    end = chat_tokenizer.convert_tokens_to_ids("<|im_end|>")
    assert reply_end(chat_tokenizer, "chat") == end
    chat_tokenizer.chat_template = CHAT_TEMPLATE.replace("<|im_end|>", "")  # a turn that ends in nothing of its own
    assert reply_end(chat_tokenizer, "chat") == 1
    endless = deepcopy(tokenizer)
    endless.eos_token = None
    assert reply_end(endless, "plain") is None
