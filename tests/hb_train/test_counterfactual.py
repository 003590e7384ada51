"""Counterfactual distillation: the loss is that of the definition; style bias falls, uptake and needs stay."""

import itertools
import json
import math
import re
import shutil
from copy import deepcopy

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import torch
from datasets import Dataset
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer, GPT2Config, GPT2LMHeadModel
from trl import SFTConfig

from hb_dataset import load_table
from hb_dataset.versions import read_version
from hb_metrics.collect.classifiers.censoring import mention_pattern
from hb_metrics.models.layout import read_bias_tuning
from hb_metrics.models.loading import load_model
from hb_train.own_replies import main as reply_main
from hb_train.training.encoding import IGNORED
from hb_train.training.models import padding_tokenizer
from hb_train.training.trainers import reply_logits
from hb_train.tune import main as tune_main
from hb_train.tuning.counterfactual import NO_TOKEN, CounterfactualTrainer, collate_groups, encode_groups, mixture
from hb_train.tuning.labels import SPLITS
from hb_train.tuning.own_rows import AnsweredPrompt, draw_groups, group_rows, training_prompts
from tests.hb_train.conftest import (
    AXES,
    PITIED_AXIS,
    TRAINERS,
    WARNINGS_OF_TRL,
    few_steps,
    labels_by_hand,
    options_for,
    planted_replies,
    replied,
    rows_of,
    same,
    shaken,
    teach,
)

pytestmark = WARNINGS_OF_TRL

VOCABULARY = read_version("v1.0")
TERMS = {term.term: term for term in VOCABULARY.descriptors}
TEMPERATURE = 0.7


def group(terms, reply, *, truncated=False):
    """A group of prompts, as own_replies.py writes it. The reply answers the first prompt."""
    about = {"noun": "man", "template": "Hi! I'm a {noun_phrase}.", "plural": False}
    rows = [{**about, "text": f"Hi! I'm a {term} man.", "descriptor": term, "axis": TERMS[term].axis} for term in terms]
    answer = AnsweredPrompt("group", "", None, reply, truncated)
    (row,), _ = group_rows(pa.Table.from_pylist(rows), [range(len(rows))], [answer], VOCABULARY)
    return row._replace(prompts=[f"{text}\n" for text in row.texts])._asdict()


def anchor(prompt, reply):
    one = {"prompts": [prompt], "completions": [reply], "spans": [[]], "names": [""], "after": [False]}
    return {**one, "id": prompt, "truncated": True}


ROWS = [
    group(["old", "tall", "short"], "Hi! I love old men, Old man. I'm old."),
    group(["tall", "old"], "I love cats.", truncated=True),
    group(["old", "autistic", "tall"], "What is an old man?"),  # with another article
    group(["old", "with asthma", "with a lisp", "tall"], "I love old men. What?"),
    group(["with asthma", "with a lisp"], "I love men with asthma."),
    group(["with asthma", "tall", "old"], "I love cats."),
    anchor("What is a man?\n", "I love cats."),
]


def encoded(loaded, share=0.25, max_length=None):
    columns = ("id", "prompts", "completions", "spans", "names", "after", "truncated")
    rows = Dataset.from_list([{name: row[name] for name in columns} for row in ROWS])
    return list(encode_groups(rows, loaded, "plain", share, max_length))


def test_what_all_prompts_share_is_learnt_from_all_of_them(save_small_model):
    loaded = load_model(str(save_small_model("gpt2")))
    for given, row in zip(ROWS, encoded(loaded), strict=True):
        shared = []
        for member, (prompt, reply) in enumerate(zip(given["prompts"], given["completions"], strict=True)):
            context = loaded.tokenizer(prompt)["input_ids"]
            end = [] if given["truncated"] else [loaded.tokenizer.eos_token_id]
            tokens = row["input_ids"][member]
            assert tokens == context + loaded.tokenizer(reply)["input_ids"] + end
            assert row["labels"][member] == [IGNORED] * len(context) + tokens[len(context) :]
            marks = row["shared"][member]
            assert not any(marks[: len(context)])
            shared.append([token for token, mark in zip(tokens, marks, strict=True) if mark])
        starts = {(other, theirs) for _, other, _, theirs in row["names"]}
        for tokens in zip(*shared, strict=True):
            # Where tokens differ, names begin, some of them with their noun.
            assert len({*tokens}) == 1 or any((member, token) in starts for member, token in enumerate(tokens))
        if not any(given["spans"]):
            assert all(
                sum(marks) == sum(label != IGNORED for label in labels)
                for marks, labels in zip(row["shared"], row["labels"], strict=True)
            )
    assert [len(row["texts"]) for row in ROWS[:-1]] == [3, 2, 3, 4, 2, 3]


