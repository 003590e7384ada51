"""The main job, end to end: in this process, and among the long tests as users start it."""

import json
import math
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from hb_dataset import load_table
from hb_metrics.command.export_prompts import main as export_prompts
from hb_metrics.layout.numbers import bias
from hb_metrics.models.layout import TUNING_FILE, BiasTuning
from hb_metrics.run.run_folder import LAYOUT, write_json
from tests.hb_metrics.conftest import write_vocabulary
from tests.hb_metrics.runs_here import measure_here, refusal

ROOT = Path(__file__).parents[2]
ACCELERATE = [sys.executable, "-m", "accelerate.commands.accelerate_cli", "launch", "--num_processes", "1"]

# Little of what takes time: random models do not end their replies.
QUICK = ["--replies_per_cell", 2, "--max_new_tokens", 12]


@pytest.fixture
def vocabulary(tmp_path):
    return write_vocabulary(tmp_path / "vocabulary")


def launched(*options):
    """What a run printed that was started as users do."""
    started = [*ACCELERATE, "hb_metrics/measure.py", *map(str, options)]
    completed = subprocess.run(started, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert completed.returncode == 0, completed.stderr
    return completed.stdout


@pytest.mark.parametrize("run", [measure_here, pytest.param(launched, marks=pytest.mark.long)])
def test_a_causal_model_is_measured_and_reported(run, vocabulary, saved_llama, tmp_path):
    out = tmp_path / "run"
    options = ["--model", saved_llama, "--vocabulary_dir", vocabulary, "--output_dir", out]
    printed = run(*options, *QUICK, "--dataset_config", "v1.0")
    assert f"report: {out / 'report.html'}" in printed
    results = json.loads((out / "results.json").read_text())
    assert results["run"] == json.loads((out / "run.json").read_text())
    assert results["run"]["scoring"]["path"] == "tree"
    assert results["run"]["data"]["num_prompts"] == 7 * 5 * 2
    assert results["likelihood"]["likelihood_bias"]["num_tests"] == (6 + 3) * 2
    scores = pq.read_table(out / "perplexities")
    assert sorted(scores["id"].to_pylist()) == sorted(load_table("v1.0", vocabulary)["id"].to_pylist())
    replies = pq.read_table(out / "replies")
    assert len(replies) == 7 * 2 * 2
    assert set(replies["id"].to_pylist()) <= set(scores["id"].to_pylist())
    assert results["run"]["generation"]["context"] == "plain"
    generation = results["generation"]
    assert generation["num_replies"] + generation["num_empty_replies"] == len(replies)
    assert generation["gen_bias"]["num_cells"] == 7 * 2
    styles = pq.read_table(out / "style_probabilities")
    assert sorted(styles["id"].to_pylist()) == sorted(
        row["id"] for row in replies.to_pylist() if row["reply"] is not None
    )
    assert set(generation["gen_bias"]["partial_gen_bias"]) == set(results["run"]["style_classifier"]["clusters"])
    assert results["offensiveness"]["prompts"]["num_sentences"] == 7 * 5 * 2
    assert results["offensiveness"]["replies"]["num_sentences"] == generation["num_replies"]
    page = (out / "report.html").read_text()
    assert "Likelihood Bias" in page
    assert "Full Gen Bias" in page
    assert not list(out.rglob("*.tmp"))


@pytest.mark.parametrize("name", ["bert", "blenderbot"])
def test_other_kinds_of_models_are_measured_too(name, vocabulary, save_small_model, tmp_path):
    out = tmp_path / "run"
    options = ["--model", save_small_model(name), "--vocabulary_dir", vocabulary, "--output_dir", out]
    measure_here(*options, *QUICK, "--dataset_config", "v1.0-seat")
    results = json.loads((out / "results.json").read_text())
    path = {"bert": "pseudo-log-likelihood", "blenderbot": "encoder-decoder"}[name]
    assert results["run"]["scoring"]["path"] == path
    assert ("generation" in results) == (name != "bert")
    assert list(results["offensiveness"]) == (["prompts"] if name == "bert" else ["prompts", "replies"])


def test_a_tuned_model_is_asked_as_its_folder_says_and_scored_on_real_dialogue(vocabulary, save_small_model, tmp_path):
    model, out = save_small_model("llama"), tmp_path / "run"
    about = {"labels": {}, "training": {}, "alpha": 0, "beta": 0.5}
    asked_with = {"system_prompt": "Be brief.", "chat_template_kwargs": None, "cue": "history"}
    tuning = BiasTuning(tag="no_bias", context="plain", asked_with=asked_with, **about)
    write_json(model / TUNING_FILE, asdict(tuning))
    options = ["--model", model, "--vocabulary_dir", vocabulary, "--output_dir", out, *QUICK]
    asked = ["--measurements", "generation,dialogue"]
    printed = measure_here(*options, *asked)
    results = json.loads((out / "results.json").read_text())
    generation = results["run"]["generation"]
    assert (generation["tag"], generation["tag_reason"]) == (
        "no_bias",
        "the model was tuned with it, and other programs do not send it",
    )
    assert (generation["context"], generation["context_reason"]) == ("plain", "the model was tuned in this context")
    prompts = dict(
        zip(*(load_table("v1.0-small", vocabulary)[name].to_pylist() for name in ("id", "text")), strict=True)
    )
    for row in pq.read_table(out / "replies").to_pylist():
        assert row["text"] == prompts[row["id"]]  # stored as it is, without the tag
    dialogue, scores = results["dialogue"], pq.read_table(out / "dialogue").to_pydict()
    assert results["run"]["dialogue"]["num_replies"] == 500
    assert dialogue["num_replies"] + dialogue["num_too_long"] == 500
    expected = math.exp(-sum(scores["log_likelihood"]) / sum(scores["num_tokens"]))
    assert dialogue["perplexity"] == pytest.approx(expected)
    assert f"Dialogue perplexity: {bias(expected)}" in printed
    page = (out / "report.html").read_text()
    assert "no_bias" in page
    assert generation["tuned_with"] == asked_with
    assert "different values of --system_prompt and --cue, so this run may not show the effect" in page
    assert "settings.tag is 'auto' there and 'bias' here" in refusal(*options, *asked, "--tag", "bias")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--vocabulary_dir", "nowhere"], "the vocabulary folder 'nowhere' does not exist"),
        (["--dataset_config", "v1.1-baseline"], "did you mean 'v1.1-seat'? allowed: v1.0, v1.0-small, "),
        (["--personas", "161"], "personas is 161, but the file has 160 lines"),
        (["--style_clusters", "nowhere.yaml"], "style_clusters 'nowhere.yaml' is not a file"),
        (["--style_classifier", "no/such", "--max_new_tokens", "12"], "'no/such' does not exist"),
        (["--offensiveness_classifier", "no/such", "--max_new_tokens", "12"], "'no/such' does not exist"),
        (["--frequencies", "pyproject.toml"], "'pyproject.toml'"),
        (["--turns", "18"], "set --turns to at most 17"),
        (["--turns", "3", "--max_new_tokens", "12"], "the model accepts 64; set --turns to 2"),
        (["--axes", "age", "abilty"], "axis 'abilty' is not in v1.0; did you mean 'ability'?"),
        (["--axes", "age", "--dataset_config", "next-intersections"], "'age' is not in next-intersections; allowed"),
        (["--axes", "autistic"], "axis 'autistic' is not in v1.0; allowed: ability, age, "),
        (["--axes", "ability,age"], "axis 'ability,age' is not in v1.0; separate axes with spaces"),
    ],
)
def test_bad_options_end_in_one_clear_line(options, message, vocabulary, saved_llama, tmp_path):
    about_prompts = {"--vocabulary_dir", "--dataset_config", "--axes"} & {*options}
    few = [] if about_prompts else ["--vocabulary_dir", vocabulary]
    assert message in refusal("--model", saved_llama, *few, *options, "--output_dir", tmp_path / "run")
    assert not (tmp_path / "run" / "perplexities").exists()


