"""The script for a card, tried on CPU with tiny models."""

import json
import subprocess
import sys
from pathlib import Path
from time import sleep

import pytest

from tests.card import fast, run
from tests.card.models import Setting

TINY = Setting(device="cpu", tiny=True, seconds=600)
SIZE = fast.Size(parameters=100, multiplied=80, attention=4, cached=8, itemsize=2)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")  # of peft
def test_every_stage_reports(capsys):
    stages = {name: stage for name, stage in run.STAGES.items() if name != "processes"}
    statuses = dict.fromkeys(stages, "done") | {"generate_batch": "skipped"}
    assert run.run(TINY, stages)["statuses"] == statuses
    assert [json.loads(line)["stage"] for line in capsys.readouterr().out.splitlines()] == list(stages)


@pytest.mark.long
def test_the_script_runs_by_itself(tmp_path):
    options = ["--tiny", "--only", "machine", "processes", "--out", tmp_path / "out.json"]
    command = [sys.executable, "-m", "tests.card.run", *options]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True)
    *stages, last = map(json.loads, done.stdout.splitlines())
    assert (done.returncode, last["statuses"]) == (0, {"machine": "done", "processes": "done"}), done.stderr[-3000:]
    assert last == {"stages": stages, "statuses": last["statuses"]} == json.loads((tmp_path / "out.json").read_text())


def test_the_rest_goes_on_after_a_fault():
    def broken(setting):
        raise RuntimeError("it broke")

    stages = {
        "broken": (1, {"first": broken, "second": lambda setting: {"right": True}}),
        "slow": (1, {"sleep": lambda setting: sleep(60), "never": broken}),
        "wrong": (1, {"first": lambda setting: {"right": False}}),
    }
    result = run.run(Setting(device="cpu", seconds=1), stages)
    assert result["statuses"] == {"broken": "failed", "slow": "cut", "wrong": "wrong"}
    found = result["stages"][0]["found"]
    assert "it broke" in found["first"]["failed"]
    assert found["second"]["right"]


def test_shares_are_work_over_rate():
    scoring = fast.scoring_work(SIZE, [10, 20])
    assert scoring == (2 * 80 * 30 + 4 * (100 + 400), 2 * 100 * 2)
    replies = fast.reply_work(SIZE, tokens=50, prompt_tokens=70, positions=6, steps=9)
    assert replies == (2 * 80 * (50 + 70) + 4 * 50 * 6, 9 * 100 * 2 + 50 * 6 * 8)
    rates = fast.Rates(flops=1000, bandwidth=100, source="")
    assert fast.shares((2000, 500), 10, rates) == {"mfu": 0.2, "bandwidth": 0.5, "of_limit": 0.5}


def test_idle_is_the_time_in_no_interval():
    assert fast.idle_share([(6, 8), (0, 4), (1, 2), (7, 10)]) == pytest.approx(0.2)
    assert fast.idle_share([]) is None
