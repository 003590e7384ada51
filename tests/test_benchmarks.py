"""The benchmark: a little of each row, so that none rots."""

import importlib.util
from functools import cache

import numpy as np
import pytest

from tests.benchmarks import bench
from tests.benchmarks.row import OURS, load_row

FRACTION = 0.002
# The row perplexity_terms has the sides and the model of perplexity_embedded.
SIDES = [(name, side) for name in ("perplexity_embedded", "replies") for side in load_row(name).sides]


@cache
def inputs_of(name):
    """A little of a row."""
    return load_row(name).inputs(FRACTION)


@cache
def results(name, side_name):
    side, inputs = load_row(name).sides[side_name], inputs_of(name)
    return {key: np.asarray(value) for key, value in side.run(inputs, side.load(inputs)).items()}


@pytest.mark.parametrize("name", bench.ROWS)
def test_every_row_has_work(name):
    assert load_row(name).work(inputs_of(name)) > 0


@pytest.mark.long
@pytest.mark.embedded
@pytest.mark.filterwarnings("default")  # peers may warn of what they like
@pytest.mark.parametrize(("name", "side_name"), SIDES, ids=[f"{name}-{side}" for name, side in SIDES])
def test_every_side_of_every_row_runs_and_finds_what_we_find(name, side_name):
    if side_name == "lm-eval" and importlib.util.find_spec("lm_eval") is None:
        pytest.skip("lm-eval is not installed; it comes with the extra 'bench'")
    row, ours = load_row(name), results(name, OURS)
    bench.check_equal(name, row, side_name, ours, results(name, side_name))
    assert isinstance(row.notes(ours), str)
