"""Sweeps over grids of options: which runs there are, which is the best, and what happens to those that fail."""

import json
import math
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from transformers import AutoTokenizer

from hb_metrics.run.run_folder import write_json
from hb_train.sweep import PAPER_GRIDS, main, read_grid
from tests.hb_metrics.conftest import small_model
from tests.hb_train.conftest import labels_by_hand

# Not ours: of transformers, TRL and torch, in runs that are made to diverge.
pytestmark = pytest.mark.filterwarnings("ignore")

RECIPE = """
optim: sgd
learning_rate: 5.0
max_steps: 2
eval_steps: 2
save_steps: 2
per_device_train_batch_size: 6
"""

WHY = "failed or are excluded for the reasons in sweep.md; set --grid to other values"


@pytest.fixture
def folder(tmp_path):
    """A small model with random weights, a folder of labels, and a recipe."""
    for part in small_model("gpt2-without-bos"):
        part.save_pretrained(tmp_path / "model")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "model")
    labels_by_hand(tmp_path / "labels", tokenizer, "plain", is_encoder_decoder=False)
    (tmp_path / "recipe.yaml").write_text(RECIPE, encoding="utf-8")
    return tmp_path


def in_this_process(command, env):
    """Starting Python takes many times as long as these runs."""
    python, _, module, *argv = command
    assert python == sys.executable
    status = 0
    try:
        import_module(module).main(argv)
    except (SystemExit, RuntimeError):
        status = 1
    return subprocess.CompletedProcess(command, status)


def swept(folder):
    return json.loads((folder / "sweep.json").read_text(encoding="utf-8"))


def test_the_papers_grids():
    (rates,) = read_grid(PAPER_GRIDS["tune"]).values()
    # Half a decade from rate to rate: 3e-7, 9.5e-7, 3e-6, …
    assert list(map(float, rates)) == pytest.approx([3e-7 * 10 ** (index / 2) for index in range(15)], rel=2e-3)
    assert math.prod(map(len, read_grid(PAPER_GRIDS["debias"]).values())) == 54
    assert read_grid(["lambda-d=1,2", "seed=1"]) == {"lambda_d": ["1", "2"], "seed": ["1"]}


@pytest.mark.parametrize("word", ["a", "a=", "=1", "a=1,", "a=1:2", "a=0:1:3"])
def test_an_invalid_grid_is_rejected(word, tmp_path):
    with pytest.raises(SystemExit, match=f"--grid {word} is not a list of values"):
        main(["--output_dir", str(tmp_path / "out"), "--grid", word])
    assert not (tmp_path / "out").exists()


def test_the_lowest_perplexity_wins_and_keeps_its_weights(folder, monkeypatch, capsys):
    """One rate changes nothing, one tunes, one makes weights that are no numbers, and one is no float32 at all."""
    monkeypatch.setattr(subprocess, "run", in_this_process)
    values = {"config": folder / "recipe.yaml", "dataset_name": folder / "labels", "output_dir": folder / "out"}
    words = [word for name, value in values.items() for word in (f"--{name}", str(value))]
    words += ["--model_name_or_path", str(folder / "model"), "--grid", "learning_rate=1e-20,1,1e20,1e40"]
    main(words)
    first = swept(folder / "out")
    names = [f"learning_rate={rate}" for rate in ("1e-20", "1", "1e20", "1e40")]
    assert [run["folder"] for run in first["runs"]] == names
    assert [run["remark"] for run in first["runs"]] == ["", "", *["ended with exit status 1"] * 2]
    for run in first["runs"][:2]:
        path = folder / "out" / run["folder"]
        training = json.loads((path / "bias_tuning.json").read_text(encoding="utf-8"))["training"]
        settings = json.loads((path / "run.json").read_text(encoding="utf-8"))["settings"]
        assert (settings["learning_rate"], settings["optim"]) == (float(run["settings"]["learning_rate"]), "sgd")
        assert run["best_validation_perplexity"] == training["best_validation_perplexity"]
    assert first["best"] == first["runs"][1]
    assert [path.parent.name for path in (folder / "out").glob("*/model.safetensors")] == names[1:2]
    table = (folder / "out" / "sweep.md").read_text(encoding="utf-8").splitlines()
    assert "**best**" in table[3]
    assert f"{first['best']['best_validation_perplexity']:,.4g}" in table[3]

    main(words)  # a second call changes nothing that has ended
    assert swept(folder / "out") == first
    assert capsys.readouterr().out.rstrip().endswith(f"model: {(folder / 'out' / names[1]).resolve()}")
    with pytest.raises(SystemExit, match=re.escape(f"all 4 runs in '{folder / 'out'}' {WHY}")):
        main([*words, "--seed", "1"])  # the folder's runs have another seed


@pytest.fixture
def debiased(tmp_path, monkeypatch):
    """Sweeps λ_D over runs with these (t_log, LMP), and returns the folder of the best run and all remarks."""

    def run(*numbers):
        left = list(numbers)

        def write(command, env):
            assert command[2] == "hb_train.debias"
            (output,) = (Path(word.partition("=")[2]) for word in command if word.startswith("--output_dir="))
            t_log, lmp = left.pop(0)
            output.mkdir(parents=True)
            after = {"t_log": t_log, "p_value_log": 0.5, "t": t_log, "lmp": lmp}
            write_json(output / "debias.json", {"before": {"t_log": -9.0, "lmp": 10.0}, "after": after})
            (output / "model.safetensors").write_bytes(b"weights")
            return subprocess.CompletedProcess(command, 0)

        monkeypatch.setattr(subprocess, "run", write)
        main(["--script", "debias", "--output_dir", str(tmp_path), "--grid", "lambda_d=1,2,3"])
        sweep = swept(tmp_path)
        assert [path.parent.name for path in tmp_path.glob("*/model.safetensors")] == [sweep["best"]["folder"]]
        return sweep["best"]["folder"], [run["remark"] for run in sweep["runs"]]

    return run


@pytest.mark.parametrize(
    ("numbers", "best", "remarks"),
    [
        ([(-2.0, 10.5), (1.5, 11.0), (0.1, 11.2)], 2, ["", "", "LMP rose by 12%"]),
        ([(None, 9.0), (2.0, 9.5), (-1.0, 10.0)], 3, ["no t or no LMP", "", ""]),
        ([(1.0, 10.0), (2.0, 9.5), (-1.5, 10.0)], 1, ["", "", ""]),
    ],
)
def test_the_least_biased_that_still_talks_as_well_wins(numbers, best, remarks, debiased):
    assert debiased(*numbers) == (f"lambda_d={best}", remarks)


def test_a_run_is_a_process_that_sees_one_graphics_card(tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,7")
    seen = []
    monkeypatch.setattr(subprocess, "run", lambda command, env: seen.append((command, env)) or failed(command))
    with pytest.raises(SystemExit, match=re.escape(f"all 2 runs in '{tmp_path}' {WHY}")):
        main(["--output_dir", str(tmp_path), "--grid", "seed=1,2", "--use_peft"])
    commands = [command for command, _ in seen]
    assert [command[3:] for command in commands] == [
        ["--use_peft", f"--output_dir={tmp_path / f'seed={seed}'}", f"--seed={seed}"] for seed in (1, 2)
    ]
    assert {environment["CUDA_VISIBLE_DEVICES"] for _, environment in seen} == {"4"}


def failed(command):
    return subprocess.CompletedProcess(command, 1)
