"""The script for a card, tried on CPU with tiny models."""

import json
import subprocess
import sys
from pathlib import Path
from time import sleep

import pytest

from tests.card import run
from tests.card.models import Setting

TINY = Setting(device="cpu", tiny=True, seconds=600)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")  # of peft
def test_every_stage_reports(capsys):
    stages = {name: stage for name, stage in run.STAGES.items() if name != "processes"}
    assert run.run(TINY, stages)["statuses"] == dict.fromkeys(stages, "done")
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
