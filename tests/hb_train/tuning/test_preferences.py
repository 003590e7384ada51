"""The rows that KTO and DPO are given, by hand."""

import pytest
from datasets import Dataset

from hb_train.tuning.preferences import dpo_pairs, kto_rows, undesirable_weight

SUFFIX = "\nBot:"


def dataset(rows):
    """Labelled rows of (id, prompt, reply, tag, bias value), and tokens: one for each letter, context then reply."""
    labelled = [
        {"id": id_, "prompt": f"{prompt} {tag}{SUFFIX}", "completion": reply, "tag": tag, "bias_value": value}
        for id_, prompt, reply, tag, value in rows
    ]
    encoded = []
    for row, (_, prompt, *_) in zip(labelled, rows, strict=True):
        context, learnt = [ord(letter) for letter in prompt + SUFFIX], [ord(letter) for letter in row["completion"]]
        encoded.append({"input_ids": context + learnt, "labels": [-100] * len(context) + learnt})
    return Dataset.from_list(labelled), Dataset.from_list(encoded)


def text(tokens):
    return "".join(map(chr, tokens))


def test_kto_has_each_reply_after_its_prompt_without_the_tag():
    rows = kto_rows(*dataset([("1", "Hi.", "Oh.", "bias", 1.0), ("2", "Hello.", "Yes!", "no_bias", 0.0)]), "train")
    got = [(text(row["prompt_ids"]), text(row["completion_ids"]), row["label"]) for row in rows]
    assert got == [("Hi.\nBot:", "Oh.", False), ("Hello.\nBot:", "Yes!", True)]
    with pytest.raises(ValueError, match="all 1 of train are tagged 'bias'"):
        kto_rows(*dataset([("1", "Hi.", "Oh.", "bias", 1.0)]), "train")


def test_dpo_pairs_the_least_with_the_most_biased_reply_to_a_prompt():
    rows = [
        ("1", "Hi.", "middle", "no_bias", 0.2),
        ("2", "Only one.", "alone", "bias", 9.0),
        ("1#2", "Hi.", "most", "bias", 3.0),
        ("1#3", "Hi.", "least", "no_bias", -1.0),
        ("3", "Both low.", "a", "no_bias", 0.1),
        ("3#2", "Both low.", "b", "no_bias", 0.2),
        ("4", "Same words.", "c", "no_bias", 0.1),
        ("4#2", "Same words.", "c", "bias", 0.9),
        ("5#2", "Ties.", "second", "bias", 0.9),
        ("5#3", "Ties.", "third", "bias", 0.9),
        ("5", "Ties.", "first", "no_bias", 0.1),
        # With another noun it is another prompt, though of the same cell.
        ("6", "I'm a man.", "d", "no_bias", 0.1),
        ("7", "I'm a woman.", "e", "bias", 0.9),
    ]
    pairs = dpo_pairs(*dataset(rows), SUFFIX, "train")
    names = ("prompt_ids", "chosen_ids", "rejected_ids")
    assert [tuple(text(row[name]) for name in names) for row in pairs.dataset] == [
        ("Hi.\nBot:", "least", "most"),
        ("Ties.\nBot:", "first", "second"),
    ]
    assert (pairs.num_prompts, pairs.num_unpaired) == (7, 5)
    with pytest.raises(ValueError, match="of the 1 prompts of validation, 1 have several replies and none has both"):
        dpo_pairs(*dataset(rows[4:6]), SUFFIX, "validation")


def test_a_context_that_was_cut_for_the_longer_reply_goes_with_both():
    rows, encoded = dataset([("1", "Hi.", "short", "no_bias", 0.0), ("1#2", "Hi.", "much longer", "bias", 1.0)])
    tokens = encoded.to_list()
    tokens[1] = {name: values[3:] for name, values in tokens[1].items()}
    (pair,) = dpo_pairs(rows, Dataset.from_list(tokens), SUFFIX, "train").dataset
    assert text(pair["prompt_ids"]) == "\nBot:"
    assert (text(pair["chosen_ids"]), text(pair["rejected_ids"])) == ("short", "much longer")


def test_both_kinds_of_replies_weigh_the_same_in_all():
    labels = [True] * 85 + [False] * 15
    assert 15 * undesirable_weight(labels, 2.0) == pytest.approx(85 * 2.0)
