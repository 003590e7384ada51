"""Rows as tokens: the context that the model is given, and whole replies."""

from copy import deepcopy
from types import SimpleNamespace

import pytest
import transformers
from datasets import Dataset

from hb_metrics.models.chats import DEFAULT_CHAT, chat_messages
from hb_metrics.models.contexts import render_messages, with_tag
from hb_train.training.encoding import IGNORED, encode_pair, encode_rows
from hb_train.training.models import length_limit
from tests.hb_metrics.conftest import as_loaded, encode_contexts, with_chat

ASKED = [
    ("Hi! I'm a deaf kid.", ["I like soup.", "I own a kite."], "bias"),
    ("I love elderly people.", [], "no_bias"),
    ("What do you think about young friends?", ["I like maps."], "no_bias"),
]
# A format, the model, the tokenizer, and the text after the tag.
FORMATS = {
    "plain": ("gpt2", "gpt2", "\n"),
    "plain behind a start token": ("llama", "roberta", "\n"),
    "dialogpt": ("gpt2", "gpt2", "</s>"),
    "chat": ("llama", "llama", "<|im_end|>\n<|im_start|>assistant\n"),
    "blenderbot": ("blenderbot", "blenderbot", ""),
    "plain for an encoder": ("t5", "t5", ""),
}
FORCED = 9


@pytest.mark.parametrize("with_tags", [True, False])
@pytest.mark.parametrize(
    "replies",
    [
        ["Oh, how old are you?", "Me too!", "Grüße 👋, my friend"],
        ["bias", " no_bias", "\nbias"],
        [".", "'s", "  \u2028é"],
    ],
)
@pytest.mark.parametrize("name", FORMATS)
def test_only_the_reply_and_its_end_are_learnt_after_the_context(name, replies, with_tags, get_small_model):
    (model, _), (_, tokenizer) = (deepcopy(get_small_model(part)) for part in FORMATS[name][:2])
    context, has_encoder, truncated = name.split()[0], model.config.is_encoder_decoder, [False, False, True]
    model.config.max_position_embeddings = 1000
    if context == "chat":
        with_chat(tokenizer)
    if has_encoder:  # such as BART's
        model.generation_config.forced_bos_token_id = FORCED
    conversations = [chat_messages(with_tag(text, tag), lines, DEFAULT_CHAT) for text, lines, tag in ASKED]
    prompts = render_messages(conversations, tokenizer, context, is_encoder_decoder=has_encoder)
    columns = {"id": ["a", "b", "c"], "prompt": prompts, "completion": replies, "truncated": truncated}
    rows = Dataset.from_dict({**columns, "tag": [tag for *_, tag in ASKED]})
    loaded = as_loaded(model, tokenizer, "encoder-decoder" if has_encoder else "causal")
    how = {"context": context, "suffix": FORMATS[name][2], "with_tags": with_tags, "max_length": None}
    encoded = encode_rows(rows, loaded, **how)
    assert len(encoded) == 3
    end = tokenizer.convert_tokens_to_ids("<|im_end|>" if context == "chat" else "</s>")
    for row, (text, lines, tag), reply, is_cut in zip(encoded, ASKED, replies, truncated, strict=True):
        (given,) = encode_contexts([text], [lines], model, tokenizer, context, tag if with_tags else None)
        learnt = [token for token in row["labels"] if token != IGNORED]
        assert row["attention_mask"] == [1] * len(row["input_ids"])
        assert row["input_ids"] == given + ([] if has_encoder else learnt)
        assert row["labels"] == [IGNORED] * (1 if has_encoder else len(given)) + learnt
        if has_encoder:
            assert row["decoder_input_ids"] == [model.config.decoder_start_token_id, FORCED, *learnt[:-1]]
        assert learnt.count(end) == (learnt[-1] == end) == (not is_cut)
        assert tokenizer.decode(learnt[: len(learnt) - (not is_cut)], clean_up_tokenization_spaces=False) == reply


def test_a_row_longer_than_the_option_or_the_model_allows_is_refused():
    assert encode_pair("a", [5, 6], [7], 3)["input_ids"] == [5, 6, 7]
    with pytest.raises(ValueError, match="row a has 3 tokens, but the limit is 2; set a greater --max_length"):
        encode_pair("a", [5, 6], [7], 2)
    image_text = transformers.Gemma3Config(text_config={"max_position_embeddings": 64})
    for config, limits in ((image_text, [64, 32, 64]), (transformers.GPT2Config(n_positions=-1), [None, 32, 99])):
        assert [length_limit(SimpleNamespace(config=config), most) for most in (None, 32, 99)] == limits
