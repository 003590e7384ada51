"""What messages advise can be done: an option that an error names is an option of every script that can raise it."""

import ast
import re
from pathlib import Path

import pytest

from hb_train import bias_labels, debias, dialog_state_tracking, own_replies, response_generation, tune
from tests.hb_train.conftest import WARNINGS_OF_TRL, write_dialogues

pytestmark = WARNINGS_OF_TRL
ROOT = Path(__file__).parents[2]
SCRIPTS = {
    "tune": (tune, []),
    "debias": (debias, []),
    "dialog_state_tracking": (dialog_state_tracking, []),
    "response_generation": (response_generation, []),
    "own_replies": (own_replies, []),
    "bias_labels": (bias_labels, []),
    "compare": (tune, ["--compare"]),
    "compare debias": (debias, ["--compare"]),
}
TRAINERS = ("tune", "debias", "dialog_state_tracking", "response_generation")
# Which scripts a module's errors reach.
REACHED = {
    "hb_metrics/models/loading.py": [*TRAINERS, "own_replies", "bias_labels", "compare", "compare debias"],
    "hb_train/training/runs.py": TRAINERS,
    "hb_train/training/encoding.py": ["tune", "response_generation"],
    "hb_train/training/saving.py": ["tune"],
    "hb_train/training/models.py": ["tune"],
    "hb_train/tuning/own_rows.py": ["own_replies"],
    "hb_train/tuning/labels.py": ["bias_labels"],
    **{f"hb_train/{name}.py": [name] for name in SCRIPTS if " " not in name},
}
# They name options of the measurement to repeat.
ELSEWHERE = {"--measurements", "--context"}


def options_named(path):
    """The options in the messages of a module's errors."""
    calls = [node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)]
    texts = [
        part.value
        for call in calls
        if isinstance(call.func, ast.Name) and call.func.id.endswith("Error")
        for part in ast.walk(call)
        if isinstance(part, ast.Constant) and isinstance(part.value, str)
    ]
    return {name for text in texts for name in re.findall(r"--[a-z][a-z0-9_]+", text)}


def options_of(script, capsys):
    module, words = SCRIPTS[script]
    with pytest.raises(SystemExit):
        module.main([*words, "--help"])
    return set(re.findall(r"--[a-z][a-z0-9_]+", capsys.readouterr().out))


def test_messages_name_options_of_the_scripts_that_raise_them(capsys):
    known = {script: options_of(script, capsys) for script in SCRIPTS}
    named = {path: options_named(ROOT / path) for path in REACHED}
    for path, scripts in REACHED.items():
        for script in scripts:
            of_others = ELSEWHERE if script == "bias_labels" else set()
            assert named[path] <= known[script] | of_others, (path, script)
    assert "--trust_remote_code" in named["hb_metrics/models/loading.py"]
    assert "--learning_rate" in named["hb_train/training/runs.py"]


def test_the_tasks_trust_code_only_if_asked(pairs_file, monkeypatch, tmp_path):
    def load(name, **settings):
        raise ValueError(f"trusted: {settings['trust_remote_code']}")

    monkeypatch.setattr("hb_train.training.models.load_model", load)
    dialogues = write_dialogues(tmp_path, 4, [3])
    tasks = (dialog_state_tracking, dialogues, []), (response_generation, pairs_file, ["--num_pairs", "60"])
    for script, dialogues, number in tasks:
        words = ["--model_name_or_path", "model", "--dialogues", str(dialogues), "--output_dir", str(tmp_path)]
        words += ["--num_test", "4", *number]
        with pytest.raises(SystemExit, match="trusted: False"):
            script.main(words)
        with pytest.raises(SystemExit, match="trusted: True"):
            script.main([*words, "--trust_remote_code", "true"])
