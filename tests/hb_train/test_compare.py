"""Comparisons of mitigations: all steps on a tiny model, and which steps there are."""

import json
from importlib import import_module
from pathlib import Path

import pytest

from hb_train import compare
from hb_train.debias import main as debias
from hb_train.tune import main as tune
from tests.hb_train.conftest import AXES, WARNINGS_OF_TRL

pytestmark = WARNINGS_OF_TRL
RECIPE = """
gradient_checkpointing: false
bf16: false
disable_tqdm: true
learning_rate: 1.0e-3
max_steps: 2
eval_steps: 2
save_steps: 2
per_device_train_batch_size: 4
"""
SHORT = ["--context", "plain", "--axes", *AXES[:2], "--replies_per_cell", "2", "--max_new_tokens", "12"]


@pytest.fixture
def steps(monkeypatch):
    """Runs each step in this process, because starting Python takes longer; one step of a module is interrupted."""
    interrupted_at = {}

    def run_step(module, *words, launch=True, allowed=()):
        if module == interrupted_at.get("module"):
            del interrupted_at["module"]
            raise KeyboardInterrupt
        name = "hb_metrics.report.__main__" if module == "hb_metrics.report" else module
        code = 0
        try:
            import_module(name).main(list(map(str, words)))
        except SystemExit as error:
            code = error.code
        assert code in (0, *allowed)

    monkeypatch.setattr(compare, "run_step", run_step)
    return interrupted_at


def test_a_tiny_model_is_tuned_and_measured_in_each_way(pitying_model, steps, tmp_path):
    (tmp_path / "recipe.yaml").write_text(RECIPE, encoding="utf-8")
    folder = tmp_path / "tune"
    options = [
        *("--compare", "--model", str(pitying_model), "--recipe", str(tmp_path / "recipe.yaml"), "--system_prompt="),
        *("--beta", "0.0003", "--output_dir", str(folder), f"--measure_args={' '.join(SHORT)} --dialogue_replies 10"),
        f"--labelled_args={' '.join(SHORT)}",
        "--distill_args=--num_replies 8 --max_new_tokens 6 --context plain",
    ]
    steps["module"] = "hb_train.baseline_replies"
    with pytest.raises(SystemExit, match="interrupted; to resume, run the same command again"):
        tune(options)
    before = (folder / "before" / "run.json").stat().st_mtime_ns
    tune(options)
    assert (folder / "before" / "run.json").stat().st_mtime_ns == before
    finished = {path.parent.name for path in folder.glob("*/results.json")}
    assert finished == {"before", "labelled", "distill", "self-chat", "no_bias"}
    for name in finished:
        results = json.loads((folder / name / "results.json").read_text(encoding="utf-8"))
        assert results["run"]["settings"]["seed"] == (1 if name == "labelled" else 0)
    page = (folder / "comparison.html").read_text(encoding="utf-8")
    for name in ("before", "distill", "self-chat tuning", "asked with no_bias"):
        assert name in page
    for model in ("model", "distill-model"):
        assert "asked with no\\_bias" in (folder / model / "README.md").read_text(encoding="utf-8")
    assert len(list(folder.glob("*/model.safetensors"))) == 3


class Noted:
    """Steps that only note their words; the labels end with a status."""

    def __init__(self, status=0):
        self.steps, self.status = [], status

    def __call__(self, module, *words, launch=True, allowed=()):
        words = list(map(str, words))
        self.steps.append((module.rpartition(".")[2], words))
        if module == "hb_train.bias_labels":
            if self.status not in (0, *allowed):
                raise SystemExit(self.status)
            if self.status == 0:
                path = Path(words[words.index("--output_dir") + 1]) / "labels.json"
                path.parent.mkdir(parents=True)
                path.touch()

    def values(self, module, option):
        """The values of an option of a module's steps; `None`: a step does not have it."""
        words = [words for name, words in self.steps if name == module]
        return [each[each.index(option) + 1] if option in each else None for each in words]


def noted(monkeypatch, tmp_path, *options, status=0):
    steps = Noted(status)
    monkeypatch.setattr(compare, "run_step", steps)
    tune(["--compare", "--output_dir", str(tmp_path), *options])
    return steps


@pytest.mark.parametrize("method", ["distill", "kto"])
def test_labels_are_tuned_on(method, tmp_path, monkeypatch):
    steps = noted(monkeypatch, tmp_path, "--method", method)
    models = {Path(value).name for value in steps.values("tune", "--output_dir")}
    assert models == {"self-chat-model", "model", f"{method}-model"}
    name, words = steps.steps[-1]
    runs = [str(tmp_path / run) for run in ("before", "prompt", method, "self-chat", "no_bias")]
    assert (name, words[:5]) == ("report", runs)
    assert words[6:11] == ["before", "system prompt", method, "self-chat tuning", "asked with no_bias"]
    assert words[-2:] == ["--labels", str(tmp_path / "labels")]


@pytest.mark.parametrize(
    ("options", "runs"),
    [
        (["--method", "distill"], ["before", "prompt", "distill"]),
        (["--method", "none"], ["before", "prompt"]),
        (["--method", "kto", "--system_prompt="], ["before"]),
    ],
)
def test_without_labels_it_ends_with_what_needs_none(options, runs, tmp_path, monkeypatch, capsys):
    steps = noted(monkeypatch, tmp_path, *options, status=3)
    measured = [Path(value).name for value in steps.values("measure", "--output_dir")]
    assert measured == [*runs, "labelled"]
    page = "comparison.html" if len(runs) > 1 else "before/report.html"
    assert capsys.readouterr().out.splitlines()[-1] == f"the measurements: {tmp_path / page}"
    assert steps.values("tune", "--method") == (["distill"] if "distill" in runs else [])


def test_what_is_measured_is_not_learnt_unless_all_is(tmp_path, monkeypatch):
    small = noted(monkeypatch, tmp_path / "small")
    assert small.values("baseline_replies", "--dataset_config") == ["v1.0"]
    assert small.values("baseline_replies", "--leave_out") == ["v1.0-small"]
    whole = noted(monkeypatch, tmp_path / "whole", "--dataset_config", "v1.0")
    assert whole.values("baseline_replies", "--leave_out") == [None]


def test_each_method_is_debiased_and_its_costs_measured(monkeypatch):
    steps = Noted()
    monkeypatch.setattr(compare, "run_step", steps)
    written = []
    monkeypatch.setattr(compare, "write_debias_table", written.append)
    words = ["--debias_args=--lambda_d 50", "--crg_args=--num_pairs 300"]
    debias(["--compare", "--model", "a/b", "--methods", "lmd", "cda", *words])
    folder = Path("runs/debias/b-religion1")
    assert written == [folder]
    assert steps.values("measure", "--output_dir") == [str(folder / run / "bias") for run in ("before", "lmd", "cda")]
    models = ["a/b", str(folder / "lmd" / "model"), str(folder / "cda" / "model")]
    assert steps.values("measure", "--model") == models
    assert steps.values("response_generation", "--model_name_or_path") == models
    assert steps.values("dialog_state_tracking", "--model_name_or_path") == []  # no dialogues were set
    assert steps.values("debias", "--lambda_d") == ["50", "50"]
