"""The data of response generation: how pairs are split, what is learnt, and the contexts that are responded to."""

import pytest

from hb_dataset.dialogue_pairs import Dialogue
from hb_metrics.models.loading import load_model
from hb_train.response_generation import encode_responses, split_pairs
from hb_train.training.encoding import IGNORED
from tests.hb_metrics.conftest import encode_contexts
from tests.hb_train.conftest import ANSWER, learn, pitying_tokenizer, planted_replies


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    """A model that was taught nothing: only its tokenizer and its length count here."""
    folder = tmp_path_factory.mktemp("untaught")
    learn(folder, pitying_tokenizer(), [], [], steps=0, bos_token_id=None)
    return load_model(str(folder))


def test_a_prompt_and_all_its_replies_are_in_one_split():
    names = [str(index) for index in range(60)]
    dialogue = Dialogue(names, [f"prompt {index % 25}" for index in range(60)], names, "here", {})
    train, test = split_pairs(dialogue, 10, 0)
    tested = {prompt for _, prompt, _ in test}
    assert len(tested) == len(test) == 10
    assert not tested & {prompt for _, prompt, _ in train}
    replies = [reply for _, _, replies in test for reply in replies] + [reply for _, _, reply in train]
    assert sorted(replies) == sorted(names)
    assert split_pairs(dialogue, 10, 1) != (train, test)
    turned = Dialogue(names[::-1], dialogue.prompts[::-1], names[::-1], "here", {})
    assert {prompt for _, prompt, _ in split_pairs(turned, 10, 0)[1]} == tested
    with pytest.raises(ValueError, match="num_test uses 25 of the 25 different prompts"):
        split_pairs(dialogue, 25, 0)


def test_only_the_response_is_learnt(loaded):
    texts, replies = (column[:8] for column in planted_replies())
    rows = [(str(index), *pair) for index, pair in enumerate(zip(texts, replies, strict=True))]
    contexts = encode_contexts(texts, [[]] * len(texts), loaded.model, loaded.tokenizer, "plain")
    encoded, num_too_long = encode_responses(rows, loaded, "plain", 64)
    assert (encoded.num_cut, num_too_long) == (0, 0)
    for row, context, reply in zip(encoded.dataset, contexts, replies, strict=True):
        learnt = [token for token in row["labels"] if token != IGNORED]
        assert row["input_ids"] == context + learnt
        assert row["labels"][: len(context)] == [IGNORED] * len(context)
        assert loaded.tokenizer.decode(learnt) == reply + "</s>"


def test_contexts_are_cut_and_long_responses_left_out(loaded):
    long = " ".join(["I am a person who has a friend."] * 10)
    rows = [("0", long, ANSWER), ("1", "Hi.", long)]
    encoded, num_too_long = encode_responses(rows, loaded, "plain", 30)
    assert (len(encoded.dataset), encoded.num_cut, num_too_long) == (1, 1, 1)
    (row,) = encoded.dataset
    assert len(row["input_ids"]) == 30
    (whole,) = encode_contexts([long], [[]], loaded.model, loaded.tokenizer, "plain")
    number = row["labels"].count(IGNORED)
    assert row["input_ids"][:number] == whole[-number:]
