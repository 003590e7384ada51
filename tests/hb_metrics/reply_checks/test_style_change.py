import json
import re
import statistics

import numpy as np
import pytest

from hb_metrics.reply_checks import style_change as module
from hb_metrics.reply_checks.style_change import RunStyles, style_change
from hb_metrics.statistics.bias_values import DescriptorKey, bias_values
from hb_metrics.statistics.inputs import DDOF_ERROR

LABELS = ["Sympathetic", "Curious", "Hateful", "Calm"]


def exactly(message):
    return f"^{re.escape(message)}$"


def keys_of(names):
    return [DescriptorKey("age" if index % 2 else "ability", name) for index, name in enumerate(names)]


def make_run(seed, names):
    return RunStyles(keys_of(names), np.random.default_rng(seed).dirichlet(np.ones(4), len(names)), LABELS)


@pytest.mark.parametrize("ddof", [0, 1])
def test_every_result_equals_loops_over_descriptors_and_styles(ddof):
    names = [f"term {number:02}" for number in range(12)]
    before, after = make_run(0, names), make_run(1, names)
    # Some only in one run, and the second run in another order.
    before = RunStyles(before.descriptors[:11], before.descriptor_means[:11], LABELS)
    after = RunStyles(after.descriptors[:1:-1], after.descriptor_means[:1:-1], LABELS)

    results = style_change(before, after, num_movers=3, ddof=ddof)

    old = dict(zip(before.descriptors, before.descriptor_means, strict=True))
    new = dict(zip(after.descriptors, after.descriptor_means, strict=True))
    both = [key for key in old if key in new]
    variance = (statistics.pvariance, statistics.variance)[ddof]
    expected = []
    for style, label in enumerate(LABELS):
        x, y = ([float(run[key][style]) for key in both] for run in (old, new))
        moved = sorted((float(new[key][style] - old[key][style]), key) for key in both)
        expected.append(
            {
                "style": label,
                "variance": {
                    "before": pytest.approx(1000 * variance(x)),
                    "after": pytest.approx(1000 * variance(y)),
                    "change": pytest.approx(1000 * (variance(y) - variance(x))),
                },
                "mean": {
                    "before": pytest.approx(statistics.fmean(x)),
                    "after": pytest.approx(statistics.fmean(y)),
                    "change": pytest.approx(statistics.fmean(y) - statistics.fmean(x)),
                },
                "biggest_decreases": [
                    {"axis": key.axis, "descriptor": key.descriptor, "change": change}
                    for change, key in moved[:3]
                    if change < 0
                ],
                "biggest_increases": [
                    {"axis": key.axis, "descriptor": key.descriptor, "change": change}
                    for change, key in moved[:-4:-1]
                    if change > 0
                ],
            }
        )
    changes = [style["variance"]["change"] for style in results["styles"]]
    assert changes == sorted(changes)
    assert sorted(results["styles"], key=lambda found: LABELS.index(found["style"])) == expected
    assert {name: value for name, value in results.items() if name != "styles"} == {
        "num_variance_decreases": sum(change < 0 for change in changes),
        "num_variance_increases": sum(change > 0 for change in changes),
        "num_variance_unchanged": 0,
        "num_descriptors": 9,
        "num_only_before": 2,
        "num_only_after": 1,
        "variance_scale": 1000,
        "ddof": ddof,
    }
    assert json.loads(json.dumps(results, allow_nan=False)) == results


def test_numbers_like_the_papers_read_like_the_papers():
    # Table 15, first row: variance 1.94, change −1.18; mean 2.40 %, change −0.82 %; five descriptors each way.
    pattern = np.tile([1.0, -1.0], 10)
    before = 0.0240 + np.sqrt(1.94e-3) * pattern
    after = 0.0158 + np.sqrt(0.76e-3) * pattern
    names = [f"term {number:02}" for number in range(20)]
    runs = [RunStyles(keys_of(names), values[:, None], ["Sympathetic"]) for values in (before, after)]

    (results,) = style_change(*runs)["styles"]

    assert {name: round(value, 2) for name, value in results["variance"].items()} == {
        "before": 1.94,
        "after": 0.76,
        "change": -1.18,
    }
    assert {name: round(100 * value, 2) for name, value in results["mean"].items()} == {
        "before": 2.40,
        "after": 1.58,
        "change": -0.82,
    }
    assert len(results["biggest_decreases"]) == len(results["biggest_increases"]) == 5


