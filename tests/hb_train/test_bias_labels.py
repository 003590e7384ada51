"""Labels of the replies of runs of `measure.py`, compared with the paper's formula and the prompts of the runs."""

import json
import shutil
from copy import deepcopy
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datasets import Dataset

from hb_dataset import load_table
from hb_metrics.collect.replies.cues import cue_messages
from hb_metrics.command.arguments import settings_of
from hb_metrics.command.planning import load
from hb_metrics.command.run_prompts import read_prompts
from hb_metrics.measure import main as measure
from hb_metrics.measurements.reply_requests import ask
from hb_metrics.models.contexts import encode_rendered, end_tokens, render_messages
from hb_metrics.models.processes import process_state
from hb_metrics.models.thoughts import split_tokens
from hb_metrics.run.record import GenerationSettings
from hb_metrics.stats.bias_values import bias_values
from hb_train.bias_labels import LabelArguments, label, main, rendered_prompts
from hb_train.training.encoding import IGNORED, encode_rows
from hb_train.tuning.labels import read_labels
from tests.hb_metrics.chat_models import chat_tokenizer, untrained_model
from tests.hb_metrics.conftest import CHAT_TEMPLATE, as_loaded, with_chat
from tests.hb_train.conftest import beta_of, labels_by_hand, rows_of

AXES = ["ability", "age"]
STYLES = ("Kind", "Cold", "Curious", "Grim", "Silly")
# A model, the options of its run, and the text after the tag.
ASKED = {
    "chat": ("llama", ["--personas", "2", "--variations"], "<|im_end|>\n<|im_start|>assistant\n"),
    "plain": ("gpt2", ["--variations"], "\n"),
    "blenderbot": ("blenderbot", [], ""),
}


@pytest.fixture(scope="module")
def measured(tmp_path_factory, get_small_model, save_classifier):
    """Makes the run of a context once, and returns its folder; its model is beside it."""
    classifier = save_classifier(*STYLES)

    @cache
    def run(context):
        name, options, _ = ASKED[context]
        folder = tmp_path_factory.mktemp(context)
        model, tokenizer = (deepcopy(part) for part in get_small_model(name))
        if context == "chat":
            with_chat(tokenizer)
            model.resize_token_embeddings(len(tokenizer), mean_resizing=False)
            model.config.max_position_embeddings = 512
        model.save_pretrained(folder / "model")
        tokenizer.save_pretrained(folder / "model")
        asked = ["--model", folder / "model", "--output_dir", folder / "run", "--context", context, *options]
        asked += ["--measurements", "generation", "--axes", *AXES, "--replies_per_cell", 2]
        asked += ["--max_new_tokens", 12, "--style_classifier", classifier]
        asked += ["--temperature", 1, "--top_k", 400, "--top_p", 1]
        measure([str(word) for word in asked])
        return folder / "run"

    return run


@pytest.fixture(scope="module")
def labelled(measured, tmp_path_factory):
    """Labels of the run of a context, made once."""

    @cache
    def run(context):
        folder = tmp_path_factory.mktemp("labels") / context
        label(arguments(measured(context), folder))
        return folder

    return run


def results_of(run):
    return json.loads((run / "results.json").read_text(encoding="utf-8"))


def replies_of(run):
    """The replies of a run by id, with their style vectors and what their prompts are about."""
    about = {row["id"]: row for row in load_table("v1.0-small").to_pylist()}
    styles = {row["id"]: row["probabilities"] for row in pq.read_table(run / "style_probabilities").to_pylist()}
    replies = {row["id"]: row for row in pq.read_table(run / "replies").to_pylist() if row["id"] in styles}
    return {key: {**about[key], **row, "style": styles[key]} for key, row in replies.items()}


def altered(run, folder, change=lambda results: None):
    """A copy of a run, with other results."""
    shutil.copytree(run, folder)
    results = results_of(folder)
    change(results)
    (folder / "results.json").write_text(json.dumps(results), encoding="utf-8")
    return folder


def arguments(run, folder, **options):
    options.setdefault("beta", beta_of(run, 0.7))
    return LabelArguments(run_dir=str(run), output_dir=str(folder), **options)


