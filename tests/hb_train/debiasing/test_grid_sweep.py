"""The grid of debiasing: which runs there are, and which is picked."""

import json
from pathlib import Path

import pytest
from scipy.stats import norm

from hb_metrics.runs.run_folder import write_json
from hb_train.debiasing.grid_sweep import PAPER_GRID, grid_table, read_grid
from hb_train.sweep import main
from tests.hb_train.test_debias import biased_model, data, few_steps, options_for  # noqa: F401 - fixtures of those tests


def ended(folder, t_log, lmp, digest="d"):
    """A run that has ended before with these numbers."""
    p_value = 2 * norm.sf(abs(t_log))
    numbers = {"t_log": t_log, "p_value_log": p_value, "t": t_log, "lmp": lmp}
    folder.mkdir(parents=True)
    write_json(folder / "debias.json", {"before": {"t_log": -9.0, "t": -9.0, "lmp": 10.0}, "after": numbers})
    write_json(folder / "run.json", {"settings": {"lambda_d": folder.name}, "model": {"digest": digest}})
    (folder / "model.safetensors").write_bytes(b"weights")


@pytest.fixture
def swept(tmp_path, monkeypatch):
    """Sweeps three runs that have ended with these (t_log, LMP), and returns the folder and sweep.json."""
    monkeypatch.setenv("PYTHONHASHSEED", "none")  # with which no Python starts: nothing is run
    folder = tmp_path / "out"

    def run(*numbers, digests=("d", "d", "d"), more=()):
        argv = ["--script", "debias", "--output_dir", str(folder), "--grid", "lambda_d=1,2,3", *more]
        with pytest.raises(SystemExit, match="none of the 3 runs can be picked"):
            main([*argv])
        for number, (t_log_and_lmp, digest) in enumerate(zip(numbers, digests, strict=True), 1):
            ended(folder / f"lambda_d-{number}", *t_log_and_lmp, digest=digest)
        main(argv)
        return folder, json.loads((folder / "sweep.json").read_text(encoding="utf-8"))

    return run


def test_the_papers_grid():
    assert read_grid(None) == PAPER_GRID
    number = 1
    for values in PAPER_GRID.values():
        number *= len(values)
    assert number == 54
    assert read_grid(["lambda-d=1,2", "learning_rate=1e-5"]) == {"lambda_d": ["1", "2"], "learning_rate": ["1e-5"]}


@pytest.mark.parametrize("words", [["lambda_d"], ["lambda_d="], ["=1"], ["a=1,1"], ["a=1,"], ["a=1", "a=2"]])
def test_an_invalid_grid_is_refused(words):
    with pytest.raises(ValueError, match="is no list of values"):
        read_grid(words)


def test_the_least_biased_that_still_talks_as_well_is_picked(swept):
    folder, sweep = swept((-2.0, 10.5), (1.5, 11.0), (0.1, 11.2))
    assert sweep["best"]["folder"] == "lambda_d-2"
    assert [run["not_picked"] for run in sweep["runs"]] == [None, None, "its LMP rose by 12%"]
    assert [path.parent.name for path in folder.glob("*/model.safetensors")] == ["lambda_d-2"]
    assert "| 2 | 1.500 | 0.134 | 1.500 | 11.000 | 1.100 | **best** |" in (folder / "sweep.md").read_text("utf-8")
    eligible = [run for run in sweep["runs"] if run["not_picked"] is None]
    assert sweep["best"] == max(eligible, key=lambda run: run["p_value_log"])
    assert grid_table(sweep).count("\n") == 4


def test_of_equals_the_one_that_talks_better_is_picked(swept):
    assert swept((-2.0, 10.5), (2.0, 9.5), (2.0, 10.0))[1]["best"]["folder"] == "lambda_d-2"


def test_the_tolerance_is_an_option(swept):
    assert swept((-2.0, 10.5), (2.5, 9.5), (1.0, 10.8), more=["--lmp_tolerance", "0"])[1]["best"]["lmp"] == 9.5


def test_runs_of_different_models_do_not_compare(swept):
    with pytest.raises(SystemExit, match="differ in model beside their lambda_d, so they do not compare"):
        swept((-2.0, 10.5), (2.0, 9.5), (1.0, 10.8), digests=("d", "e", "d"))


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--lambda_lm", "1"], "--lambda_lm cannot be given here"),
        (["--resume_from_checkpoint", "x"], "--resume_from_checkpoint cannot be given here"),
        (["--num_parallel", "0"], "num_parallel is 0"),
        (["--lmp_tolerance", "-1"], "lmp_tolerance is -1"),
    ],
)
def test_invalid_options_are_refused_before_anything_is_written(more, message, tmp_path):
    with pytest.raises(SystemExit, match=message):
        main(["--script", "debias", "--output_dir", str(tmp_path / "out"), *more])
    assert not (tmp_path / "out").exists()


def test_another_script_is_refused():
    with pytest.raises(SystemExit, match="script 'train' is not known; give tune or debias"):
        main(["--script", "train"])


@pytest.mark.parametrize(("script", "option"), [("tune", "--lowest"), ("debias", "--lmp_tolerance")])
def test_the_script_may_be_any_option_and_decides_on_the_others(script, option, capsys):
    for argv in (["--script", script, "--help"], ["--help", f"--script={script}"]):
        with pytest.raises(SystemExit):
            main(argv)
        assert {option, "--script"} <= set(capsys.readouterr().out.split())


@pytest.mark.long
def test_the_grid_runs(biased_model, data, tmp_path):  # noqa: F811
    folder = tmp_path / "out"
    options = options_for(data, folder, "lmd", *few_steps()[:-2], "--num_reference_texts", "10")
    main(["--script", "debias", *options, "--grid", "lambda_d=10,100", "gradient_accumulation_steps=1,5"])
    sweep = json.loads((folder / "sweep.json").read_text(encoding="utf-8"))
    assert len(sweep["runs"]) == 4
    assert all(run["failed"] is None for run in sweep["runs"])
    assert {run["lmp"] for run in sweep["runs"]}.isdisjoint({None})
    assert Path(folder / sweep["best"]["folder"] / "model.safetensors").is_file()
