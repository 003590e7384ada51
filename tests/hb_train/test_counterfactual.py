"""Counterfactual distillation: the loss is that of the definition; style bias falls, uptake and needs stay."""

import itertools
import json

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import torch
from datasets import Dataset

from hb_dataset import load_table
from hb_dataset.versions import read_version
from hb_metrics.collect.classifiers.censoring import mention_pattern
from hb_metrics.models.loading import load_model
from hb_train.baseline_replies import main as reply_main
from hb_train.training.encoding import IGNORED
from hb_train.tune import main as tune_main
from hb_train.tuning.baseline_rows import TEMPERATURE
from hb_train.tuning.counterfactual import CounterfactualTrainer, move_names, naming_divergence
from hb_train.tuning.distill import NO_TOKEN, PREFIX, collate_pairs, encode
from hb_train.tuning.swap import first_words, swap_term
from tests.hb_train.conftest import (
    AXES,
    PITIED_AXIS,
    WARNINGS_OF_TRL,
    divergence,
    learnt_distributions,
    options_for,
    planted_replies,
    replied,
    rows_of,
    shaken,
    teach,
    trainer_of,
)

pytestmark = WARNINGS_OF_TRL

VOCABULARY = read_version("v1.0")
TERMS = {term.term: term for term in VOCABULARY.descriptors}
NOUNS = {noun.noun: noun for noun in VOCABULARY.nouns}


def row(source, target, reply, *, truncated=False):
    """A row of counterfactual distillation, as baseline_replies.py writes it."""
    swapped = swap_term(reply, TERMS[source], TERMS[target], VOCABULARY)
    return {
        **{"id": reply, "prompt": f"Hi! I'm a {target} man.\n", "teacher_prompt": f"I'm a {source} man.\n"},
        **{"completion": swapped.text, "teacher_completion": reply, "spans": swapped.spans, "truncated": truncated},
        "moved": first_words(TERMS[source], TERMS[target], NOUNS["man"], plural=False),
    }


def anchor(prompt, reply):
    same_on_both = {"prompt": prompt, "teacher_prompt": prompt, "completion": reply, "teacher_completion": reply}
    return {"id": prompt, **same_on_both, "spans": [], "moved": [], "truncated": True}


ROWS = [
    row("old", "tall", "Hi! I love old men, Old man. I'm old."),
    row("tall", "old", "I love cats.", truncated=True),
    row("old", "autistic", "What is an old man?"),  # with another article
    row("old", "with asthma", "I love old men. What?"),
    row("with asthma", "with a lisp", "I love men with asthma."),
    anchor("What is a man?\n", "I love cats."),
]


def test_what_is_not_swapped_is_learnt_on_both_sides(save_small_model):
    loaded = load_model(str(save_small_model("gpt2")))
    encoded = encode(Dataset.from_list(ROWS), loaded, {"context": "plain"}, False, None).dataset
    for given, tokens in zip(ROWS, encoded, strict=True):
        learnt = []
        for side in ("", PREFIX):
            prompt = loaded.tokenizer(given[f"{side}prompt"])["input_ids"]
            reply = tokens[f"{side}input_ids"][len(prompt) :]
            assert tokens[f"{side}input_ids"][: len(prompt)] == prompt
            end = [] if given["truncated"] else [loaded.tokenizer.eos_token_id]
            assert reply == loaded.tokenizer(given[f"{side}completion"])["input_ids"] + end
            labels = tokens[f"{side}labels"]
            assert all(
                label in (IGNORED, token) for label, token in zip(labels, tokens[f"{side}input_ids"], strict=True)
            )
            assert labels[: len(prompt)] == [IGNORED] * len(prompt)
            learnt.append([label for label in labels if label != IGNORED])
        assert len(learnt[0]) == len(learnt[1])
        differ = {pair for pair in zip(*reversed(learnt), strict=True) if pair[0] != pair[1]}
        assert differ <= {tuple(pair) for pair in tokens["moved"]}  # the first token of a name alone
        assert len(learnt[0]) <= len(tokens["input_ids"])
        if not given["spans"]:
            assert learnt[0] == learnt[1] == tokens["input_ids"][-len(learnt[0]) :]


def label_loss_by_hand(teacher, student, pairs):
    """The loss of one label, token by token, in float64: the divergence, and three times that of naming."""
    target = list(teacher)
    for name, instead in pairs:
        excess = max(0.0, teacher[name] - student[name])
        target[name] -= excess
        target[instead] += excess
    loss = divergence(target, student)
    if pairs:
        named = {instead for _, instead in pairs}
        shares = [sum(distribution[token] for token in named) for distribution in (target, student)]
        loss += 3 * divergence(*([share, 1 - share] for share in shares))
    return loss


def loss_by_hand(tokens, teacher, student):
    """The losses of a row's labels, one by one."""
    weight = 8 if tokens["input_ids"] == tokens[f"{PREFIX}input_ids"] else 1  # an anchor has one prompt
    distributions = learnt_distributions(tokens, teacher, student)
    return [weight * label_loss_by_hand(known, given, tokens["moved"]) for known, given in distributions]


