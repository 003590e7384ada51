"""The main job, end to end, as users start it: in processes of its own."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml

from hb_dataset import load_table
from hb_metrics.measure import MeasureArguments, parse_arguments

ROOT = Path(__file__).parents[2]
PYTHON = [sys.executable, "-m", "hb_metrics.measure"]
TWO_PROCESSES = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2", "--master_port", "29611"]
ACCELERATE = [sys.executable, "-m", "accelerate.commands.accelerate_cli", "launch", "--num_processes", "1"]

VOCABULARY = {
    "age.yaml": {"axis": "age", "terms": [{"term": t, "bucket": "b"} for t in ("young", "old", "adult", "elderly")]},
    "ability.yaml": {"axis": "ability", "terms": [{"term": t} for t in ("deaf", "blind", "autistic")]},
    "nouns.yaml": {"nouns": [{"noun": n, "plural": f"{n}s"} for n in ("kid", "parent", "sibling", "friend", "guy")]},
    "templates.yaml": {"templates": [{"template": "I'm {noun_phrase}."}, {"template": "I love {plural_noun_phrase}."}]},
    "seat_templates.yaml": {"templates": [{"template": "This is {noun_phrase}."}]},
}


@pytest.fixture
def vocabulary(tmp_path):
    folder = tmp_path / "vocabulary"
    folder.mkdir()
    for name, content in VOCABULARY.items():
        (folder / name).write_text(yaml.safe_dump(content))
    return folder


def run(command, *options):
    completed = subprocess.run(
        [*command, *map(str, options)], cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )
    return completed.returncode, completed.stdout, completed.stderr


def test_a_causal_model_is_measured_and_reported(vocabulary, save_small_model, tmp_path):
    out = tmp_path / "run"
    command = [*ACCELERATE, "hb_metrics/measure.py"]
    options = ["--model", save_small_model("llama"), "--vocabulary_dir", vocabulary, "--output_dir", out]
    code, printed, errors = run(command, *options, "--dataset_config", "v1.0")
    assert code == 0, errors
    assert f"report: {out / 'report.html'}" in printed
    results = json.loads((out / "results.json").read_text())
    assert results["run"] == json.loads((out / "run.json").read_text())
    assert results["run"]["scoring"]["path"] == "tree"
    assert results["run"]["data"]["num_prompts"] == 7 * 5 * 2
    assert results["likelihood_bias"]["num_tests"] == (6 + 3) * 2
    scores = pq.read_table(out / "perplexities")
    assert sorted(scores["id"].to_pylist()) == sorted(load_table("v1.0", vocabulary)["id"].to_pylist())
    assert "Likelihood Bias" in (out / "report.html").read_text()
    assert not list(out.rglob("*.tmp"))


@pytest.mark.parametrize("name", ["bloom", "bert", "blenderbot"])
def test_other_kinds_of_models_are_measured_too(name, vocabulary, save_small_model, tmp_path):
    out = tmp_path / "run"
    options = ["--model", save_small_model(name), "--vocabulary_dir", vocabulary, "--output_dir", out]
    code, _, errors = run(PYTHON, *options, "--dataset_config", "v1.0-seat")
    assert code == 0, errors
    path = {"bloom": "padded", "bert": "pseudo-log-likelihood", "blenderbot": "encoder-decoder"}[name]
    assert json.loads((out / "results.json").read_text())["run"]["scoring"]["path"] == path


def test_a_killed_run_goes_on_with_other_processes_and_ends_in_the_same_bytes(save_small_model, tmp_path):
    """On the small config, so that there is time to kill it; with 16 positions a tree there are many shards."""
    options = ["--model", save_small_model("llama"), "--max_positions", 16]
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    code, _, errors = run(PYTHON, *options, "--output_dir", whole)
    assert code == 0, errors

    command = [*PYTHON, *map(str, options), "--output_dir", str(killed)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while len(list(killed.glob("perplexities/*.parquet"))) < 5 and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    there = {path: path.stat().st_mtime_ns for path in killed.glob("perplexities/*.parquet")}
    assert 5 <= len(there) < len(list(whole.glob("perplexities/*.parquet")))
    assert not (killed / "results.json").exists()

    code, printed, errors = run([*TWO_PROCESSES, "hb_metrics/measure.py"], *options, "--output_dir", killed)
    assert code == 0, errors
    assert "on cpu:0 x 2" in printed
    assert "texts were scored before" in printed
    assert all(path.stat().st_mtime_ns == time for path, time in there.items())
    assert (killed / "results.json").read_bytes() == (whole / "results.json").read_bytes()
    assert (killed / "report.html").read_bytes() == (whole / "report.html").read_bytes()


def test_ctrl_c_keeps_what_is_done_and_says_how_to_go_on(save_small_model, tmp_path):
    out = tmp_path / "run"
    options = ["--model", str(save_small_model("llama")), "--max_positions", "16", "--output_dir", str(out)]
    process = subprocess.Popen([*PYTHON, *options], cwd=ROOT, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 120
    while not list(out.glob("perplexities/*.parquet")) and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 1
    assert "To go on, give the same command again:\n  python -m hb_metrics.measure --model" in errors
    assert "Traceback" not in errors


def test_some_of_the_axes_are_measured(vocabulary, save_small_model, tmp_path):
    options = ["--model", save_small_model("llama"), "--vocabulary_dir", vocabulary, "--output_dir", tmp_path / "run"]
    code, _, errors = run(PYTHON, *options, "--dataset_config", "v1.0", "--axes", "age")
    assert code == 0, errors
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert results["run"]["data"]["num_prompts"] == 4 * 5 * 2
    assert list(results["likelihood_bias"]["by_axis"]) == ["age"]


def test_other_settings_in_a_used_folder_are_named(vocabulary, save_small_model, tmp_path):
    options = ["--model", save_small_model("llama"), "--vocabulary_dir", vocabulary, "--output_dir", tmp_path / "run"]
    assert run(PYTHON, *options)[0] == 0
    code, _, errors = run(PYTHON, *options, "--dtype", "bfloat16")
    assert code == 1
    assert "settings.dtype is 'auto' there and 'bfloat16' here" in errors
    assert "Traceback" not in errors


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--model", "no/such-model"], "no model 'no/such-model': give 'embedded', a local folder"),
        (["--vocabulary_dir", "nowhere"], "no vocabulary folder at 'nowhere'"),
        (["--dataset_config", "v1.1"], "invalid choice: 'v1.1'"),
        (["--modle", "gpt2"], "unrecognized arguments: --modle"),
        (["--alpha", "2"], "alpha is 2.0"),
        (["--axes", "age", "abilty"], "axis 'abilty' is not in v1.0; did you mean 'ability'?"),
    ],
)
def test_bad_options_end_in_one_clear_line(options, message, tmp_path):
    code, _, errors = run(PYTHON, *options, "--output_dir", tmp_path / "run")
    assert code != 0
    assert message in errors
    assert "Traceback" not in errors
    assert not (tmp_path / "run" / "perplexities").exists()


def test_options_come_from_yaml_and_the_command_line_has_the_last_word(tmp_path):
    config = tmp_path / "options.yaml"
    config.write_text("model: some/model\nalpha: 0.01\ninclude_gendered: false\nmax_positions: null\naxes: [age]\n")
    parsed = parse_arguments(["--config", str(config), "--alpha", "0.1"])
    assert parsed == MeasureArguments(model="some/model", alpha=0.1, include_gendered=False, axes=["age"])


@pytest.mark.parametrize(
    "content",
    ["modle: gpt2", "no_include_gendered: true", "config: a.yaml", "dtype: fp32", "- model", "model: [", "alpha: much"],
)
def test_a_wrong_options_file_is_refused(content, tmp_path, capsys):
    config = tmp_path / "options.yaml"
    config.write_text(content)
    with pytest.raises(SystemExit):
        parse_arguments(["--config", str(config)])
    assert "error:" in capsys.readouterr().err


@pytest.mark.embedded
def test_a_few_thousand_prompts_of_v1_are_scored_by_the_embedded_model():
    """Of all of v1.0, one axis in four templates; trees against the padded path on a sample of it."""
    import numpy as np
    import pyarrow.compute as pc

    from hb_metrics.inference.models import load_model
    from hb_metrics.inference.perplexity import score_perplexity

    table = load_table("v1.0")
    table = table.filter(pc.equal(table["axis"], "sexual_orientation"))
    table = table.filter(pc.is_in(table["template"], table["template"].unique().slice(0, 4)))
    texts = table["text"].to_pylist()
    loaded = load_model("embedded")
    tree = score_perplexity(texts, loaded.model, loaded.tokenizer, progress=False)
    assert tree.scoring == "tree"
    assert tree.positions * 4 < tree.num_tokens.sum()
    sample = list(range(0, len(texts), len(texts) // 50))
    padded = score_perplexity(
        [texts[row] for row in sample], loaded.model, loaded.tokenizer, scoring="padded", progress=False
    )
    np.testing.assert_allclose(tree.perplexities[sample], padded.perplexities, rtol=1e-4)
