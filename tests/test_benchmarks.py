"""The benchmark: a little of each row, so that none rots."""

import importlib.util
from functools import cache

import pytest

from tests.benchmarks import bench
from tests.benchmarks.row import OURS, load_row, measure_side

FRACTION = 0.002
# The row perplexity_terms has the sides and the model of perplexity_embedded.
SIDES = [(name, side) for name in ("perplexity_embedded", "replies") for side in load_row(name).sides]


@cache
def results(name, side_name):
    """Of a little of a row."""
    return measure_side(name, side_name, {FRACTION: 1})[FRACTION]


@pytest.mark.parametrize("name", bench.ROWS)
def test_every_row_has_work(name):
    row = load_row(name)
    assert row.work(row.inputs(FRACTION)) > 0


@pytest.mark.long
@pytest.mark.embedded
@pytest.mark.filterwarnings("default")  # peers may warn of what they like
@pytest.mark.parametrize(("name", "side_name"), SIDES, ids=[f"{name}-{side}" for name, side in SIDES])
def test_every_side_of_every_row_runs_and_finds_what_we_find(name, side_name):
    if side_name == "lm-eval" and importlib.util.find_spec("lm_eval") is None:
        pytest.skip("lm-eval is not installed; it comes with the extra 'bench'")
    ours = results(name, OURS)
    bench.check_equal(name, load_row(name), side_name, ours.found, results(name, side_name).found)
    assert ours.notes