def test_a_folder_is_checked_before_the_model_is_loaded(vocabulary, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "run").touch()
    message = refusal("--model", "no/such", "--vocabulary_dir", vocabulary, "--output_dir", "~/run")
    assert f"'{tmp_path / 'run'}' is not a folder" in message


def test_classifiers_gates_and_settings_are_checked_before_the_model_is_loaded(vocabulary, save_classifier, tmp_path):
    own, out, text = save_classifier("calm", "loud"), tmp_path / "run", tmp_path / "text.csv"
    text.write_text("prompt,outcome,favourable\nWrite to {person}.,text,kind\n")
    (tmp_path / "clusters.yaml").write_text("clusters:\n  Odd: [Nonesuch]\n")
    refused = {
        ("--fail_above", "nonsense=1"): "names the figure 'nonsense', which this run does not have",
        ("--style_classifier", "no/classifier"): "'no/classifier' does not exist",
        ("--style_classifier", own, "--style_clusters", tmp_path / "clusters.yaml"): "names the style 'Nonesuch'",
        ("--style_clusters", tmp_path / "clusters.yaml"): "names the style 'Nonesuch'",
        ("--offensiveness_classifier", own): "cannot tell which label",
        ("--offensiveness_classifier", "judge:nowhere"): "nowhere",
        ("--measurements", "regard", "--regard_classifier", own): "a regard classifier must have the labels",
        ("--measurements", "regard", "--regard_classifier", "judge:refusal"): "write a rubric with the labels",
        ("--style_classifier", "judge:style_clusters", "--judge_model", "no/judge"): "'no/judge' does not exist",
        ("--judge", "offensive", "--judge_model", "no/judge"): "'no/judge' does not exist",
        ("--prompts", text, "--style_classifier", own): "the favourable label 'kind' is a label of 0 judges",
    }
    for options, message in refused.items():
        assert message in refusal("--model", "no/such", "--vocabulary_dir", vocabulary, "--output_dir", out, *options)
    assert not out.exists()
    out.mkdir()
    run = {"layout": {"version": LAYOUT, "measurements": []}, "settings": {"seed": 1}}
    (out / "run.json").write_text(json.dumps(run))
    assert "settings.seed is 1 there and 0 here" in refusal("--model", "no/such", "--output_dir", out)


@pytest.mark.parametrize("options", [["--axes", "age"], ["--sample", 1], ["--sample", 2, "--cue", "history"]])
def test_a_single_term_is_refused_before_the_model_is_loaded(options, tmp_path):
    templates = ("I'm {noun_phrase}.", "I love {plural_noun_phrase}.")
    terms = {"age": ["old"], "ability": ["deaf", "blind"], "nouns": ["kid"], "templates": templates}
    own = write_vocabulary(tmp_path / "one", **terms)
    options = ["--dataset_config", "v1.0", "--vocabulary_dir", own, *options, "--output_dir", tmp_path / "run"]
    assert "no prompt has two terms; set --terms" in refusal("--model", "no/such", *options)
    with pytest.raises(ValueError, match="no prompt has two terms"):
        export_prompts([*map(str, [tmp_path / "prompts.jsonl", *options])])
