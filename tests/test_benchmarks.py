"""The benchmark: a little of each row, so that none rots, and the harness on a row made up here.

Peers that only the benchmark's extra installs are skipped where they are not installed; `make bench` runs them.
"""

import importlib.util
import json
from functools import cache

import numpy as np
import pytest

from tests.benchmarks import bench
from tests.benchmarks.row import OURS, Row, Side
from tests.benchmarks.run_side import load_row, run_side

FRACTION = 0.002
FRACTIONS = {  # where that much takes long, or is too little for what is found
    "full_gen_bias": 0.02,
    "perplexity_40000": 0.00005,
    "perplexity_embedded": 0.001,
    "perplexity_gpt2": 0.001,
    "perplexity_terms": 0.001,
}
NEEDED = {  # by how a side's name begins
    "lm-eval": "lm_eval",
    "sentence-transformers": "sentence_transformers",
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


# --- the harness ------------------------------------------------------------------------------------------------------


def made_up_row(**kept):
    def squares(inputs, loaded):
        return {"squares": inputs**2, "positions": np.array(7)}

    settings = {
        "title": "squares",
        "inputs": lambda fraction: np.arange(1.0, 1 + round(100 * fraction)),
        "work": len,
        "unit": "numbers",
        "sides": {OURS: Side(run=squares), "peer": Side(run=lambda inputs, loaded: {"squares": inputs * inputs})},
        "notes": lambda found: f"{int(found['positions'])} positions",
    }
    return Row(**{**settings, **kept})


def test_a_side_writes_its_times_its_work_and_what_it_found(tmp_path):
    for side, notes, names in ((OURS, "7 positions", {"squares", "positions"}), ("peer", "", {"squares"})):
        run_side(made_up_row(), side, 0.1, 3, tmp_path / "side.npz")
        with np.load(tmp_path / "side.npz") as kept:
            measured = json.loads(str(kept["measured"]))
            assert {name.removeprefix("found_") for name in kept.files} - {"measured"} == names
            np.testing.assert_array_equal(kept["found_squares"], np.arange(1, 11) ** 2)
        assert len(measured["seconds"]) == len(measured["memory"]) == 3
        assert (measured["work"], measured["notes"]) == (10, notes)


@pytest.mark.parametrize("times", [1 + 2e-4, 1 - 2e-4, np.nan])
def test_results_that_differ_are_refused_by_name(times):
    row = made_up_row(relative_tolerance=1e-4)
    ours = {"squares": np.array([1.0, 4.0]), "counts": np.array([1, 2])}
    bench._check_equal("row", row, "peer", ours, {"squares": ours["squares"] * (1 + 5e-5)})
    with pytest.raises(ValueError, match="row: 'peer' finds another squares than ours"):
        bench._check_equal("row", row, "peer", ours, {"squares": ours["squares"] * [1, times]})
    with pytest.raises(ValueError, match="row: 'peer' finds another counts than ours"):
        bench._check_equal("row", row, "peer", ours, {"counts": np.array([1, 3])})
    with pytest.raises(ValueError, match="another squares"):
        bench._check_equal("row", row, "peer", ours, {"squares": np.array([1.0, 4.0, 9.0])})
    with pytest.raises(ValueError, match="returns no result that ours returns"):
        bench._check_equal("row", row, "peer", ours, {"others": ours["squares"]})


def test_a_row_is_measured_in_processes_of_its_own():
    row = load_row("likelihood_bias")
    measured = bench._measure("likelihood_bias", "scipy, stacked", {0.01: 2, 0.02: 1})
    assert [len(measured[size].seconds) for size in (0.01, 0.02)] == [2, 1]
    inputs = row.inputs(0.01)
    assert measured[0.01].work == row.work(inputs)
    ours = row.sides[OURS]
    found = {name: np.asarray(value) for name, value in ours.run(inputs, ours.load(inputs)).items()}
    bench._check_equal("likelihood_bias", row, "scipy, stacked", found, measured[0.01].found)
