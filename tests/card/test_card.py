"""The script for a card, tried on CPU with tiny models."""

import json
from time import sleep

import pytest
import torch

from tests.card import run
from tests.card.models import Setting


@pytest.mark.long
def test_every_stage_reports(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert run.main(["--tiny", "--minutes", "10", "--out", str(tmp_path / "out.json")]) == 0
    *stages, last = map(json.loads, capsys.readouterr().out.splitlines())
    assert [stage["stage"] for stage in stages] == list(run.STAGES)
    assert last["statuses"] == dict.fromkeys(run.STAGES, "done") | {"places": "skipped"}
    assert last["stages"] == stages
    assert json.loads((tmp_path / "out.json").read_text()) == last


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
