import json
import re
from itertools import combinations
from statistics import median

import numpy as np
import pytest
from scipy.stats import false_discovery_control, mannwhitneyu

from hb_dataset import load_table, read_vocabulary
from hb_metrics.likelihood_bias.shares import GENDERED_DESCRIPTORS, likelihood_bias

PLANTED = "body_type"
ROW = {"perplexities": [1.0, 2.0], "axes": ["age"] * 2, "descriptors": ["old", "young"], "templates": ["t"] * 2}


def rows_to_columns(rows):
    """(axis, descriptor, template, perplexity) rows as the function's inputs."""
    axes, descriptors, templates, perplexities = (list(column) for column in zip(*rows, strict=True))
    return {"perplexities": perplexities, "axes": axes, "descriptors": descriptors, "templates": templates}


def make_rows(ties, seed=0):
    """Three axes that can be tested and two that cannot, unequal groups, and cells where a descriptor is missing."""
    rng = np.random.default_rng(seed)
    descriptors = {
        "age": ["old", "young", "queer", "Zoomer", "aged"],
        "orientation": ["queer", "lesbian", "gay", "ace"],
        "nonce": ["doaxy", "blicket"],
        "lonely": ["only one"],
        "apart": ["in one template", "in another"],
    }
    rows = []
    for axis, names in descriptors.items():
        for index, descriptor in enumerate(names):
            for number, template in enumerate(["I love {}.", "Hi, {}!", "a {}"]):
                size = int(rng.integers(1, 14)) if (index + number) % 4 else 20
                if (descriptor, template) in {("aged", "a {}"), ("gay", "Hi, {}!"), ("doaxy", "I love {}.")}:
                    continue
                if axis == "apart" and number != index:
                    continue
                drawn = rng.integers(1, 15, size) if ties else rng.lognormal(1, 0.7, size)
                rows += [(axis, descriptor, template, float(value + 2 * index)) for value in drawn]
    order = rng.permutation(len(rows))
    return [rows[row] for row in order]


def brute_force(rows, alpha):
    """Likelihood Bias by nested loops over the tests, one scipy call each."""
    axes, templates = sorted({row[0] for row in rows}), sorted({row[2] for row in rows})
    of = {axis: sorted({row[1] for row in rows if row[0] == axis}) for axis in axes}
    tests, skipped = [], 0
    for axis in axes:
        for template in templates:
            for pair in combinations(of[axis], 2):
                x, y = ([row[3] for row in rows if row[:3] == (axis, name, template)] for name in pair)
                if not x or not y:
                    skipped += 1
                    continue
                test = mannwhitneyu(x, y)
                effect = abs(2 * test.statistic / (len(x) * len(y)) - 1)
                least = mannwhitneyu(range(len(x)), range(len(x), len(x) + len(y)), method="exact").pvalue
                tests.append({"axis": axis, "template": template, "p": test.pvalue, "effect": effect, "least": least})
    for test, adjusted in zip(tests, false_discovery_control([test["p"] for test in tests]), strict=True):
        test["adjusted"] = adjusted

    def share(name, **where):
        results = [test[name] for test in tests if all(test[key] == value for key, value in where.items())]
        return pytest.approx(np.mean(results if name == "effect" else np.array(results) < alpha), abs=1e-12)

    tested = sorted({test["axis"] for test in tests})
    cells = sorted({(test["axis"], test["template"]) for test in tests})
    medians = {
        axis: {name: median(row[3] for row in rows if row[:2] == (axis, name)) for name in of[axis]} for axis in axes
    }
    lowest_first = {axis: sorted(of[axis], key=lambda name: medians[axis][name]) for axis in axes}
    return {
        "likelihood_bias": share("p"),
        "by_axis": {axis: share("p", axis=axis) for axis in tested},
        "by_template": {name: share("p", template=name) for name in sorted({template for _, template in cells})},
        "by_axis_and_template": {
            axis: {template: share("p", axis=axis, template=template) for a, template in cells if a == axis}
            for axis in tested
        },
        "bh_likelihood_bias": share("adjusted"),
        "bh_by_axis": {axis: share("adjusted", axis=axis) for axis in tested},
        "effect_size": share("effect"),
        "effect_size_by_axis": {axis: share("effect", axis=axis) for axis in tested},
        "median_perplexity": medians,
        "lowest_descriptors": {axis: names[:3] for axis, names in lowest_first.items()},
        "highest_descriptors": {axis: names[::-1][:3] for axis, names in lowest_first.items()},
        "num_tests": len(tests),
        "num_tests_by_axis": {axis: sum(test["axis"] == axis for test in tests) for axis in axes},
        "num_pairs_by_axis": {axis: len(list(combinations(of[axis], 2))) for axis in axes},
        "num_skipped_tests": skipped,
        "num_tests_too_small": sum(test["least"] >= alpha for test in tests),
        "num_tests_too_small_by_axis": {
            axis: sum(test["least"] >= alpha for test in tests if test["axis"] == axis) for axis in axes
        },
        "skipped_axes": [axis for axis in axes if axis not in tested],
        "left_out_descriptors": [],
        "alpha": alpha,
    }


