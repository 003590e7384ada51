"""Rows as tokens: the context that the model is given, whole replies, and what is cut where they are too long."""

import re
from copy import deepcopy

import pytest
from datasets import Dataset

from hb_metrics.models.chats import DEFAULT_CHAT, chat_messages
from hb_metrics.models.contexts import render_messages, with_tag
from hb_train.training.encoding import IGNORED, encode_rows
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
}


class Given:
    """A model, and rows as `bias_labels.py` writes them for it."""

    def __init__(self, name, get_small_model):
        model, tokenizer, self.suffix = FORMATS[name]
        self.model, self.tokenizer = deepcopy(get_small_model(model)[0]), deepcopy(get_small_model(tokenizer)[1])
        self.context = name.split()[0]
        self.end = "</s>"
        if self.context == "chat":
            with_chat(self.tokenizer)
            self.end = "<|im_end|>"
        if hasattr(self.model.config, "max_position_embeddings"):
            self.model.config.max_position_embeddings = 1000
        self.loaded = as_loaded(self.model, self.tokenizer)

    def rows(self, replies=REPLIES, truncated=(False, False, True)):
        prompts = [
            render_messages(
                [chat_messages(with_tag(text, tag), lines, DEFAULT_CHAT)],
                *(self.tokenizer, self.context),
                is_encoder_decoder=False,
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
    assert (len(encoded.dataset), encoded.num_cut) == (3, 0)
    end = asked.tokenizer.convert_tokens_to_ids(asked.end)
    contexts = asked.contexts(TAGS if with_tags else [None] * 3)
    for row, context, reply, truncated in zip(encoded.dataset, contexts, replies, (False, False, True), strict=True):
        learnt, before = asked.learnt(row)
        assert before == context
        assert (learnt[-1] == end) != truncated
        text = asked.tokenizer.decode(learnt if truncated else learnt[:-1], clean_up_tokenization_spaces=False)
        assert text == reply
        assert learnt.count(end) == (not truncated)


@pytest.mark.parametrize("with_tags", [True, False])
def test_long_rows_lose_the_beginning_of_their_context(with_tags, asked):
    whole = [asked.learnt(row) for row in asked.encode(with_tags=with_tags).dataset]
    lengths = [len(context) + len(reply) for reply, context in whole]
    longest, tokenizer = max(lengths), asked.tokenizer
    num_cut, num_refused = 0, 0
    for limit in range(longest, 0, -3):
        try:
            encoded = asked.encode(with_tags=with_tags, max_length=limit)
        except ValueError as error:
            assert re.match(r"row [abc] needs \d+ tokens", str(error))  # noqa: PT017
            num_refused += 1
            continue
        assert not num_refused  # what fits, fits in more
        assert encoded.num_cut == sum(length > limit for length in lengths)
        for row, (reply, context), tag in zip(encoded.dataset, whole, TAGS, strict=True):
            learnt, cut = asked.learnt(row)
            assert learnt == reply
            assert len(row["input_ids"]) == min(limit, len(context) + len(learnt))
            if len(cut) == len(context):
                assert cut == context
                continue
            num_cut += 1
            # Its end, behind the special token it starts with if there was room for more than the tag.
            has_start = cut[0] == context[0] in tokenizer.all_special_ids and cut != context[-len(cut) :]
            assert cut[has_start:] == context[len(context) - len(cut) + has_start :]
            text = tokenizer.decode(cut, clean_up_tokenization_spaces=False)
            ending = (f" {tag}" if with_tags else "") + asked.suffix
            assert text.removesuffix("</s>" if asked.suffix != "</s>" else "").endswith(ending)
            if context[0] in tokenizer.all_special_ids and len(cut) > len(tokenizer.tokenize(ending)) + 2:
                assert cut[0] == context[0]
    assert num_cut > 5
    assert num_refused


@pytest.mark.parametrize(
    ("positions", "max_length", "limit"), [(40, None, 40), (40, 90, 40), (90, 40, 40), (-1, 40, 40)]
)
def test_the_limit_is_the_smaller_of_the_option_and_the_model_s(positions, max_length, limit, get_small_model):
    asked = Given("plain", get_small_model)
    asked.model.config.n_positions = positions
    encoded = asked.encode(max_length=max_length)
    assert encoded.num_cut > 0
    assert max(len(row["input_ids"]) for row in encoded.dataset) == limit