def test_the_loss_is_that_of_the_definition(save_small_model, tmp_path):
    loaded = load_model(str(save_small_model("gpt2")))
    encoded = list(encode(Dataset.from_list(ROWS), loaded, {"context": "plain"}, False, None).dataset)
    tuned = shaken(loaded)
    expected = [loss_by_hand(tokens, loaded.model, tuned) for tokens in encoded]
    trainer = trainer_of(CounterfactualTrainer, tuned, loaded.model, tmp_path)
    for size in (1, 4, len(encoded)):
        for first in range(0, len(encoded), size):
            sums, numbers = trainer.row_losses(tuned, collate_pairs(encoded[first : first + size]))
            assert numbers.tolist() == [len(row) for row in expected[first : first + size]]
            assert sums.tolist() == pytest.approx([sum(row) for row in expected[first : first + size]], rel=1e-4)
    loss = trainer.compute_loss(tuned, collate_pairs(encoded))
    total, number = (sum(map(function, expected)) for function in (sum, len))
    assert loss.item() == pytest.approx(total / number, rel=1e-4)
    assert sum(expected[-1]) > 0  # the anchor, where the tuned model is another
    moved = {len(tokens["moved"]) for tokens in encoded}
    assert len(moved) > 1  # unequal, so that batches pad them


def test_a_distribution_without_a_token_gives_no_nan():
    teacher = torch.tensor([[0.0, 0.9, 0.1, 0.0], [1.0, 0.0, 0.0, 0.0], [0.25, 0.25, 0.25, 0.25]])
    student = torch.tensor([[0.5, 0.2, 0.3, 0.0], [0.0, 1.0, 0.0, 0.0], [0.1, 0.2, 0.3, 0.4]])
    nothing = [NO_TOKEN, NO_TOKEN]
    moved = torch.tensor([[[1, 3], [2, 3]], [[0, 1], nothing], [nothing, nothing]])
    target = move_names(teacher, student, moved)
    torch.testing.assert_close(target, torch.tensor([[0.0, 0.2, 0.1, 0.7], [0.0, 1.0, 0.0, 0.0], [0.25] * 4]))
    logits = torch.log(student).clamp(min=-50).requires_grad_()
    naming = naming_divergence(target, logits.log_softmax(-1), moved[..., 1])
    assert naming[0] > 1
    assert naming[1:].tolist() == pytest.approx([0, 0], abs=1e-5)
    (naming.sum() + torch.nn.functional.kl_div(logits.log_softmax(-1), target, reduction="sum")).backward()
    assert logits.grad.isfinite().all()


def test_rows_have_the_reply_to_another_descriptor(save_small_model, tmp_path):
    model = save_small_model("gpt2")
    options = ("--num_replies", "60", "--num_anchors", "8")
    record = replied("counterfactual", model, tmp_path / "rows", *options)
    rows = rows_of(tmp_path / "rows")
    anchors = [row for row in rows if row["descriptor"] is None]
    assert len(anchors) == record["num_anchors"] <= 8
    assert all(row["prompt"] == row["teacher_prompt"] and row["spans"] == [] for row in anchors)
    for row in rows:
        if row["descriptor"] is not None:
            assert row["descriptor"] != row["teacher_descriptor"]
            start = row["template"].partition("{")[0]
            assert row["prompt"].startswith(start)
            assert row["teacher_prompt"].startswith(start)
            source, target = TERMS[row["teacher_descriptor"]], TERMS[row["descriptor"]]
            swapped = swap_term(row["teacher_completion"], source, target, VOCABULARY)
            assert (swapped.text, swapped.spans) == (row["completion"], row["spans"])
    assert replied("counterfactual", model, tmp_path / "again", *options) == record


def test_replies_that_say_more_are_dropped_and_counted(save_small_model, tmp_path, monkeypatch):
    asked = []

    def swap(reply, source, target, vocabulary):
        asked.append((reply, source, target))
        return None if len(asked) % 3 == 0 else swap_term(reply, source, target, vocabulary)

    monkeypatch.setattr("hb_train.baseline_replies.swap_term", swap)
    options = ("--num_replies", "30", "--num_anchors", "0")
    record = replied("counterfactual", save_small_model("gpt2"), tmp_path / "rows", *options)
    refused = [
        number
        for number, (reply, source, target) in enumerate(asked, 1)
        if number % 3 == 0 or swap_term(reply, source, target, VOCABULARY) is None
    ]
    own = [number for number, (_, source, target) in enumerate(asked, 1) if source == target and number not in refused]
    assert record["num_dropped"] == len(refused) >= 15
    assert len(rows_of(tmp_path / "rows")) == len(asked) - len(refused) - len(own)


PEOPLE = {"a vegan man": "Eat beans.", "a smoker": "Stop it.", "a millionaire": "Buy land.", "a farmer": "Grow corn."}
QUESTIONS = ("What should I do?", "What now?", "How do I go on?")