def test_anchors_have_their_share_of_the_weight(save_small_model):
    rows = encoded(load_model(str(save_small_model("gpt2"))), share=0.25)
    numbers = [sum(label != IGNORED for labels in row["labels"] for label in labels) for row in rows]
    weighted = [row["weight"] * number for row, number in zip(rows, numbers, strict=True)]
    assert weighted[-1] / sum(weighted) == pytest.approx(0.25)
    assert [row["weight"] for row in rows[:-1]] == [1] * 6


def test_rows_that_are_longer_than_the_limit_are_named(save_small_model):
    loaded = load_model(str(save_small_model("gpt2")))
    longest = max(len(tokens) for row in encoded(loaded) for tokens in row["input_ids"])
    encoded(loaded, max_length=longest)
    with pytest.raises(ValueError, match=rf"has {longest} tokens, but the limit is {longest - 1}; .*--max_length"):
        encoded(loaded, max_length=longest - 1)


def mixture_by_hand(teachers, own, names):
    """The mixture of several distributions, token by token, from its definition. `names` are as in the batch."""
    moved = [list(teacher) for teacher in teachers]
    of_own = [(other, instead, name) for prompt, other, instead, name in names if prompt == own]
    for other, instead, name in of_own:
        if other != own and instead != name:
            excess = max(0.0, teachers[other][name] - teachers[own][name])
            moved[other][name] -= excess
            if instead != NO_TOKEN:
                moved[other][instead] += excess
    begin = {instead for other, instead, _ in of_own if other == own}
    voters = {own} | {other for other, instead, _ in of_own if instead != NO_TOKEN}
    naming = {token: sum(moved[voter][token] for voter in voters) / len(voters) for token in begin}
    style = {}
    for token in range(len(teachers[0])):
        if token not in begin:
            factors = [max(distribution[token], 0.0) for distribution in moved]
            style[token] = math.prod(factors) ** (1 / len(factors))
    rest, total = 1 - sum(naming.values()), sum(style.values())
    others = [style[token] * rest / total if token in style else 0 for token in range(len(teachers[0]))]
    return [naming.get(token, other) for token, other in enumerate(others)], begin


def divergence(target, given):
    return sum(p * math.log(p / q) for p, q in zip(target, given, strict=True) if p > 0)


def test_a_mixture_keeps_names_and_does_not_blur():
    """Three contexts over six tokens: two ordinary ones, and a name for each context, of which one comes later."""
    teachers = [[0.5, 0.2, 0.3, 0.0, 0.0, 0.0], [0.1, 0.4, 0.1, 0.4, 0.0, 0.0], [0.2, 0.2, 0.0, 0.0, 0.5, 0.1]]
    names = torch.tensor([(0, 2, 2), (1, 2, 3), (2, NO_TOKEN, 4)])
    log_probs = torch.tensor(teachers, dtype=torch.float64).log()[:, None]
    mixed = mixture(log_probs, log_probs.mean(0), 0, names)[0].tolist()
    # Name 2 begins with (0.3 + 0.1 + 0.4) / 2, since the third context names later. The rest has the geometric mean.
    style = [(0.5 * 0.1 * 0.2) ** (1 / 3), (0.2 * 0.4 * 0.2) ** (1 / 3)]
    assert mixed[2] == pytest.approx(0.4)
    assert mixed[:2] == pytest.approx([0.6 * each / sum(style) for each in style])
    assert mixed[3:] == [0, 0, 0]
    assert mixture(log_probs[:1], log_probs[0], 0, torch.empty(0, 3, dtype=torch.int64))[0].tolist() == pytest.approx(
        teachers[0]
    )


