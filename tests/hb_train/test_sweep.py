"""Sweeps: what they run, what they record, what they keep, which run is the best, and what they reject."""

import json
import math
import os
import signal
import sys
import time
import traceback
from contextlib import redirect_stderr, redirect_stdout

import numpy as np
import psutil
import pytest
from scipy.stats import norm
from transformers import AutoTokenizer

from hb_metrics.runs.run_folder import write_json
from hb_train.sweep import DIVERGED, PAPER_GRIDS, main, read_grid, run_logged
from hb_train.tune import main as tune_main
from tests.hb_metrics.conftest import small_model
from tests.hb_train.conftest import labels_by_hand
from tests.hb_train.test_debias import biased_model, data, few_steps, options_for  # noqa: F401 - fixtures of those tests

# Not ours: of transformers, TRL and torch, in runs that are made to diverge.
pytestmark = pytest.mark.filterwarnings("ignore")

# One rate changes nothing, one tunes, one makes weights that are no numbers, and one is no float32 at all.
NOTHING, BEST, TOO_HIGH, IMPOSSIBLE = FOLDERS = ["lr-1e-20", "lr-1", "lr-1e20", "lr-1e40"]
OVERFLOW = "RuntimeError: value cannot be converted to type float without overflow"
GRID = ["--grid", "learning_rate=1e-20,1,1e20,1e40"]
CONFIG = """
optim: sgd
learning_rate: 5.0
max_steps: 2
eval_steps: 2
save_steps: 2
per_device_train_batch_size: 6
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A small model with random weights, a folder of labels, and a recipe."""
    root = tmp_path_factory.mktemp("sweep")
    for part in small_model("gpt2-without-bos"):
        part.save_pretrained(root / "model")
    tokenizer = AutoTokenizer.from_pretrained(root / "model")
    labels_by_hand(root / "labels", tokenizer, "plain", is_encoder_decoder=False)
    (root / "recipe.yaml").write_text(CONFIG, encoding="utf-8")
    return root


def options(folder, *more, output="out"):
    values = {"config": folder / "recipe.yaml", "dataset_name": folder / "labels", "output_dir": folder / output}
    words = [word for name, value in values.items() for word in (f"--{name}", str(value))]
    return [*words, "--model_name_or_path", str(folder / "model"), *GRID, *more]