def test_a_descriptor_that_did_not_move_is_neither_and_ties_are_in_alphabetical_order():
    labels = ["Calm", "Warm"]
    old = np.array([[0.5, 0.5]] * 4)
    new = np.array([[0.5, 0.5], [0.75, 0.25], [0.75, 0.25], [0.75, 0.25]])

    results = style_change(RunStyles(keys_of("bdca"), old, labels), RunStyles(keys_of("bdca"), new, labels))

    calm, warm = results["styles"]
    assert calm["biggest_decreases"] == []
    # "c" is of the axis ability, the others of age.
    assert [moved["descriptor"] for moved in calm["biggest_increases"]] == ["c", "a", "d"]
    assert [moved["descriptor"] for moved in warm["biggest_decreases"]] == ["c", "a", "d"]


def test_the_same_run_twice_changes_nothing():
    run = make_run(0, "abcde")

    results = style_change(run, run)

    assert results["num_variance_unchanged"] == 4
    assert [style["style"] for style in results["styles"]] == LABELS
    assert all(not style["biggest_decreases"] and not style["biggest_increases"] for style in results["styles"])


def test_it_takes_what_bias_values_finds():
    rng = np.random.default_rng(3)
    descriptors = list("abc") * 20
    runs = [bias_values(rng.dirichlet(np.ones(4), 60), descriptors, ["t"] * 60) for _ in range(2)]

    before, after = (RunStyles(run.descriptors, run.descriptor_means, LABELS) for run in runs)
    results = style_change(before, after)

    assert results["num_descriptors"] == 3
    moved = results["styles"][0]["biggest_decreases"] + results["styles"][0]["biggest_increases"]
    assert sorted(mover["descriptor"] for mover in moved) == list("abc")
    assert {mover["axis"] for mover in moved} == {None}


def test_runs_that_cannot_be_compared_are_refused():
    run = make_run(0, "abcd")
    other = [*LABELS[:3], "Warm"]
    with pytest.raises(ValueError, match=exactly(module.LABELS_ERROR.format(index=3, before="'Calm'", after="'Warm'"))):
        style_change(run, run._replace(labels=other))
    fewer = run._replace(labels=LABELS[:3], descriptor_means=run.descriptor_means[:, :3])
    with pytest.raises(
        ValueError, match=exactly(module.LABELS_ERROR.format(index=3, before="'Calm'", after="missing"))
    ):
        style_change(run, fewer)
    with pytest.raises(ValueError, match=exactly(module.TOO_FEW_ERROR.format(count=0))):
        style_change(run, make_run(0, "wxyz"))
    message = module.SHAPE_ERROR.format(name="after", descriptors=4, labels=4, shape=(3, 4))
    with pytest.raises(ValueError, match=exactly(message)):
        style_change(run, run._replace(descriptor_means=run.descriptor_means[:3]))
    twice = run._replace(descriptors=[run.descriptors[0]] * 4)
    with pytest.raises(
        ValueError, match=exactly(module.DUPLICATE_ERROR.format(descriptor="a", axis="ability", name="before"))
    ):
        style_change(twice, run)
    broken = run.descriptor_means.copy()
    broken[1, 2] = np.nan
    message = module.NOT_FINITE_ERROR.format(style="Hateful", descriptor="b", name="after", value="nan")
    with pytest.raises(ValueError, match=exactly(message)):
        style_change(run, run._replace(descriptor_means=broken))
    with pytest.raises(ValueError, match=exactly(DDOF_ERROR.format(ddof=2))):
        style_change(run, run, ddof=2)