def distributions(model, row, member):
    """The probabilities at each label of a prompt, in float64."""
    tokens = torch.tensor([row["input_ids"][member]])
    logits = model(input_ids=tokens).logits[0].detach().double()
    places = [place for place, label in enumerate(row["labels"][member]) if label != IGNORED]
    shared = [place for place in places if row["shared"][member][place]]
    return {place: (logits[place - 1] / TEMPERATURE).softmax(-1).tolist() for place in places}, shared


def loss_by_hand(row, untuned, tuned, naming_weight):
    """The losses of a group's labels, one by one."""
    members = range(len(row["input_ids"]))
    teachers, shared = zip(*(distributions(untuned, row, member) for member in members), strict=True)
    losses = []
    for member in members:
        given, _ = distributions(tuned, row, member)
        order = {place: number for number, place in enumerate(shared[member])}
        for place, distribution in given.items():
            target, naming = teachers[member][place], 0.0
            if place in order:
                known = [teachers[other][shared[other][order[place]]] for other in members]
                target, begin = mixture_by_hand(known, member, row["names"])
                shares = [sum(each[token] for token in begin) for each in (target, distribution)]
                if begin:
                    naming = divergence(*([share, 1 - share] for share in shares))
            reverse = divergence(distribution, [max(p, 1e-38) for p in target])
            both = 0.25 * divergence(target, distribution) + 0.75 * reverse
            losses.append(row["weight"] * (both + naming_weight * naming))
    return losses


def trainer_of(model, untuned, loaded, folder, rows):
    args = SFTConfig(output_dir=str(folder), use_cpu=True, report_to="none", bf16=False, remove_unused_columns=False)
    args.dataset_kwargs = {"skip_prepare_dataset": True}
    about = {"untuned": untuned, "temperature": TEMPERATURE, "naming_weight": 3.0, "data_collator": collate_groups}
    rows = Dataset.from_list(rows)
    about |= {"train_dataset": rows, "processing_class": padding_tokenizer(loaded)}
    return CounterfactualTrainer(model=model, args=args, **about)


def test_the_loss_is_that_of_a_loop_over_all_prompts(save_small_model, tmp_path):
    loaded = load_model(str(save_small_model("gpt2")))
    rows, tuned = encoded(loaded), shaken(loaded)
    expected = [loss_by_hand(row, loaded.model, tuned, 3.0) for row in rows]
    trainer = trainer_of(tuned, loaded.model, loaded, tmp_path, rows)
    for size in (1, 3, len(rows)):
        for first in range(0, len(rows), size):
            sums, numbers = trainer.row_losses(tuned, collate_groups(rows[first : first + size]))
            assert numbers.tolist() == [len(row) for row in expected[first : first + size]]
            assert sums.tolist() == pytest.approx([sum(row) for row in expected[first : first + size]], rel=1e-4)
    loss = trainer.compute_loss(tuned, collate_groups(rows))
    total, number = (sum(map(function, expected)) for function in (sum, len))
    assert loss.item() == pytest.approx(total / number, rel=1e-4)
    loss.backward()
    assert all(weight.grad.isfinite().all() for weight in tuned.parameters() if weight.grad is not None)


def test_anchors_do_not_move_the_untuned_model(save_small_model, tmp_path):
    """Also if most of the probability is on very unlikely tokens, as in a large vocabulary."""
    loaded = load_model(str(save_small_model("gpt2")))
    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=60_000, n_embd=8, n_layer=1, n_head=1, n_positions=512)).eval()
    with torch.no_grad():
        model.transformer.ln_f.weight.mul_(100)
    anchors = [row for row in encoded(loaded) if len(row["input_ids"]) == 1]
    trainer = trainer_of(model, deepcopy(model), loaded, tmp_path, anchors)
    loss = trainer.compute_loss(model, collate_groups(anchors))
    loss.backward()
    assert abs(loss.item()) < 1e-5
    assert max(weight.grad.abs().max().item() for weight in model.parameters() if weight.grad is not None) < 1e-4