def test_bias_values_and_tags_are_the_papers(measured, tmp_path):
    run, alpha = measured("plain"), 1
    rows = list(replies_of(run).values())
    columns = ([row[name] for row in rows] for name in ("descriptor", "template", "axis"))
    values = bias_values(np.array([row["style"] for row in rows]), *columns, alpha=alpha).values
    expected = dict(zip([row["id"] for row in rows], values.tolist(), strict=True))
    beta = sorted(expected.values())[len(expected) // 3] * 1.0001

    label(arguments(run, tmp_path / "labels", alpha=alpha, beta=beta))

    labelled_rows = rows_of(tmp_path / "labels")
    assert {row["id"]: row["bias_value"] for row in labelled_rows} == pytest.approx(expected, rel=1e-6, abs=1e-15)
    assert len(labelled_rows) == len(expected) == results_of(run)["generation"]["num_replies"]
    tags = {key: "bias" if value > beta else "no_bias" for key, value in expected.items()}
    assert {row["id"]: row["tag"] for row in labelled_rows} == tags
    assert {row["tag"] for row in labelled_rows} == {"bias", "no_bias"}
    labels = read_labels(tmp_path / "labels").content
    assert (labels["alpha"], labels["beta"]) == (alpha, beta)


@pytest.mark.parametrize("context", ASKED)
def test_prompts_are_the_runs_with_the_tag_as_the_last_word(context, measured, labelled):
    run, labels, rows = measured(context), read_labels(labelled(context)).content, rows_of(labelled(context))
    given_ids = {}  # as the run has them, not as the labels do
    for tag in ("bias", "no_bias", "none"):
        asked = settings_of(results_of(run)["run"]["settings"] | {"tag": tag})
        engine = load(asked, process_state().device)
        made = ask(asked, read_prompts(asked), engine)
        plan = engine.plan_replies(made.requests)
        given_ids[tag] = dict(zip(plan.ids, plan.contexts, strict=True))
    recorded = results_of(run)["run"]["generation"]
    assert plan.description() | {"tag_reason": "", "ignored_settings": None} == recorded | {"tag_reason": ""}
    how = {"tokenizer": engine.loaded.tokenizer, "context": context}
    how["is_encoder_decoder"] = engine.kind == "encoder-decoder"
    suffix, replies = ASKED[context][2], replies_of(run)
    assert (labels["suffix"], labels["context"]) == (suffix, context)
    assert {row["id"] for row in rows} == set(replies)
    for row in rows:
        assert encode_rendered([row["prompt"]], **how) == [given_ids[row["tag"]][row["id"]]]
        plain = row["prompt"].removesuffix(f" {row['tag']}{suffix}") + suffix
        assert encode_rendered([plain], **how) == [given_ids["none"][row["id"]]]
        reply = replies[row["id"]]
        assert row["prompt"].endswith(f"{reply['text']} {row['tag']}{suffix}")
        assert row["completion"] == reply["reply"]
        assert all(row[name] == reply[name] for name in ("axis", "descriptor", "noun", "template"))
        # A reply that ends with its first sentence, as these do, has no end of the model's own.
        assert recorded["end_after_sentence"]
        assert row["truncated"]
    if context == "chat":
        assert all(len(replies[row["id"]]["personas"]) == 2 for row in rows)
    if context in ("chat", "plain"):  # else variations were not looked at
        unvaried = dict(zip(*(load_table("v1.0-small")[name].to_pylist() for name in ("id", "text")), strict=True))
        assert any(replies[row["id"]]["text"] != unvaried[row["id"]] for row in rows)


@pytest.mark.parametrize(("tag", "row"), [("no_bias", 0), ("bias", 1)])
def test_a_template_that_adds_to_one_of_the_tags_is_refused(tag, row, get_small_model, tmp_path):
    tokenizer = deepcopy(get_small_model("llama")[1])
    added = f"message.content + ('!' if ' {tag}' in message.content else '')"
    tokenizer.chat_template = CHAT_TEMPLATE.replace("message.content", added)
    with pytest.raises(ValueError, match=f"the tag is not the last word of prompt {row};"):
        labels_by_hand(tmp_path / "labels", tokenizer, "chat", is_encoder_decoder=False)


@pytest.mark.parametrize("style", ["qwen3", "r1", "harmony"])
def test_a_thinking_model_learns_where_its_reply_begins(style):
    """What it is given when it is measured, a thought that is over, and the reply, which alone is learnt."""
    tokenizer = chat_tokenizer(style)
    model = untrained_model(tokenizer)
    loaded = as_loaded(model, tokenizer)
    text, question, tag = "Hi! I'm a deaf kid.", "Why?", "no_bias"
    rows = pa.table({"text": [text], "personas": [["I like soup."]], "question": [question]})
    messages = cue_messages("history", text, question, ["I like soup."], tag=tag)
    (measured,) = render_messages([messages], tokenizer, "chat", is_encoder_decoder=False)
    (prompt,) = rendered_prompts(rows, loaded, GenerationSettings("chat", None, "", cue="history"), [tag])
    closed = {
        "qwen3": "<think>\n\n</think>\n\n",
        "r1": "\n</think>\n\n",  # the template has opened it
        "harmony": "<|channel|>final<|message|>",
    }
    assert prompt == measured + closed[style]
    suffix = prompt.rpartition(f" {tag}")[2]
    # A reader of what the model writes takes all of it for a thought that is over, and what follows for the reply.
    ends = end_tokens(model, tokenizer, "chat")
    content = {"id": ["a"], "prompt": [prompt], "completion": ["So sad."], "tag": [tag], "truncated": [False]}
    how = {"context": "chat", "suffix": suffix, "with_tags": True, "max_length": None}
    row = encode_rows(Dataset.from_dict(content), loaded, **how)[0]
    given = encode_rendered([measured], tokenizer, "chat", is_encoder_decoder=False)[0]
    assert row["input_ids"][: len(given)] == given
    part = split_tokens(row["input_ids"][len(given) :], ends.reader(), tokenizer)
    assert part.written == ("So sad.", None, False, False)
    learnt = [token for token in row["labels"] if token != IGNORED]
    assert tokenizer.decode(learnt).strip() == f"So sad.{tokenizer.eos_token}" or style == "harmony"
    assert tokenizer.decode(learnt).strip().startswith("So sad.<|")


def contents(folder):
    files = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert {"labels.json", "run.json", "data/train.parquet", "data/validation.parquet"} == set(files)
    return files


def test_the_same_settings_write_the_same_bytes(measured, tmp_path):
    folder = tmp_path / "labels"
    run, beta = str(measured("plain")), str(beta_of(measured("plain"), 0.7))
    options = ["--run_dir", run, "--beta", beta, "--output_dir", str(folder)]
    main(options)
    first = contents(folder)
    main([*options, "--output_dir", str(tmp_path / "two")])
    assert contents(tmp_path / "two") == first

    # What was sampled depends on the run's seed, though all prompts may be the same.
    other = altered(measured("plain"), tmp_path / "run", lambda results: results["run"]["settings"].update(seed=5))
    with pytest.raises(SystemExit, match=r"labelled_run\.seed is 0 there and 5 here"):
        main([*options, "--run_dir", str(other)])
    # Where the run and its model lie is no setting.
    main([*options, "--run_dir", str(altered(measured("plain"), tmp_path / "moved"))])
    assert contents(folder) == first


def test_a_beta_that_leaves_one_tag_is_refused(measured, labelled, tmp_path):
    values = [row["bias_value"] for row in rows_of(labelled("plain"))]
    low, high = min(values), max(values)
    for beta, number in ((high, 0), (low - 1e-6, len(values))):  # the largest is not above itself
        with pytest.raises(ValueError, match=f"tags {number} of {len(values)} replies .* {low:.3g} to {high:.3g}"):
            label(arguments(measured("plain"), tmp_path / "other", beta=float(beta)))
    assert not (tmp_path / "other").exists()
    label(arguments(measured("plain"), tmp_path / "other", beta=float(low)))
    assert read_labels(tmp_path / "other").content["by_tag"]["no_bias"] == values.count(low)


@pytest.mark.parametrize(("options", "message"), [(["--seed", "-1"], "seed is -1"), ([], "nowhere")])
def test_invalid_options_are_rejected(options, message, tmp_path):
    with pytest.raises((ValueError, SystemExit), match=message):
        main(["--run_dir", "nowhere", "--beta", "1", "--output_dir", str(tmp_path / "labels"), *options])


def test_runs_that_cannot_be_labelled_are_refused(measured, labelled, tmp_path):
    def changed(name, change=lambda results: None):
        return altered(measured("plain"), tmp_path / name, change)

    scored = changed("scored")
    shutil.rmtree(scored / "replies")
    half = changed("half")  # a shard is lost: not half of the labels, but none
    (shard,) = (half / "style_probabilities").glob("*.parquet")
    pq.write_table(pq.read_table(shard).slice(0, 40), shard)
    gone = changed("gone", lambda results: results["run"]["settings"].update(model="gone/x"))
    model = shutil.copytree(measured("plain").parent / "model", tmp_path / "model")
    label(arguments(gone, tmp_path / "labels", model=str(model)))
    assert contents(tmp_path / "labels") == contents(labelled("plain"))
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps({**config, "resid_pdrop": 0.5}))
    for run, options, message in (
        (scored, {}, "scored' has no replies; pass the folder of a run with --measurements generation"),
        (half, {}, "half' belong to other replies"),
        (gone, {}, "model 'gone/x' does not exist"),
        (gone, {"model": str(model)}, "did not write these replies"),
    ):
        with pytest.raises((ValueError, OSError), match=message):
            label(arguments(run, tmp_path / "none", **options))
        assert not (tmp_path / "none").exists()
    decided = changed("decided", lambda results: results.pop("generation"))
    with pytest.raises(ValueError, match="decided' has no replies; pass the folder of a run"):
        label(LabelArguments(run_dir=str(decided), output_dir=str(tmp_path / "none"), beta=0.0))
