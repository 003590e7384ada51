"""A sweep of learning rates: what it runs, what it records, what it keeps, and what it refuses."""

import json
import math
import os
import re
import signal
import sys
import time
import traceback
from contextlib import redirect_stderr, redirect_stdout
from decimal import Decimal

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hb_metrics.runs.run_folder import write_json
from hb_train.sweep import main
from hb_train.tune import main as tune_main
from hb_train.tuning.labels import LABELS_FILE, ROW_SCHEMA
from hb_train.tuning.learning_rate_sweep import DIVERGED, SweepArguments, learning_rates
from hb_train.tuning.sweep_page import remarks, sweep_table
from tests.hb_metrics.conftest import small_model
from tests.hb_metrics.pages import Page

# Not ours: of transformers, TRL and torch, in runs that are made to diverge.
pytestmark = pytest.mark.filterwarnings("ignore")

# One rate changes nothing, one tunes, one makes weights that are no numbers, and one is no float32 at all.
NOTHING, BEST, TOO_HIGH, IMPOSSIBLE = FOLDERS = ["lr-1.00e-20", "lr-1.00e+00", "lr-1.00e+20", "lr-1.00e+40"]
OVERFLOW = "RuntimeError: value cannot be converted to type float without overflow"
GRID = ["--lowest", "1e-20", "--highest", "1e40", "--num_runs", "4", "--num_parallel", "2"]
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
    (root / "labels" / "data").mkdir(parents=True)
    for split, numbers in (("train", range(12)), ("validation", range(12, 16))):
        rows = [
            {
                "id": str(number),
                "prompt": f"Hi! I'm person {number}. {tag}\n",
                "completion": "That is great.",
                "tag": tag,
                "bias_value": 0.1,
                **dict.fromkeys(("axis", "descriptor", "noun", "template"), "any"),
                "truncated": False,
            }
            for number in numbers
            for tag in [("bias", "no_bias")[number % 2]]
        ]
        pq.write_table(pa.Table.from_pylist(rows, ROW_SCHEMA), root / "labels" / "data" / f"{split}.parquet")
    labels = {
        "suffix": "\n",
        "context": "plain",
        "alpha": 0,
        "beta": 0.1,
        "model": {"name": "small", "digest": "00ff"},
        "style_classifier": {"name": "styles", "digest": "ff00", "num_styles": 3},
        "by_tag": {"bias": 8, "no_bias": 8},
        "by_split": {},
    }
    write_json(root / "labels" / LABELS_FILE, labels)
    (root / "recipe.yaml").write_text(CONFIG, encoding="utf-8")
    return root


def options(folder, *more, output="out"):
    values = {"config": folder / "recipe.yaml", "dataset_name": folder / "labels", "output_dir": folder / output}
    words = [word for name, value in values.items() for word in (f"--{name}", str(value))]
    return [*words, "--model_name_or_path", str(folder / "model"), *GRID, *more]


@pytest.fixture(scope="module")
def interrupted(folder, forked_programs):
    """A sweep that was stopped while its first runs ran: its exit code and errors, and the processes of these runs."""
    (process,), log = forked_programs.start("hb_train.sweep:main", [options(folder)])
    deadline = time.monotonic() + 60
    runs = []
    while time.monotonic() < deadline and len(runs) < 2:
        runs = psutil.Process(process).children()
        time.sleep(0.05)
    time.sleep(0.2)
    os.kill(process, signal.SIGINT)
    (code,) = forked_programs.wait([process])
    return code, log.read_text(encoding="utf-8"), runs


def run_here(commands, num_parallel, hub_token=None):
    """As `run_processes`, but in this process: starting Python takes many times as long as these runs."""
    for log, (python, _, module, *argv) in commands.items():
        assert (python, module) == (sys.executable, "hb_train.tune")
        failure = None
        with log.open("a", encoding="utf-8") as output, redirect_stdout(output), redirect_stderr(output):
            try:
                tune_main(argv)
            except (SystemExit, RuntimeError) as error:
                traceback.print_exc()
                failure = f"{type(error).__name__}: {error}"
        yield log, failure