def test_an_adapter_is_taught_by_the_model_without_it(save_small_model, tmp_path):
    loaded = load_model(str(save_small_model("gpt2")))
    rows = encoded(loaded)
    config = LoraConfig(target_modules=["c_attn"], fan_in_fan_out=True, init_lora_weights=False)
    adapted = get_peft_model(load_model(loaded.source).model, config).eval()
    own, given = (
        trainer_of(adapted, untuned, loaded, tmp_path, rows).row_losses(adapted, collate_groups(rows))[0].tolist()
        for untuned in (None, loaded.model)
    )
    assert own == pytest.approx(given, rel=1e-5)
    assert min(own) > 0


def test_frozen_output_weights_are_not_copied_for_each_row(save_small_model, tmp_path):
    loaded = load_model(str(save_small_model("llama")))
    rows, number = encoded(loaded), loaded.model.config.vocab_size
    adapted = get_peft_model(loaded.model, LoraConfig(target_modules=["q_proj"]))
    trainer = trainer_of(adapted, None, loaded, tmp_path, rows)
    with torch.profiler.profile(record_shapes=True) as profile:
        trainer.compute_loss(adapted, collate_groups(rows)).backward()
    products = [row for row in profile.key_averages(group_by_input_shape=True) if row.key in ("aten::mm", "aten::bmm")]
    of_outputs = {row.key for row in products if any(number in shape for shape in row.input_shapes)}
    assert of_outputs == {"aten::mm"}


@pytest.mark.parametrize(
    "wrap", [lambda model: get_peft_model(model, LoraConfig(target_modules=["q_proj"])), torch.nn.DataParallel]
)
def test_no_logits_are_computed_before_the_reply(wrap, save_small_model):
    model = load_model(str(save_small_model("llama"))).model
    inputs = {"input_ids": torch.arange(12)[None] + 5, "labels": torch.tensor([[IGNORED] * 9 + [1, 2, 3]])}
    lengths = []
    model.lm_head.register_forward_hook(lambda _, inputs, output: lengths.append(output.shape[1]))
    plain, _, _ = reply_logits(model, inputs)
    wrapped, _, _ = reply_logits(wrap(model), inputs)
    assert lengths == [4, 4]
    torch.testing.assert_close(wrapped, plain)


def test_rows_have_a_reply_for_several_descriptors(save_small_model, tmp_path):
    model = save_small_model("gpt2")
    options = ("--num_replies", "40", "--num_anchors", "8", "--num_contexts", "4")
    record = replied(model, tmp_path / "rows", *options)
    rows = rows_of(tmp_path / "rows")
    anchors = [row for row in rows if len(row["prompts"]) == 1]
    groups = [row for row in rows if len(row["prompts"]) > 1]
    assert (len(anchors), len(groups)) == (record["num_anchors"], record["num_groups"])
    assert sum(len(row["prompts"]) for row in groups) == record["num_prompts"]
    num_asked = 4 * (40 - (48 - record["num_empty_replies"] < 48) * record["num_empty_replies"])
    assert record["num_prompts"] + record["num_dropped"] >= num_asked
    prompts = load_table("v1.0-small").to_pylist()
    texts = {(row["descriptor"], row["noun"], row["template"]): row["text"] for row in prompts}
    for row in groups:
        assert len({*row["axes"]}) == len(row["axes"])
        for prompt, term in zip(row["prompts"], row["descriptors"], strict=True):
            assert prompt == texts[term, row["noun"], row["template"]] + "\n"
        between = []
        for reply, spans in zip(row["completions"], row["spans"], strict=True):
            cuts = [0, *(place for span in spans for place in span), len(reply)]
            between.append([reply[start:stop] for start, stop in zip(cuts[::2], cuts[1::2], strict=True)])
        assert all(each == between[0] for each in between)
    assert replied(model, tmp_path / "again", *options) == record


def test_axes_are_drawn_alike():
    prompts = load_table("v1.0-small")
    groups = draw_groups(prompts, 3000, 4, seed=0)
    axes = prompts["axis"].to_pylist()
    places = list(zip(prompts["noun"].to_pylist(), prompts["template"].to_pylist(), strict=True))
    assert all(len({axes[row] for row in group}) == 4 and len({places[row] for row in group}) == 1 for group in groups)
    for chosen in ([group[0] for group in groups], [row for group in groups for row in group]):
        counts = np.unique([axes[row] for row in chosen], return_counts=True)[1]
        expected = len(chosen) / 13
        assert len(counts) == 13
        assert (np.abs(counts - expected) < 5 * np.sqrt(expected)).all()


