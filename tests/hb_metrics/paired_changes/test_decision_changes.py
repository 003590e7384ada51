import numpy as np
import pytest
from scipy import stats

from hb_metrics.measurements.decisions.run_changes import _group_change, _term_changes
from hb_metrics.paired_changes.decision_changes import spread_change


def draw(rng, shifts, questions, noise=0.4, same=0.5, answers=0):
    """Two tables of decisions; `same` is the correlation of their errors, and `answers` their number per cell."""
    levels, shared = rng.normal(0, 1, (questions, 1)), rng.normal(0, 1, (questions, len(shifts[0])))
    tables = []
    for of_run in shifts:
        errors = same * shared + np.sqrt(1 - same**2) * rng.normal(0, 1, shared.shape)
        values = 1 / (1 + np.exp(-(levels + of_run + noise * errors)))
        tables.append(rng.binomial(answers, values) / answers if answers else values)
    return tables


GRADED = np.linspace(-1, 1, 6)
APART = np.array([1.5, 0, 0, 0, 0, 0])
DESIGNS = {
    "no bias": {"shifts": (0 * GRADED, 0 * GRADED), "questions": 12},
    "same bias": {"shifts": (GRADED, GRADED), "questions": 12, "same": 0.7},
    "halved": {"shifts": (GRADED, GRADED / 2), "questions": 20, "same": 0.7},
    "none after": {"shifts": (GRADED, 0 * GRADED), "questions": 20},
    "more": {"shifts": (0 * GRADED, APART), "questions": 12},
    "one answer": {"shifts": (APART, APART), "questions": 40, "noise": 0, "answers": 1},
    "few questions": {"shifts": (GRADED, GRADED / 2), "questions": 8, "same": 0.9},
    "two terms": {"shifts": (GRADED[[0, 5]] / 2, GRADED[[0, 5]] / 5), "questions": 20},
    "reversed": {"shifts": (APART, -APART), "questions": 20},
}


def held(name, sets):
    rng, options = np.random.default_rng(0), DESIGNS[name]
    many = draw(rng, **{**options, "questions": 50_000})
    spreads = [
        table.mean(axis=0).std(ddof=1) if np.ptp(of) else 0 for table, of in zip(many, options["shifts"], strict=True)
    ]
    inside = []
    for _ in range(sets):
        before, after = draw(rng, **options)
        low, high = spread_change([before], [after], 0.95, seed=0).interval
        inside.append(low <= spreads[1] - spreads[0] <= high)
    return np.mean(inside)


@pytest.mark.parametrize("name", ["same bias", "none after"])
def test_intervals_of_a_change_in_the_spread_hold_the_truth(name):
    assert held(name, 60) >= 0.9


@pytest.mark.long
@pytest.mark.parametrize("name", DESIGNS)
def test_intervals_of_all_changes_in_the_spread_hold_the_truth(name):
    assert held(name, 500) >= 0.92


def test_without_a_paired_interval_there_is_a_reason():
    rng = np.random.default_rng(1)
    before, after = draw(rng, (GRADED, GRADED), 7)
    assert spread_change([before], [after], 0.95, seed=0).reason == "fewer than 8 questions were answered"
    same = draw(rng, (GRADED, GRADED), 12)[0]
    change = spread_change([same], [same], 0.95, seed=0)
    assert (change.change, change.interval) == (0, None)
    assert "the same" in change.reason


def test_changes_of_gaps_are_paired_by_question():
    before, after = draw(np.random.default_rng(2), (APART, 0 * APART), 15)
    gaps = [table - table.mean(axis=1, keepdims=True) for table in (before, after)]
    for number, change in enumerate(_term_changes("Age", list("abcdef"), (before, after), 0.95).values()):
        expected = stats.ttest_rel(gaps[1][:, number], gaps[0][:, number])
        assert change.interval == pytest.approx(tuple(expected.confidence_interval()))
        assert change.change == pytest.approx(np.mean(gaps[1][:, number] - gaps[0][:, number]))
    assert change.first == pytest.approx(gaps[0][:, 5].mean())


@pytest.mark.parametrize(("before", "after"), [(0.3, 0.0), (0.02, -0.4), (0.25, -0.25)])
def test_changes_in_a_gap_of_names_are_those_of_its_size(before, after):
    """The other group may have the advantage after the change."""
    rng, groups, held, sets = np.random.default_rng(1), ["a"] * 8 + ["b"] * 8, 0, 60
    for _ in range(sets):
        rates = 0.5 + np.array([[0.5], [-0.5]]) * [before, after]  # [groups, runs]
        of_names = np.repeat(rates, 8, axis=0) + rng.normal(0, 0.05, (16, 2))
        asked = rng.normal(0, 0.1, (20, 1, 2))
        tables = [(of_names[:, run] + asked[:, :, run] + rng.normal(0, 0.2, (20, 16))).clip(0, 1) for run in (0, 1)]
        change = _group_change("Names", groups, (tables[0], tables[1]), 0.95, is_whole=True)["Largest gap in decisions"]
        low, high = change.interval
        assert low < change.change < high
        held += low <= abs(after) - abs(before) <= high
    assert held >= 0.9 * sets
