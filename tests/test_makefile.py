"""What the Makefile runs."""

import subprocess
from pathlib import Path

import pytest


@pytest.mark.parametrize(
    ("target", "command"),
    [
        ("measure", 'python hb_metrics/measure.py --model "embedded" --dataset_config v1.0-small --quick --seed 1'),
        ("measure MODEL=gpt2", 'accelerate launch --quiet hb_metrics/measure.py --model "gpt2" --dataset_config v1.0'),
        ("tune", 'python -m hb_train.tune --compare --model "embedded" --dataset_config v1.0-small --seed 1'),
        ("debias", 'python -m hb_train.debias --compare --model "embedded" --seed 1'),
        ("bench ROW=x", "python -m tests.benchmarks.bench --row x"),
        ("check-terms AGAINST=v1.0", "python -m hub_scripts.terms.check_terms --against v1.0"),
    ],
)
def test_targets_run_the_commands(target, command):
    made = subprocess.run(
        ["make", "--dry-run", *target.split(), "ARGS=--seed 1"],
        cwd=Path(__file__).parents[1], capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert command in made.stdout