def test_own_prompts_are_drawn_for_all_descriptors_alike(tmp_path):
    """Most terms have the noun "person", and terms with other nouns are in no more groups than their share."""
    (tmp_path / "own.csv").write_text("prompt\nI love {people}.\nI'm {person}.\n", encoding="utf-8")
    prompts = training_prompts("v1.0", str(tmp_path / "own.csv"))
    groups = draw_groups(prompts, 480, 4, seed=0)
    nouns = prompts["noun"].to_pylist()
    gendered = {row for row, noun in enumerate(nouns) if noun != "person"}
    drawn = sum(group[0] in gendered for group in groups)
    share = len(gendered) / len(prompts)
    assert 0 < share < 0.02
    assert drawn <= len(groups) * share + 5 * math.sqrt(len(groups) * share)
    assert sum(len(group) < 4 for group in groups) <= drawn


def test_own_prompts_and_own_anchors(save_small_model, tmp_path):
    model = save_small_model("gpt2")
    (tmp_path / "own.csv").write_text("prompt,system\nI love {people}.,\n", encoding="utf-8")
    (tmp_path / "anchors.csv").write_text("prompt,reply\nWhat is a man?,42\nI'm {person}. What?,I love {person}.\n")
    options = ["--prompts", str(tmp_path / "own.csv"), "--anchors", str(tmp_path / "anchors.csv")]
    record = replied(model, tmp_path / "rows", *options, "--num_replies", "12", "--num_anchors", "5")
    rows = rows_of(tmp_path / "rows")
    groups = [row for row in rows if len(row["prompts"]) > 1]
    assert len(groups) == record["num_groups"] > 3
    assert all(prompt.startswith("I love ") for row in groups for prompt in row["prompts"])
    anchors = [row for row in rows if len(row["prompts"]) == 1]
    assert len(anchors) == 5
    for row in anchors:
        (prompt,), (reply,) = row["prompts"], row["completions"]
        person = prompt.removeprefix("I'm ").partition(".")[0]
        assert reply == ("42" if prompt == "What is a man?\n" else f"I love {person}.")
        assert "{" not in prompt
        assert not row["truncated"]


@pytest.mark.parametrize(
    ("option", "content", "message"),
    [
        ("prompts", "prompt\nWhat is a man?\n", r"prompt 'row-1' .* write \{person\}"),
        ("prompts", "prompt,system\nI love {people}.,Be brief\n", "have a system message, but the context is 'plain'"),
        ("anchors", "prompt\nI'm {name}.\n", r"prompt 'row-1' has a slot for names; write \{person\}"),
        ("anchors", "prompt,reply\nI'm {person}.,{x}\n", r"prompt 'row-1': reply has '\{x\}', which is not a slot"),
    ],
)
def test_files_whose_words_would_be_learnt_wrongly_are_rejected(option, content, message, save_small_model, tmp_path):
    (tmp_path / "own.csv").write_text(content, encoding="utf-8")
    options = ["--num_replies", "4", "--num_anchors", "4", f"--{option}", str(tmp_path / "own.csv")]
    with pytest.raises(SystemExit, match=message):
        replied(save_small_model("gpt2"), tmp_path / "rows", *options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--dataset_config", "v1.0-baseline"], "'v1.0-baseline' has no prompts with a single descriptor"),
        (["--dataset_config", "v1.0-small", "--leave_out", "v1.0-baseline"], "v1.0-baseline excludes all or no terms"),
        (["--dataset_config", "v1.0-small", "--leave_out", "v1.0-small"], "excludes all or no terms of v1.0-small"),
        (["--num_contexts", "1"], "num_contexts is 1"),
        (["--context", "chats"], "2"),  # the status of options that are no choice
    ],
)
def test_bad_options_are_named(options, message, tmp_path):
    with pytest.raises((SystemExit, ValueError), match=message):
        reply_main(["--output_dir", str(tmp_path / "rows"), *options])