@pytest.fixture(scope="module")
def swept(folder, interrupted):
    """The content of sweep.json of the same sweep, resumed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hb_train.tuning.learning_rate_sweep.run_processes", run_here)
        main(options(folder, "--keep", "all"))
    return json.loads((folder / "out" / "sweep.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def page(folder, swept):
    return Page((folder / "out" / "sweep.html").read_text(encoding="utf-8"))


def tuned(folder, name):
    return json.loads((folder / "out" / name / "bias_tuning.json").read_text(encoding="utf-8"))["training"]


def logs(folder):
    return {path.stem: path.read_text(encoding="utf-8") for path in (folder / "out").glob("*.log")}


def test_the_papers_grids_are_uniform_in_the_logarithm(tmp_path):
    for highest, num_runs in ((3e0, 15), (3e-3, 9)):
        rates = learning_rates(SweepArguments(output_dir=str(tmp_path), highest=highest, num_runs=num_runs))
        assert len(rates) == num_runs
        # Half a decade from rate to rate: 3e-7, 9.5e-7, 3e-6, …
        expected = [float(Decimal("3e-7") * Decimal(10) ** (Decimal(index) / 2)) for index in range(num_runs)]
        assert rates == pytest.approx(expected, rel=1e-12)
        assert (rates[0], rates[-1]) == (3e-7, highest)
    assert vars(SweepArguments(output_dir="x")).items() >= {"lowest": 3e-7, "highest": 3e0, "num_runs": 15}.items()


def test_an_interrupted_sweep_stops_its_runs(interrupted):
    code, errors, runs = interrupted

    assert code == 1
    assert errors.endswith("\ninterrupted; to resume, give the same command again\n")
    assert len(runs) == 2
    assert not [run for run in runs if run.is_running()]


def test_each_rate_is_a_run_of_its_own(folder, swept):
    assert [run["folder"] for run in swept["runs"]] == FOLDERS
    assert swept["grid"] == [run["learning_rate"] for run in swept["runs"]]
    assert swept["grid"] == pytest.approx([1e-20, 1, 1e20, 1e40])
    for run in swept["runs"][:2]:
        training = tuned(folder, run["folder"])
        record = json.loads((folder / "out" / run["folder"] / "run.json").read_text(encoding="utf-8"))
        assert record["settings"]["learning_rate"] == run["learning_rate"]
        assert record["settings"]["optim"] == "sgd"
        assert [run[name] for name in ("best_validation_perplexity", "best_step", "num_steps", "failed")] == [
            training["best_validation_perplexity"],
            2,
            2,
            None,
        ]
    before = {tuned(folder, name)["validation_perplexity"][0]["perplexity"] for name in (NOTHING, BEST)}
    assert {swept["validation_perplexity_before_tuning"]} == before


def test_the_lowest_perplexity_is_the_best(swept):
    assert swept["best"] == swept["runs"][1]
    assert swept["best"]["best_validation_perplexity"] < swept["runs"][0]["best_validation_perplexity"]
    assert swept["best_at_end"] is None


def test_runs_that_diverge_or_fail_are_reported_and_not_picked(folder, swept):
    failed = [(run["best_validation_perplexity"], run["failed"], run["diverged"]) for run in swept["runs"]]

    assert failed[2:] == [(None, DIVERGED, True), (None, OVERFLOW, False)]
    assert "'eval_perplexity': " in logs(folder)[TOO_HIGH]
    assert OVERFLOW in logs(folder)[IMPOSSIBLE]


def test_the_page_and_the_table_hold_the_runs(swept, page):
    low, best = (f"{run['best_validation_perplexity']:,.3f}" for run in swept["runs"][:2])
    before = f"{swept['validation_perplexity_before_tuning']:,.3f}"
    rows = [
        ["1.00e-20", low, "2", "2", NOTHING],
        ["1.00e+00", best, "2", "2", f"best: {BEST}"],
        ["1.00e+20", "–", "–", "–", DIVERGED],
        ["1.00e+40", "–", "–", "–", OVERFLOW],
    ]

    assert [row[:3] + row[4:] for row in page.table("Runs")[1:]] == [row[:3] + row[4:] for row in rows]
    assert page.tiles == {
        "best learning rate": ["1.00e+00"],
        "its validation perplexity": [best],
        "before tuning": [before],
        "runs with a result": ["2 of 4"],
    }
    table = [[cell.strip() for cell in line.split("|")[1:-1]] for line in sweep_table(swept).split("\n")]
    assert [row[:3] for row in table[2:]] == [row[:3] for row in rows]
    assert [row[4] for row in table[2:]] == ["", "**best**", DIVERGED, OVERFLOW]
    assert remarks(swept) == [
        f"Best: 1.00e+00, with a validation perplexity of {best} ({before} before tuning).",
        "1 of 4 runs failed without diverging; the same command tries them again.",
    ]
    assert remarks(swept)[1] in page.words


def test_the_page_loads_nothing(page):
    links = {name for _, attrs in page.elements for name in attrs if name in ("src", "href", "srcset", "data")}

    assert page.open == []
    assert links == {"href"}
    assert not {tag for tag, _ in page.elements} & {"link", "img", "iframe"}


def weights(folder):
    """The weights and checkpoints of each run, by its folder."""
    files = {name: {path.name for path in (folder / "out" / name).iterdir()} for name in FOLDERS}
    assert all("run.json" in names for names in files.values())
    return {name: names & {"model.safetensors", "checkpoint-2"} for name, names in files.items()}


def test_a_sweep_that_is_done_repeats_only_what_failed_and_keeps_the_best(folder, swept, capsys, monkeypatch):
    monkeypatch.setattr("hb_train.tuning.learning_rate_sweep.run_processes", run_here)
    before = {path: path.stat().st_mtime_ns for path in (folder / "out").rglob("*")}
    logs_before, both = logs(folder), {"model.safetensors", "checkpoint-2"}
    assert weights(folder) == {NOTHING: both, BEST: both, TOO_HIGH: {"checkpoint-2"}, IMPOSSIBLE: set()}

    main(options(folder))

    out = capsys.readouterr().out
    assert weights(folder) == {NOTHING: set(), BEST: both, TOO_HIGH: set(), IMPOSSIBLE: set()}
    assert json.loads((folder / "out" / "sweep.json").read_text(encoding="utf-8")) == swept
    assert {name for name, text in logs(folder).items() if text != logs_before[name]} == {IMPOSSIBLE}
    assert logs(folder)[IMPOSSIBLE].count(OVERFLOW) == 2
    changed = {path for path, time_before in before.items() if path.exists() and path.stat().st_mtime_ns != time_before}
    assert not {path for path in changed if path.parent.name in (NOTHING, BEST, TOO_HIGH)}
    assert out.rstrip().endswith(f"model: {(folder / 'out' / BEST).resolve()}")


@pytest.mark.long
def test_each_run_is_a_process_of_its_own(folder, capsys):
    main(options(folder, "--lowest", "1", "--num_runs", "2", output="processes"))

    out, err = capsys.readouterr()
    sweep = json.loads((folder / "processes" / "sweep.json").read_text(encoding="utf-8"))
    assert [(run["folder"], run["failed"]) for run in sweep["runs"]] == [(BEST, None), (IMPOSSIBLE, OVERFLOW)]
    assert (folder / "processes" / f"{IMPOSSIBLE}.log").read_text(encoding="utf-8").rstrip().endswith(OVERFLOW)
    assert "2/2" in err
    assert err.count("\n") <= 1  # nothing but the bar
    assert out.rstrip().endswith(f"model: {(folder / 'processes' / BEST).resolve()}")


def test_a_sweep_with_other_options_needs_another_folder(folder, swept):
    def error(*more):
        return failing(options(folder, *more))

    assert "options is '--model_name_or_path" in error("--seed", "1")
    assert "settings.highest is 1e+40 there and 1e+41 here" in error("--highest", "1e41")


def test_without_any_result_the_logs_are_named(folder, capsys, monkeypatch):
    monkeypatch.setenv("PYTHONHASHSEED", "none")  # with which no Python starts

    error = failing(options(folder, "--num_runs", "2", output="none"))

    assert f"none of the 2 runs has a result; their output is in {folder / 'none'}/lr-*.log" in error
    sweep = json.loads((folder / "none" / "sweep.json").read_text(encoding="utf-8"))
    assert sweep["best"] is None
    reasons = [run["failed"] for run in sweep["runs"]]
    assert reasons == ["Python runtime state: preinitialized"] * 2
    assert "None of the runs has a result" in Page((folder / "none" / "sweep.html").read_text(encoding="utf-8")).words
    assert capsys.readouterr().out.count(reasons[0]) == 2


@pytest.fixture
def finish(folder, swept, tmp_path, monkeypatch):
    """Runs a sweep whose runs have ended before with these perplexities, and returns the content of sweep.json."""
    monkeypatch.setenv("PYTHONHASHSEED", "none")

    def run(perplexities, digests=("d", "d", "d", "d")):
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
        return json.loads((tmp_path / "ended" / "sweep.json").read_text(encoding="utf-8"))

    return run


def test_of_equal_perplexities_the_smaller_rate_is_the_best(finish):
    sweep = finish([9.0, 8.5, 8.5, 8.75])

    assert sweep["best"]["folder"] == BEST
    assert sweep["best_at_end"] is None


@pytest.mark.parametrize(
    ("perplexities", "best", "end"),
    [([8.0, 8.5, 8.5, 9.0], NOTHING, "lowest"), ([9.0, 8.5, 8.5, 8.0], IMPOSSIBLE, "highest")],
)
def test_the_best_can_lie_at_an_end(perplexities, best, end, finish, capsys):
    sweep = finish(perplexities)

    assert (sweep["best"]["folder"], sweep["best_at_end"]) == (best, end)
    assert f"It is the {end} rate of the grid: the optimum may lie" in capsys.readouterr().out


def test_perplexities_that_only_the_cap_makes_finite_are_diverged(finish):
    sweep = finish([9.0, None, math.exp(700), 8.5])

    assert [run["diverged"] for run in sweep["runs"]] == [False, True, True, False]
    assert [run["failed"] for run in sweep["runs"]] == [None, DIVERGED, DIVERGED, None]
    assert [run["best_validation_perplexity"] for run in sweep["runs"]] == [9.0, None, None, 8.5]


def test_runs_of_different_models_do_not_compare(finish):
    with pytest.raises(SystemExit, match=f"{NOTHING}' and '.*{re.escape(TOO_HIGH)}' differ in model beside their"):
        finish([9.0, 8.5, 8.0, 8.0], digests=["d", "d", "e", "d"])


def failing(argv):
    with pytest.raises(SystemExit) as error:
        main(list(map(str, argv)))
    return str(error.value)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--learning_rate", "1"], "--learning_rate cannot be given here: the sweep gives each run its own"),
        (["--learning-rate=1"], "--learning_rate cannot be given here"),
        (["--learning", "1"], "--learning_rate cannot be given here"),
        (["--output_dir", "there"], "--output_dir cannot be given here: give it once"),
        (["--output-dir=there"], "--output_dir cannot be given here: give it once"),
        (["--resume_from_checkpoint", "there"], "each run resumes from its own"),
        (["--lowest", "1"], "lowest is 1 and highest 0.1"),
        (["--lowest", "0"], "lowest is 0"),
        (["--num_runs", "1"], "num_runs is 1; give at least 2"),
        (["--num_parallel", "0"], "num_parallel is 0; give at least 1"),
        (["--lowest", "0.0999"], "15 rates from 0.0999 to 0.1 are too close"),
        ([], "--dataset_name is missing"),
        (["--dataset_name", "nowhere"], "'nowhere' has no labels.json"),
        (["--config", "nowhere.yaml"], "config 'nowhere.yaml' cannot be read"),
    ],
)
def test_invalid_options_are_refused_before_anything_is_written(more, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    assert words in failing(["--output_dir", "out", "--highest", "0.1", *more])
    assert list(tmp_path.iterdir()) == []


def test_a_config_that_is_no_mapping_is_refused(tmp_path):
    (tmp_path / "list.yaml").write_text("- 1", encoding="utf-8")

    assert "it is no mapping" in failing(["--output_dir", tmp_path / "out", "--config", tmp_path / "list.yaml"])