def sweep_json(folder):
    return json.loads((folder / "sweep.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def interrupted(folder, forked_programs):
    """A sweep that was stopped while its first run ran: its exit code and errors, and the process of the run."""
    (process,), log = forked_programs.start("hb_train.sweep:main", [options(folder)])
    deadline = time.monotonic() + 60
    runs = []
    while time.monotonic() < deadline and not runs:
        runs = psutil.Process(process).children()
        time.sleep(0.05)
    time.sleep(0.2)
    os.kill(process, signal.SIGINT)
    (code,) = forked_programs.wait([process])
    return code, log.read_text(encoding="utf-8"), runs


def run_here(log, command, hub_token=None):
    """As `run_logged`, but in this process: starting Python takes many times as long as these runs."""
    python, _, module, *argv = command
    assert (python, module) == (sys.executable, "hb_train.tune")
    with log.open("a", encoding="utf-8") as output, redirect_stdout(output), redirect_stderr(output):
        try:
            tune_main(argv)
        except (SystemExit, RuntimeError) as error:
            traceback.print_exc()
            return f"{type(error).__name__}: {error}"
    return None


@pytest.fixture(scope="module")
def swept(folder, interrupted):
    """The content of sweep.json of the same sweep, resumed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hb_train.sweep.run_logged", run_here)
        main(options(folder, "--keep", "all"))
    return sweep_json(folder / "out")


def logs(folder):
    return {path.stem: path.read_text(encoding="utf-8") for path in (folder / "out").glob("*.log")}


def test_failures_are_the_error_of_the_script(tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,7")
    log = tmp_path / "run.log"
    log.write_text("of another time\n", encoding="utf-8")

    def failure(code):
        return run_logged(log, [sys.executable, "-c", f"import os, sys; {code}"], None)

    assert failure("print(os.environ['CUDA_VISIBLE_DEVICES'])") is None
    assert log.read_text(encoding="utf-8").endswith("\n4\n")
    assert failure("print('\\nthe reason\\n'); sys.exit(3)") == "the reason"
    error = "tune.py: the folder holds\n  another run\n"
    assert failure(f"print('first'); sys.exit({error!r})") == "tune.py: the folder holds another run"
    assert failure("sys.exit(3)") == "ended with exit status 3"
    assert failure("print('at work', flush=True); os.kill(os.getpid(), 9)") == "ended by SIGKILL after: at work"
    assert log.read_text(encoding="utf-8").startswith("of another time\n$ ")


def test_the_papers_grids():
    (rates,) = read_grid(PAPER_GRIDS["tune"]).values()
    # Half a decade from rate to rate: 3e-7, 9.5e-7, 3e-6, …
    assert list(map(float, rates)) == pytest.approx([3e-7 * 10 ** (index / 2) for index in range(15)], rel=2e-3)
    assert math.prod(map(len, read_grid(PAPER_GRIDS["debias"]).values())) == 54
    assert read_grid(["lambda-d=1,2", "seed=1"]) == {"lambda_d": ["1", "2"], "seed": ["1"]}
    blenderbot = read_grid(["learning_rate=3e-7:3e-3:9"])["learning_rate"]
    assert blenderbot == rates[:9]


@pytest.mark.parametrize("words", [["a"], ["a="], ["=1"], ["a=1,1"], ["a=1,"], ["a=1", "a=2"], ["a=1:2"], ["a=0:1:3"]])
def test_an_invalid_grid_is_rejected(words):
    with pytest.raises(ValueError, match="is no list of values"):
        read_grid(words)


def test_an_interrupted_sweep_stops_its_run(interrupted):
    code, errors, runs = interrupted
    assert code == 1
    assert errors.endswith("\ninterrupted; to resume, give the same command again\n")
    assert len(runs) == 1
    assert not [run for run in runs if run.is_running() and run.status() != psutil.STATUS_ZOMBIE]


def test_each_rate_has_a_run_and_the_lowest_perplexity_wins(folder, swept):
    assert [run["folder"] for run in swept["runs"]] == FOLDERS
    before = set()
    for run in swept["runs"][:2]:
        path = folder / "out" / run["folder"]
        training = json.loads((path / "bias_tuning.json").read_text(encoding="utf-8"))["training"]
        settings = json.loads((path / "run.json").read_text(encoding="utf-8"))["settings"]
        assert (settings["learning_rate"], settings["optim"]) == (float(run["settings"]["learning_rate"]), "sgd")
        assert run["best_validation_perplexity"] == training["best_validation_perplexity"]
        assert (run["best_step"], run["num_steps"], run["failed"]) == (2, 2, None)
        before |= {run["perplexity_before"], training["validation_perplexity"][0]["perplexity"]}
    assert len(before) == 1
    assert swept["best"] == swept["runs"][1]
    assert swept["best"]["best_validation_perplexity"] < swept["runs"][0]["best_validation_perplexity"]


def test_runs_that_diverge_or_fail_are_not_picked(folder, swept):
    failed = [(run["best_validation_perplexity"], run["failed"]) for run in swept["runs"]]
    assert failed[2][1] == DIVERGED
    assert failed[3] == (None, OVERFLOW)
    assert OVERFLOW in logs(folder)[IMPOSSIBLE]
    table = (folder / "out" / "sweep.md").read_text(encoding="utf-8").splitlines()
    assert [line.split(" | ")[-1].strip(" |") for line in table[2:]] == ["", "**best**", DIVERGED, OVERFLOW]
    best = swept["best"]
    assert f"{best['best_validation_perplexity']:,.3f}" in table[3]


def test_a_second_call_repeats_what_failed_and_keeps_the_best(folder, swept, capsys, monkeypatch):
    monkeypatch.setattr("hb_train.sweep.run_logged", run_here)
    logs_before = logs(folder)

    def weights():
        names = {name: {path.name for path in (folder / "out" / name).iterdir()} for name in FOLDERS}
        assert all("run.json" in files for files in names.values())
        return {name: files & {"model.safetensors", "checkpoint-2"} for name, files in names.items()}

    both = {"model.safetensors", "checkpoint-2"}
    assert weights()[NOTHING] == weights()[BEST] == both
    main(options(folder))
    assert weights() == {NOTHING: set(), BEST: both, TOO_HIGH: set(), IMPOSSIBLE: set()}
    assert sweep_json(folder / "out") == swept
    assert {name for name, text in logs(folder).items() if text != logs_before[name]} == {IMPOSSIBLE}
    assert capsys.readouterr().out.rstrip().endswith(f"model: {(folder / 'out' / BEST).resolve()}")


@pytest.mark.long
def test_each_run_is_a_process(folder, capsys):
    main(options(folder, "--grid", "learning_rate=1,1e40", output="processes"))
    sweep = sweep_json(folder / "processes")
    assert [(run["folder"], run["failed"]) for run in sweep["runs"]] == [(BEST, None), (IMPOSSIBLE, OVERFLOW)]
    assert "2/2" in capsys.readouterr().err


def failing(argv):
    with pytest.raises(SystemExit) as error:
        main(list(map(str, argv)))
    return str(error.value)


def test_a_sweep_with_other_options_needs_another_folder(folder, swept):
    assert "options is '--model_name_or_path" in failing(options(folder, "--seed", "1"))
    assert "settings.grid" in failing(options(folder, "--grid", "learning_rate=1,2"))


def test_without_any_result_the_logs_are_named(folder, monkeypatch):
    monkeypatch.setenv("PYTHONHASHSEED", "none")  # with which no Python starts
    error = failing(options(folder, "--grid", "learning_rate=1,2", output="none"))
    assert f"their output is in {folder / 'none'}/*.log" in error
    sweep = sweep_json(folder / "none")
    assert sweep["best"] is None
    assert [run["failed"] for run in sweep["runs"]] == ["Python runtime state: preinitialized"] * 2


@pytest.fixture
def tuned(folder, swept, tmp_path, monkeypatch):
    """Sweeps rates whose runs have ended before with these perplexities; returns the content of sweep.json."""
    monkeypatch.setenv("PYTHONHASHSEED", "none")

    def run(perplexities, digests="dddd"):
        argv = options(folder, output=tmp_path / "ended")
        failing(argv)
        for name, perplexity, digest in zip(FOLDERS, perplexities, digests, strict=True):
            path = tmp_path / "ended" / name
            path.mkdir()
            tuning = json.loads((folder / "out" / BEST / "bias_tuning.json").read_text(encoding="utf-8"))
            tuning["training"]["best_validation_perplexity"] = perplexity
            write_json(path / "bias_tuning.json", tuning)
            write_json(path / "run.json", {"settings": {"learning_rate": name}, "model": {"digest": digest}})
        main(argv)
        return sweep_json(tmp_path / "ended")

    return run


@pytest.mark.parametrize(
    ("perplexities", "best", "at_end"),
    [([9, 8.5, 8.5, 8.75], BEST, False), ([8, 8.5, 8.5, 9], NOTHING, True), ([9, 8.5, 8.5, 8], IMPOSSIBLE, True)],
)
def test_of_equal_perplexities_the_smaller_rate_wins(perplexities, best, at_end, tuned, capsys):
    assert tuned(perplexities)["best"]["folder"] == best
    assert ("learning_rate is at an end of the grid" in capsys.readouterr().out) == at_end


def test_perplexities_that_only_the_cap_makes_finite_diverged(tuned):
    sweep = tuned([9.0, None, math.exp(700), 8.5])
    assert [run["failed"] for run in sweep["runs"]] == [None, DIVERGED, DIVERGED, None]
    assert sweep["best"]["folder"] == IMPOSSIBLE


def test_runs_of_different_models_are_not_comparable(tuned):
    with pytest.raises(SystemExit, match=f"{NOTHING}' and '.*{TOO_HIGH}' differ in model beside their grid"):
        tuned([9.0, 8.5, 8.0, 8.0], "dded")


@pytest.fixture
def debiased(tmp_path, monkeypatch):
    """Sweeps λ_D of runs that have ended before with these (t_log, LMP); returns the folder and sweep.json."""
    monkeypatch.setenv("PYTHONHASHSEED", "none")  # with which no Python starts: nothing is run
    folder = tmp_path / "out"

    def run(*numbers, more=()):
        argv = ["--script", "debias", "--output_dir", str(folder), "--grid", "lambda_d=1,2,3", *more]
        assert "none of the 3 runs" in failing(argv)
        for number, (t_log, lmp) in enumerate(numbers, 1):
            path = folder / f"lambda_d-{number}"
            path.mkdir(parents=True)
            p_value = 2 * norm.sf(np.inf if t_log is None else abs(t_log))
            after = {"t_log": t_log, "p_value_log": p_value, "t": t_log, "lmp": lmp}
            write_json(path / "debias.json", {"before": {"t_log": -9.0, "lmp": 10.0}, "after": after})
            write_json(path / "run.json", {"settings": {"lambda_d": number}})
            (path / "model.safetensors").write_bytes(b"weights")
        main(argv)
        return folder, sweep_json(folder)

    return run


def test_the_least_biased_that_still_talks_as_well_wins(debiased):
    folder, sweep = debiased((-2.0, 10.5), (1.5, 11.0), (0.1, 11.2))
    assert [run["not_picked"] for run in sweep["runs"]] == [None, None, "its LMP rose by 12%"]
    eligible = [run for run in sweep["runs"] if run["not_picked"] is None]
    assert sweep["best"] == max(eligible, key=lambda run: run["p_value_log"]) == sweep["runs"][1]
    assert [path.parent.name for path in folder.glob("*/model.safetensors")] == ["lambda_d-2"]
    assert "| 2 | 1.500 | 0.134 | 1.500 | 11.000 | 1.100 | **best** |" in (folder / "sweep.md").read_text("utf-8")


def test_of_equals_the_one_that_talks_better_wins(debiased):
    _, sweep = debiased((None, 9.0), (2.0, 9.5), (2.0, 10.0))
    assert sweep["best"]["folder"] == "lambda_d-2"
    assert sweep["runs"][0]["not_picked"] == "it has no t or no LMP to choose by"


def test_the_tolerance_is_an_option(debiased):
    assert debiased((-2.0, 10.5), (2.5, 9.5), (1.0, 10.8), more=["--lmp_tolerance", "0"])[1]["best"]["lmp"] == 9.5


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--learning_rate", "1"], "--learning_rate cannot be given here"),
        (["--learning-rate=1"], "--learning_rate cannot be given here"),
        (["--learning", "1"], "--learning cannot be given here"),
        (["--resume_from_checkpoint", "there"], "--resume_from_checkpoint cannot be given here"),
        (["--script", "debias", "--lmp_tolerance", "-1"], "lmp_tolerance is -1"),
        (["--script", "debias", "--lambda_lm", "1"], "--lambda_lm cannot be given here"),
        ([], "--dataset_name is missing"),
        (["--dataset_name", "nowhere"], "'nowhere' has no labels.json"),
        (["--dataset_name", "x", "--method", "kto"], "only method sft can be swept"),
        (["--config", "nowhere.yaml"], "'nowhere.yaml' is not a YAML file of options"),
    ],
)
def test_invalid_options_are_rejected_before_anything_is_written(more, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert words in failing(["--output_dir", "out", *more])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
def test_the_grid_of_debias_runs(biased_model, data, tmp_path):  # noqa: F811
    folder = tmp_path / "out"
    words = options_for(data, folder, "lmd", *few_steps()[:-2], "--num_reference_texts", "10")
    main(["--script", "debias", *words, "--grid", "lambda_d=10,100", "gradient_accumulation_steps=1,5"])
    sweep = sweep_json(folder)
    assert [run["failed"] for run in sweep["runs"]] == [None] * 4
    assert None not in {run["lmp"] for run in sweep["runs"]}
    assert (folder / sweep["best"]["folder"] / "model.safetensors").is_file()