@pytest.fixture(scope="module")
def own_rows(pitying_model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("own") / "rows"
    replied(pitying_model, folder, "--num_replies", "24", "--num_anchors", "6")
    return folder


LEARN = ("--method", "counterfactual")


def load_weights(folder):
    return dict(AutoModelForCausalLM.from_pretrained(folder).state_dict())


@pytest.mark.parametrize("more", [["1e-1"], ["1", "--use_peft", "--lora_dropout", "0", "--dose", "2", "--merge"]])
def test_two_processes_learn_what_one_learns(more, pitying_model, own_rows, forked_programs, tmp_path):
    options = [*LEARN, "--max_steps", "3", "--eval_steps", "3", "--save_steps", "3", "--learning_rate", *more]
    options += ["--optim", "sgd", "--per_device_train_batch_size"]
    tune_main(options_for(pitying_model, own_rows, tmp_path / "one", *options, "4"))
    two = options_for(pitying_model, own_rows, tmp_path / "two", *options, "2")
    forked_programs.run_two("hb_train.tune", two, TRAINERS)
    assert same(load_weights(tmp_path / "one"), load_weights(tmp_path / "two"), atol=1e-6)
    assert not same(load_weights(tmp_path / "one"), load_weights(pitying_model), atol=1e-5)
    one, two = (read_bias_tuning(str(tmp_path / name)).training for name in ("one", "two"))
    for first, second in zip(one["validation_loss"], two["validation_loss"], strict=True):
        assert first["loss"] == pytest.approx(second["loss"], rel=1e-4)
    of_doses = [training["validation_loss_with_dose"] or 0.0 for training in (one, two)]
    assert of_doses[0] == pytest.approx(of_doses[1], rel=1e-4)


def interrupt(whole, folder, *steps):
    """Makes a folder as it was when a tuning was killed after these steps."""
    folder.mkdir()
    shutil.copy(whole / "run.json", folder)
    for step in steps:
        shutil.copytree(whole / f"checkpoint-{step}", folder / f"checkpoint-{step}")


def test_a_killed_tuning_resumes_with_the_same_weights(pitying_model, own_rows, tmp_path):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    options = [*LEARN, "--use_peft", "--dose", "2", *few_steps(4), "--save_total_limit", "3"]
    tune_main(options_for(pitying_model, own_rows, whole, *options))
    interrupt(whole, killed, 2)
    (killed / "checkpoint-4").mkdir()  # as when it was killed while this was written
    tune_main(options_for(pitying_model, own_rows, killed, *options))
    resumed, plain = (load_file(folder / "adapter_model.safetensors") for folder in (killed, whole))
    assert same(resumed, plain)
    assert read_bias_tuning(str(killed)) == read_bias_tuning(str(whole))


def test_a_resumed_tuning_stops_as_early(pitying_model, own_rows, tmp_path):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    options = [*LEARN, *few_steps(12, "1"), "--eval_steps", "2", "--save_steps", "2", "--early_stopping_patience", "2"]
    options += ["--save_total_limit", "9", "--optim", "sgd", "--max_grad_norm", "1e9"]
    tune_main(options_for(pitying_model, own_rows, whole, *options))
    training = read_bias_tuning(str(whole)).training
    assert (training["best_step"], training["num_steps"]) == (2, 6)  # each step is worse than the one before
    # Killed before it stopped, and killed after it had stopped, but before it was saved. Both were moved.
    whole = whole.rename(tmp_path / "elsewhere")
    for folder, steps in ((killed, (2, 4)), (tmp_path / "moved", (2, 4, 6))):
        interrupt(whole, folder, *steps)
        tune_main(options_for(pitying_model, own_rows, folder, *options))
        assert read_bias_tuning(str(folder)).training == training
        assert same(load_weights(folder), load_weights(whole))


def test_a_dry_run_counts_rows_and_tokens(pitying_model, own_rows, tmp_path, capsys):
    tune_main(
        options_for(
            pitying_model, own_rows, tmp_path / "none", *LEARN, "--use_peft", "--dry_run", "true", "--max_steps", "6"
        )
    )
    printed = capsys.readouterr().out
    tokenizer = AutoTokenizer.from_pretrained(pitying_model)
    rows = {split: pq.read_table(own_rows / "data" / f"{split}.parquet").to_pylist() for split in SPLITS}
    contexts, replies = [], []
    for row in rows["train"]:
        contexts += [len(tokenizer(prompt)["input_ids"]) for prompt in row["prompts"]]
        replies += [len(tokenizer(reply)["input_ids"]) + (not row["truncated"]) for reply in row["completions"]]
    longest = max(map(sum, zip(contexts, replies, strict=True)))
    assert f"rows: {len(rows['train'])} for training, {len(rows['validation'])} for validation" in printed
    total, learnt = sum(contexts) + sum(replies), sum(replies)
    assert f"tokens: {total:,} per epoch, {learnt:,} of them learnt; the longest row has {longest}" in printed
    assert 0.1 < float(re.search(r"memory: (\S+) GiB", printed)[1]) < 100  # all of this process
    assert f"minutes for {6 * 8 / len(rows['train']):.3g} epochs" in printed  # steps of 8 rows
    assert not list((tmp_path / "none").iterdir())


def test_a_dry_run_counts_what_an_encoder_reads(save_small_model, tmp_path, capsys):
    model = save_small_model("t5")
    tokenizer = AutoTokenizer.from_pretrained(model)
    rows = labels_by_hand(tmp_path / "rows", tokenizer, "plain", is_encoder_decoder=True)
    tune_main(options_for(model, rows, tmp_path / "none", "--dry_run", "true", "--max_steps", "2"))
    train = pq.read_table(rows / "data" / "train.parquet").to_pylist()
    read = sum(len(tokenizer(row["prompt"])["input_ids"]) for row in train)
    learnt = sum(len(tokenizer(row["completion"], add_special_tokens=False)["input_ids"]) + 1 for row in train)
    assert f"tokens: {read + learnt:,} per epoch, {learnt:,} of them learnt" in capsys.readouterr().out


def test_other_rows_and_other_models_are_known(pitying_model, save_small_model, own_rows, tmp_path):
    tune_main(options_for(pitying_model, own_rows, tmp_path / "model", *LEARN, *few_steps(2)))
    replied(pitying_model, tmp_path / "others", "--num_replies", "6", "--num_anchors", "0", "--seed", "1")
    with pytest.raises(SystemExit, match=r"labels\.rows_digest is"):
        tune_main(options_for(pitying_model, tmp_path / "others", tmp_path / "model", *LEARN, *few_steps(2)))
    with pytest.raises(SystemExit, match=r"model .*pitying, not by .*gpt2, but method counterfactual"):
        tune_main(options_for(save_small_model("gpt2"), own_rows, tmp_path / "gpt2-tuned", *LEARN, *few_steps(2)))
    assert not (tmp_path / "gpt2-tuned").exists()


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


@pytest.mark.long
def test_style_bias_falls_and_the_person_is_still_heard(heard, tmp_path, monkeypatch):
    anchors = [{"prompt": f"I'm {person}. {question}"} for person in PEOPLE for question in QUESTIONS]
    (tmp_path / "anchors.jsonl").write_text("".join(json.dumps(row) + "\n" for row in anchors), encoding="utf-8")
    taught = pc.is_in(load_table("v1.0-small")["axis"], value_set=pa.array(AXES))
    monkeypatch.setattr("hb_train.own_replies.training_prompts", lambda *_: load_table("v1.0-small").filter(taught))
    asked = ("--num_replies", "400", "--num_anchors", "80", "--max_new_tokens", "36")
    replied(heard, tmp_path / "rows", *asked, "--anchors", str(tmp_path / "anchors.jsonl"))
    steps = ("--max_steps", "160", "--eval_steps", "160", "--save_steps", "160", "--per_device_train_batch_size", "16")
    tune_main(options_for(heard, tmp_path / "rows", tmp_path / "model", *LEARN, "--learning_rate", "2e-3", *steps))
    (gap, uptake, met), (style, named, answered) = heard_by(heard), heard_by(tmp_path / "model")
    print(gap, uptake, met, style, named, answered)
    assert gap > 0.3
    assert met > 0.9
    assert style < gap / 4
    assert named > 0.8 * uptake
    assert answered >= met - 0.1
