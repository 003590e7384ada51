"""The benchmark: a little of each row, so that none rots.

Peers that only the benchmark's extra installs are skipped where they are not installed; `make bench` runs them.
"""

import importlib.util
from functools import cache

import numpy as np
import pytest

from tests.benchmarks import bench
from tests.benchmarks.row import OURS
from tests.benchmarks.run_side import load_row

FRACTION = 0.002
FRACTIONS = {  # where that much takes long, or is too little for what is found
    "perplexity_embedded": 0.001,
    "perplexity_terms": 0.001,
}
NEEDED = {  # by how a side's name begins
    "lm-eval": "lm_eval",
}
SIDES = [(name, side) for name in bench.ROWS for side in load_row(name).sides]
LOADED = {}


@cache
def little(name):
    return load_row(name).inputs(FRACTIONS.get(name, FRACTION))


@cache
def found_by(name, side_name):
    """What a side finds in a little of a row; what several sides load the same way is loaded once."""
    side = load_row(name).sides[side_name]
    # Models are the same for all rows; what is made of a row's inputs is of that row.
    loader = side.load if name.startswith("perplexity") else (side.load, name)
    if loader not in LOADED:
        LOADED[loader] = side.load(little(name))
    return {key: np.asarray(value) for key, value in side.run(little(name), LOADED[loader]).items()}


@pytest.mark.embedded
@pytest.mark.filterwarnings("default")  # peers may warn of what they like
@pytest.mark.parametrize(("name", "side_name"), SIDES, ids=[f"{name}-{side}" for name, side in SIDES])
def test_every_side_of_every_row_runs_and_finds_what_we_find(name, side_name):
    for beginning, package in NEEDED.items():
        if side_name.startswith(beginning) and importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed; it comes with the extra 'bench'")
    row = load_row(name)
    ours, theirs = found_by(name, OURS), found_by(name, side_name)
    assert row.work(little(name)) > 0
    assert set(ours) & set(theirs), "nothing to compare"
    bench._check_equal(name, row, side_name, ours, theirs)
    assert isinstance(row.notes(ours), str)
