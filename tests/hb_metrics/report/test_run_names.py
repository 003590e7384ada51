"""What the runs of a comparison are called."""

from pathlib import Path

import pytest

from hb_metrics.measurements.results import Run
from hb_metrics.report.comparison import run_names
from tests.hb_metrics.made_results import loaded

MODEL = {"digest": None, "kind": None, "dtype": None}
SETTINGS = {"context": "chat", "tag_reason": "as asked"}


def runs_of(*described):
    """Runs of (model, tag, folder)."""
    return [
        Run(Path(folder), loaded({"run": {"model": {**MODEL, "name": model}, "generation": {**SETTINGS, "tag": tag}}}))
        for model, tag, folder in described
    ]


@pytest.mark.parametrize(
    ("described", "names"),
    [
        ([("m", None, "x"), ("n", "bias", "y")], ["m", "n"]),
        (
            [("m", None, "x"), ("n", "no_bias", "y"), ("n", "bias", "z")],
            ["m", "n with tag no_bias", "n with tag bias"],
        ),
        ([("m", None, "r/x"), ("m", None, "r/y")], ["x", "y"]),
        ([("m", None, "r/x"), ("m", None, "s/x")], ["1. x", "2. x"]),
    ],
)
def test_runs_are_named_by_the_first_thing_that_tells_all_of_them_apart(described, names):
    assert run_names(runs_of(*described)) == names


@pytest.mark.parametrize("names", [["one", "two", "three"], ["one"], ["one", "one"], ["one", " "]])
def test_names_that_do_not_tell_runs_apart_are_rejected(names):
    with pytest.raises(ValueError, match="pass a different name for each of the 2 runs"):
        run_names(runs_of(("m", None, "x"), ("n", None, "y")), names)
