"""Rows as tokens: the context that the model is given, whole replies, and what is cut where they are too long."""

from copy import deepcopy
from types import SimpleNamespace

import pytest
import transformers
from datasets import Dataset

from hb_metrics.models.chats import DEFAULT_CHAT, chat_messages
from hb_metrics.models.contexts import render_messages, with_tag
from hb_train.training.encoding import IGNORED, encode_rows
from hb_train.training.models import length_limit
from tests.hb_metrics.conftest import as_loaded, encode_contexts, with_chat

TEXTS = ["Hi! I'm a deaf kid.", "I love elderly people.", "What do you think about young friends?"]
LINES = [["I like soup.", "I own a kite."], [], ["I like maps."]]
REPLIES = ["Oh, how old are you?", "Me too!", "Grüße 👋, my friend"]
TAGS = ["bias", "no_bias", "no_bias"]
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


class Given:
    """A model, and rows as `bias_labels.py` writes them for it."""

    def __init__(self, name, get_small_model):
        model, tokenizer, self.suffix = FORMATS[name]
        self.model, self.tokenizer = deepcopy(get_small_model(model)[0]), deepcopy(get_small_model(tokenizer)[1])
        self.context = name.split()[0]
        self.is_encoder_decoder = self.model.config.is_encoder_decoder
        self.end = "</s>"
        if self.context == "chat":
            with_chat(self.tokenizer)
            self.end = "<|im_end|>"
        if hasattr(self.model.config, "max_position_embeddings"):
            self.model.config.max_position_embeddings = 1000
        if self.is_encoder_decoder:  # such as BART's
            self.model.generation_config.forced_bos_token_id = FORCED
        self.loaded = as_loaded(self.model, self.tokenizer, "encoder-decoder" if self.is_encoder_decoder else "causal")

    def rows(self, replies=REPLIES, truncated=(False, False, True)):
        prompts = [
            render_messages(
                [chat_messages(with_tag(text, tag), lines, DEFAULT_CHAT)],
                *(self.tokenizer, self.context),
                is_encoder_decoder=self.is_encoder_decoder,
            )[0]
            for text, lines, tag in zip(TEXTS, LINES, TAGS, strict=True)
        ]
        columns = {"id": ["a", "b", "c"], "prompt": prompts, "completion": list(replies), "tag": TAGS}
        return Dataset.from_dict({**columns, "truncated": list(truncated)})

    def contexts(self, tags):
        return [
            encode_contexts([text], [lines], self.model, self.tokenizer, self.context, tag)[0]
            for text, lines, tag in zip(TEXTS, LINES, tags, strict=True)
        ]

    def encode(self, rows=None, *, with_tags=True, max_length=None):
        how = {"suffix": self.suffix, "with_tags": with_tags, "max_length": max_length}
        return encode_rows(self.rows() if rows is None else rows, self.loaded, context=self.context, **how)

    def learnt(self, row):
        """The tokens of a row that are learnt, and those before them."""
        labels = row["labels"]
        learnt = [token for token in labels if token != IGNORED]
        assert row["attention_mask"] == [1] * len(row["input_ids"])
        if self.is_encoder_decoder:
            assert labels == [IGNORED, *learnt]
            assert row["decoder_input_ids"] == [self.model.config.decoder_start_token_id, FORCED, *learnt[:-1]]
            return learnt, row["input_ids"]
        context = row["input_ids"][: len(labels) - len(learnt)]
        assert labels == [IGNORED] * len(context) + learnt
        assert row["input_ids"] == context + learnt
        return learnt, context


@pytest.fixture(params=FORMATS)
def asked(request, get_small_model):
    return Given(request.param, get_small_model)


@pytest.mark.parametrize("with_tags", [True, False])
@pytest.mark.parametrize("replies", [REPLIES, ["bias", " no_bias", "\nbias"], [".", "'s", "  \u2028é"]])
def test_only_the_reply_and_its_end_are_learnt_after_the_context(replies, with_tags, asked):
    encoded = asked.encode(asked.rows(replies), with_tags=with_tags)
    assert len(encoded) == 3
    end = asked.tokenizer.convert_tokens_to_ids(asked.end)
    contexts = asked.contexts(TAGS if with_tags else [None] * 3)
    for row, context, reply, truncated in zip(encoded, contexts, replies, (False, False, True), strict=True):
        learnt, before = asked.learnt(row)
        assert before == context
        assert (learnt[-1] == end) != truncated
        text = asked.tokenizer.decode(learnt if truncated else learnt[:-1], clean_up_tokenization_spaces=False)
        assert text == reply
        assert learnt.count(end) == (not truncated)


def test_a_row_longer_than_the_option_or_the_model_allows_is_refused(get_small_model):
    asked = Given("plain", get_small_model)
    longest = max(len(row["input_ids"]) for row in asked.encode())
    limit = longest - 1
    refused = rf"row [abc] has {longest} tokens, but the limit is {limit}; set a greater --max_length"
    for positions, max_length in ((limit, None), (limit, longest), (longest, limit), (-1, limit)):
        asked.model.config.n_positions = positions
        with pytest.raises(ValueError, match=refused):
            asked.encode(max_length=max_length)
    asked.model.config.n_positions = longest
    assert len(asked.encode(max_length=longest)) == 3


def test_a_model_that_reads_images_has_the_limit_of_its_text_model():
    config = transformers.Gemma3Config(text_config={"max_position_embeddings": 64})
    assert [length_limit(SimpleNamespace(config=config), most) for most in (None, 32, 99)] == [64, 32, 64]
