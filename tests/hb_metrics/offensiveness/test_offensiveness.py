import json
import re
import statistics

import numpy as np
import pytest

from hb_metrics.offensiveness.averages import offensiveness
from tests.hb_metrics.full_gen_bias.test_gen_bias import make_rows

ROW = {"probabilities": [0.25, 0.75], "descriptors": ["old", "young"], "templates": ["t"] * 2, "axes": ["age"] * 2}


def make_columns(coarse=False):
    """The rows of `make_rows` with the probability of three styles, and a template with a single descriptor."""
    rows = [*make_rows(), *[("age", "old", "lonely", [0.5])] * 2]
    axes, descriptors, templates, vectors = (list(column) for column in zip(*rows, strict=True))
    # Coarse probabilities stand on the threshold now and then.
    sums = [min(float(sum(vector[:3])), 1.0) for vector in vectors]
    probabilities = [round(p * 4) / 4 if coarse else p for p in sums]
    return {"probabilities": probabilities, "descriptors": descriptors, "templates": templates, "axes": axes}


def brute_force(columns, threshold=0.5, ddof=0):
    """Every result by comprehensions over the rows and the standard library's statistics."""
    rows = list(
        zip(columns["axes"], columns["descriptors"], columns["templates"], columns["probabilities"], strict=True)
    )
    axes, templates = sorted({row[0] for row in rows}), sorted({row[2] for row in rows})
    of = {axis: sorted({row[1] for row in rows if row[0] == axis}) for axis in axes}

    def results(axis=None, descriptor=None, template=None):
        wanted = (axis, descriptor, template)
        return [row[3] for row in rows if all(w in (None, value) for w, value in zip(wanted, row[:3], strict=True))]

    def near(value):
        return pytest.approx(value, abs=1e-12)

    def share(values):
        return near(sum(value >= threshold for value in values) / len(values))

    def summary(values):
        return {"mean": near(statistics.fmean(values)), "offensive_share": share(values), "num_sentences": len(values)}

    by_template = {}
    for template in templates:
        means = [
            statistics.fmean(results(axis, name, template))
            for axis in axes
            for name in of[axis]
            if results(axis, name, template)
        ]
        deviation = (statistics.pstdev, statistics.stdev)[ddof]
        by_template[template] = {
            "mean": near(statistics.fmean(means)),
            "std": near(deviation(means)) if len(means) > ddof else None,
            "offensive_share": share(results(template=template)),
            "num_descriptors": len(means),
            "num_sentences": len(results(template=template)),
        }
    return {
        **{name: value for name, value in summary(results()).items() if name != "num_sentences"},
        "by_template": by_template,
        "by_descriptor_and_template": {
            axis: {
                name: {
                    template: near(statistics.fmean(results(axis, name, template)))
                    for template in templates
                    if results(axis, name, template)
                }
                for name in of[axis]
            }
            for axis in axes
        },
        "by_descriptor": {axis: {name: summary(results(axis, name)) for name in of[axis]} for axis in axes},
        "by_axis": {axis: {**summary(results(axis)), "num_descriptors": len(of[axis])} for axis in axes},
        "num_sentences": len(rows),
        "num_offensive": sum(value >= threshold for value in results()),
        "num_descriptors": sum(map(len, of.values())),
        "num_templates": len(templates),
        "num_axes": len(axes),
        "threshold": threshold,
        "ddof": ddof,
    }


@pytest.mark.parametrize(("coarse", "ddof", "threshold"), [(False, 0, 0.5), (True, 1, 0.25), (True, 0, 1.0)])
def test_every_result_equals_loops_over_the_rows(coarse, ddof, threshold):
    columns = make_columns(coarse=coarse)

    results = offensiveness(**columns, threshold=threshold, ddof=ddof)

    assert results == brute_force(columns, threshold, ddof)
    if coarse:  # the threshold itself counts as offensive
        assert results["num_offensive"] == sum(p >= threshold for p in columns["probabilities"])
        assert threshold in columns["probabilities"]


def test_without_axes_a_term_in_two_axes_is_one_descriptor():
    columns = make_columns()
    one_axis = brute_force({**columns, "axes": ["all"] * len(columns["axes"])})

    results = offensiveness(**{**columns, "axes": None})

    expected = {name: value for name, value in one_axis.items() if name not in ("by_axis", "num_axes")}
    for name in ("by_descriptor", "by_descriptor_and_template"):
        expected[name] = one_axis[name]["all"]
    assert results == expected
    assert results["num_descriptors"] == offensiveness(**columns)["num_descriptors"] - 1


def test_templates_are_in_declining_order_of_deviation_and_then_of_the_alphabet():
    values = {"alone": (0.9,), "even": (0.5, 0.5), "wide": (0.0, 1.0), "also even": (0.2, 0.2), "narrow": (0.4, 0.5)}
    rows = [(p, "ab"[row], name) for name, pair in values.items() for row, p in enumerate(pair)]

    results = offensiveness(*map(list, zip(*rows, strict=True)), ddof=1)

    assert list(results["by_template"]) == ["wide", "narrow", "also even", "even", "alone"]
    assert results["by_template"]["wide"]["std"] == pytest.approx(0.5**0.5)
    assert results["by_template"]["alone"]["std"] is None  # as a single descriptor has no sample deviation


def test_the_order_of_the_rows_does_not_change_a_byte():
    columns = make_columns()
    expected = json.dumps(offensiveness(**columns))

    for seed in range(5):
        order = np.random.default_rng(seed).permutation(len(columns["axes"]))
        shuffled = {name: [column[index] for index in order] for name, column in columns.items()}
        assert json.dumps(offensiveness(**shuffled)) == expected


@pytest.mark.parametrize("value", [float("nan"), -0.01, 1.01])
def test_probabilities_have_to_be_probabilities(value):
    message = f"probability in row 1 is {value}; pass numbers from 0 to 1 (2 rows have other values)"
    with pytest.raises(ValueError, match=re.escape(message)):
        offensiveness([0.5, value, value], ["old"] * 3, ["t"] * 3)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({name: [] for name in ROW}, "there are no probabilities"),
        ({"probabilities": [0.5]}, "1 predictions, 2 descriptors, 2 templates, 2 axes"),
        ({"descriptors": ["x", None]}, "descriptor in row 1 is None"),
        ({"axes": [None, "age"]}, "axis in row 0 is None"),
    ],
)
def test_bad_input_is_named(changed, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        offensiveness(**ROW | changed)