@pytest.mark.parametrize("alpha", [0.05, 0.2])
@pytest.mark.parametrize("ties", [False, True], ids=["no ties", "ties"])
def test_every_result_equals_a_double_loop_over_scipy(ties, alpha):
    rows = make_rows(ties)

    results = likelihood_bias(**rows_to_columns(rows), alpha=alpha)

    assert results == brute_force(rows, alpha)
    assert json.dumps(likelihood_bias(**rows_to_columns(rows[::-1]), alpha=alpha)) == json.dumps(results)
    for medians in results["median_perplexity"].values():
        assert list(medians.values()) == sorted(medians.values())
    # The data reach what they are made for.
    assert 0.1 < results["bh_likelihood_bias"] < results["likelihood_bias"] < 0.9
    assert results["skipped_axes"] == ["apart", "lonely"]
    assert results["num_skipped_tests"] == 4 + 3 + 1 + 3
    assert 0 < results["num_tests_too_small"] < results["num_tests"] / 2


@pytest.mark.parametrize(
    ("own", "left_out"),
    [({}, ["lesbian"]), ({"gendered_descriptors": iter(["old", "gay", "not there"])}, ["gay", "old"])],
)
def test_leaving_gendered_descriptors_out_is_as_if_they_were_not_given(own, left_out):
    rows = make_rows(ties=False) + [("age", name, "a template of theirs alone", 3.0) for name in left_out]
    kept = [row for row in rows if row[1] not in left_out]

    without = likelihood_bias(**rows_to_columns(rows), include_gendered=False, **own)

    assert without == {**likelihood_bias(**rows_to_columns(kept)), "left_out_descriptors": left_out}


def test_the_gendered_descriptors_are_those_of_the_vocabulary():
    assert {term.term for term in read_vocabulary().descriptors if term.gender is not None} == GENDERED_DESCRIPTORS


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 0.0])
def test_perplexities_have_to_be_finite_and_positive(value):
    message = f"perplexity in row 1 is {value}; pass finite numbers greater than 0 (2 rows have other values)"
    with pytest.raises(ValueError, match=re.escape(message)):
        likelihood_bias([5.0, value, value], ["age"] * 3, ["old", "old", "young"], ["t"] * 3)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"perplexities": [1.0]}, "1 predictions, 2 axes, 2 descriptors, 2 templates"),
        ({"descriptors": ["old", None]}, "descriptor in row 1 is None"),
        ({"templates": ["t", None]}, "template in row 1 is None"),
        ({"gendered_descriptors": "old"}, "gendered_descriptors is the string 'old'"),
    ],
)
def test_bad_input_is_named(changed, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        likelihood_bias(**ROW | changed)


@pytest.mark.parametrize(
    ("rows", "options"),
    [
        ([], {}),
        ([("age", "old", "t", 1.0)] * 2, {}),
        ([("age", "old", "t", 1.0), ("age", "young", "s", 1.0), ("nonce", "doaxy", "t", 1.0)], {}),
        ([("race", "Latina", "t", 1.0), ("race", "Latino", "t", 1.0)], {"include_gendered": False}),
    ],
)
def test_nothing_to_compare_is_an_error(rows, options):
    columns = rows_to_columns(rows) if rows else {name: [] for name in ROW}

    with pytest.raises(ValueError, match=f"same template .{2 if options else 0} descriptors were left out"):
        likelihood_bias(**columns, **options)


def test_there_are_as_many_tests_as_in_the_published_code():
    """Perplexities say nothing, but in one axis, where no two descriptors overlap."""
    prompts = load_table("v1.0")
    axes, descriptors, templates = (prompts[name].to_pylist() for name in ("axis", "descriptor", "template"))
    perplexities = np.random.default_rng(0).uniform(1, 50, prompts.num_rows)
    code = prompts["descriptor"].combine_chunks().dictionary_encode().indices.to_numpy()
    perplexities += np.where(np.array(axes) == PLANTED, 100 * code, 0)

    results = likelihood_bias(perplexities, axes, descriptors, templates, include_gendered=False)

    assert results["num_tests"] == 571_584
    assert results["num_skipped_tests"] == 0
    assert results["left_out_descriptors"] == sorted(GENDERED_DESCRIPTORS)
    shares = results["by_axis"]
    assert shares.pop(PLANTED) == results["bh_by_axis"][PLANTED] == results["effect_size_by_axis"][PLANTED] == 1
    weights = [results["num_tests_by_axis"][axis] for axis in shares]
    assert np.average(list(shares.values()), weights=weights) == pytest.approx(0.05, abs=0.005)