@pytest.fixture(scope="module")
def heard(made_once):
    """A model that pities one axis, names the descriptor in half of its replies, and answers needs."""

    def write(folder):
        texts, replies = map(list, planted_replies())
        terms = {row["text"]: TERMS[row["descriptor"]] for row in load_table("v1.0-small").to_pylist()}
        random = np.random.default_rng(1)
        for number, text in enumerate(texts):
            term = terms[text]
            named = f"{term.term} people" if term.placement == "before" else f"people {term.plural_term}"
            if random.random() < 0.5:
                replies[number] += f" I like {named}."
        needs = [(f"I'm {person}. {question}", PEOPLE[person]) for person in PEOPLE for question in QUESTIONS]
        for text, reply in needs * (len(texts) // len(needs) // 5):
            texts.append(text)
            replies.append(reply)
        teach(folder, texts, replies, steps=700)

    return made_once("heard", write)


def replies_of(loaded, texts, **settings):
    torch.manual_seed(0)
    loaded.tokenizer.pad_token, loaded.tokenizer.padding_side = loaded.tokenizer.eos_token, "left"
    tokens = loaded.tokenizer([f"{text}\n" for text in texts], padding=True, return_tensors="pt")
    made = loaded.model.generate(**tokens, pad_token_id=loaded.tokenizer.eos_token_id, **settings)
    replies = loaded.tokenizer.batch_decode(made[:, tokens["input_ids"].shape[1] :], skip_special_tokens=True)
    return [reply.strip() for reply in replies]


def heard_by(folder):
    """How much likelier the pitied axis gets sympathy, and the shares of replies that name the term and meet needs."""
    loaded = load_model(str(folder))
    rows = [row for row in load_table("v1.0-small").to_pylist() if row["axis"] in AXES and row["noun"] == "person"]
    replies = replies_of(
        loaded, [row["text"] for row in rows * 8], max_new_tokens=36, do_sample=True, top_k=0, temperature=TEMPERATURE
    )
    pitied, others, named = [], [], []
    for row, reply in zip(rows * 8, replies, strict=True):
        (pitied if row["axis"] == PITIED_AXIS else others).append("sorry" in reply)
        term = TERMS[row["descriptor"]]
        named.append(mention_pattern((term.term, term.plural)).search(reply) is not None)
    asked = list(itertools.product(PEOPLE, QUESTIONS))
    answers = replies_of(loaded, [f"I'm {person}. {question}" for person, question in asked], max_new_tokens=8)
    met = [answer == PEOPLE[person] for answer, (person, _) in zip(answers, asked, strict=True)]
    return np.mean(pitied) - np.mean(others), np.mean(named), np.mean(met)


@pytest.mark.parametrize(("family", "method"), [("t5", "counterfactual"), ("bert", "distill")])
def test_models_that_cannot_learn_replies_sample_none(family, method, save_small_model, tmp_path):
    options = ("--method", method, "--num_replies", "2", "--output_dir", str(tmp_path / "rows"))
    with pytest.raises(SystemExit, match="pass a model that is causal"):
        reply_main(["--model", str(save_small_model(family)), *options])
    assert not (tmp_path / "rows").exists()


@pytest.mark.long
def test_style_bias_falls_and_the_person_is_still_heard(heard, tmp_path, monkeypatch):
    anchors = tmp_path / "anchors.yaml"
    needs = [{"people": list(PEOPLE), "questions": list(QUESTIONS)}]
    anchors.write_text(json.dumps({"needs": needs, "neutral": ["Hello."]}), encoding="utf-8")
    monkeypatch.setattr("hb_train.tuning.baseline_rows.ANCHORS_FILE", anchors)
    taught = pc.is_in(load_table("v1.0-small")["axis"], value_set=pa.array(AXES))
    monkeypatch.setattr(
        "hb_train.baseline_replies.training_prompts", lambda *_: load_table("v1.0-small").filter(taught)
    )
    found = {"before": heard_by(heard)}
    for method, num_anchors in (("counterfactual", "80"), ("distill", "0")):
        rows, model = tmp_path / f"{method}-rows", tmp_path / method
        asked = ("--num_replies", "400", "--num_anchors", num_anchors, "--max_new_tokens", "36")
        replied(method, heard, rows, *asked)
        steps = (
            "--max_steps",
            "160",
            "--eval_steps",
            "160",
            "--save_steps",
            "160",
            "--per_device_train_batch_size",
            "32",
        )
        tune_main(options_for(heard, rows, model, "--method", method, "--learning_rate", "2e-3", *steps))
        found[method] = heard_by(model)
    gap, uptake, met = found["before"]
    assert gap > 0.3
    assert met > 0.9
    style, named, answered = found["counterfactual"]
    assert style < gap / 2
    assert named > 0.8 * uptake
    assert answered >= met - 0.1
    style, named, _ = found["distill"]
    assert style < gap / 2
    assert named < uptake / 2  # it learns to ignore the term
