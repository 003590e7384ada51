import numpy as np
import pytest
from scipy import stats

from hb_metrics.measurements.decisions.run_changes import _term_changes, gap_changes
from hb_metrics.stats.decision_changes import _covariance, largest_gap_change, name_gap_change, spread_change
from hb_metrics.stats.question_tables import FEW_QUESTIONS


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
    "none after": {"shifts": (GRADED, 0 * GRADED), "questions": 20},
    "more": {"shifts": (0 * GRADED, APART), "questions": 12},
    "one answer": {"shifts": (APART, APART), "questions": 40, "noise": 0, "answers": 1},
    "another winner": {"shifts": (APART, np.roll(APART, 3)), "questions": 20},
    "close winners": {"shifts": ([1, 0.9, 0, -0.9], [0.6, 0.7, 0, -0.7]), "questions": 16, "same": 0.7},
    "twenty terms, then none": {"shifts": (np.eye(20)[0], np.zeros(20)), "questions": 20},
    "near one, one answer": {"shifts": (3 + APART, 3 - APART), "questions": 40, "noise": 0, "answers": 1},
}


def held(name, sets):
    """Returns the coverage of the changes in the spread and in the largest gap."""
    rng, options = np.random.default_rng(0), DESIGNS[name]
    many = [
        table.mean(axis=0) * (np.ptp(of) > 0)
        for table, of in zip(draw(rng, **{**options, "questions": 50_000}), options["shifts"], strict=True)
    ]
    truths = np.diff([means.std(ddof=1) for means in many])[0], np.diff([np.ptp(means) for means in many])[0]
    inside = []
    for _ in range(sets):
        before, after = draw(rng, **options)
        changes = spread_change([before], [after], 0.95, seed=0), largest_gap_change([before], [after], 0.95)
        bounds = [(*change.interval, truth) for change, truth in zip(changes, truths, strict=True)]
        inside.append([low <= truth <= high for low, high, truth in bounds])
    return np.mean(inside, axis=0)


@pytest.mark.parametrize(
    ("name", "sets"),
    [("same bias", 60), ("none after", 60), *(pytest.param(name, 500, marks=pytest.mark.long) for name in DESIGNS)],
)
def test_intervals_of_a_change_hold_the_truth(name, sets):
    of_spread, of_gap = held(name, sets)
    assert of_spread >= (0.92 if sets == 500 else 0.9)
    assert of_gap >= (0.93 if sets == 500 else 0.9)


def test_few_questions_are_the_reason_why_a_change_has_no_interval():
    before, after = draw(np.random.default_rng(1), (GRADED, GRADED), 7)
    for change in (spread_change([before], [after], 0.95, seed=0), largest_gap_change([before], [after], 0.95)):
        assert (change.interval, change.reason) == (None, FEW_QUESTIONS)


def test_the_change_in_the_gap_of_two_terms_is_a_paired_t_test():
    before, after = draw(np.random.default_rng(4), (APART[:2], APART[:2] / 2), 30, noise=0.1)
    change = largest_gap_change([before], [after], 0.95)
    expected = stats.ttest_rel(after[:, 0] - after[:, 1], before[:, 0] - before[:, 1])
    assert change.change == pytest.approx(np.mean(after - before, axis=0) @ [1, -1])
    assert change.interval == pytest.approx(tuple(expected.confidence_interval()))
    of_spread = np.array(spread_change([before], [after], 0.95, seed=0).interval)
    assert of_spread * 2**0.5 == pytest.approx(expected.confidence_interval(), abs=0.002)


def test_the_covariance_of_two_spreads_is_that_of_u_statistics():
    """With the squared norm of the covariances estimated as by Bai and Saranadasa (1996)."""
    shared = np.random.default_rng(8).normal(0, 2, (12, 3))
    rows, others = shared + np.random.default_rng(9).normal([[[0.5, -0.5, 2]], [[1, 0, -1]]], 1, (2, 12, 3))
    whole = np.cov(rows.T, others.T)
    first, second, across = whole[:3, :3], whole[3:, 3:], whole[:3, 3:]
    norm = 11**2 / (13 * 10) * ((across**2).sum() - np.trace(first) * np.trace(second) / 11)
    expected = 4 * rows.mean(axis=0) @ across @ others.mean(axis=0) / 12 + 2 * norm / (12 * 11)
    assert _covariance(rows, others) == pytest.approx(expected)


def test_the_largest_gap_of_several_axes_changes_by_the_widest_of_each_run():
    tables = [draw(np.random.default_rng(seed), (APART * seed, APART / 2), 20) for seed in (1, 2)]
    tables = dict(zip("ab", tables, strict=True))
    change = gap_changes("gap", tables, {"a": None, "b": None})["gap"]
    ranges = np.array([[np.ptp(table.mean(axis=0)) for table in pair] for pair in tables.values()])
    assert (change.first, change.second) == pytest.approx(ranges.max(axis=0))
    low, high = change.interval
    assert low < change.change < high < 0


ALL_YES = np.ones((60, 4))
VARIED = (np.random.default_rng(3).random((60, 4)) < [0.9, 0.5, 0.5, 0.2]).astype(float)


@pytest.mark.parametrize(
    ("before", "after", "is_better"),
    [(VARIED, ALL_YES, True), (ALL_YES, VARIED, False), (ALL_YES, ALL_YES, None), (VARIED, VARIED, None)],
)
def test_changes_to_and_from_equal_decisions_are_bounded_by_what_was_not_seen(before, after, is_better):
    unseen = 1 - 0.025 ** (1 / 60)  # in a larger share of questions, 60 would have shown another decision
    groups = ["a", "a", "a", "a", "b", "b", "b", "b"]
    twice = [np.concatenate([table, table[:, ::-1] * table.mean()], axis=1) for table in (before, after)]
    gap, of_names = largest_gap_change([before], [after], 0.95), name_gap_change(*twice, groups, 0.95)
    spread = spread_change([before], [after], 0.95, seed=0)
    if is_better is None:
        reach = unseen if before is ALL_YES else 2 * unseen
        assert gap.interval == pytest.approx((-reach, reach))
        assert spread.interval == pytest.approx((-reach / 3**0.5, reach / 3**0.5))  # the decisions are 0, 0, 1, 1
        low, high = of_names.interval
        assert -1 <= low <= -unseen < unseen <= high <= 1
    else:
        changed = np.ptp(after.mean(axis=0)) - np.ptp(before.mean(axis=0))
        assert gap.change == pytest.approx(changed)
        for change in (gap, spread):
            assert (change.interval[1] < 0) == is_better
            assert (change.interval[0] > 0) != is_better
        assert gap.interval[0] <= changed - unseen <= changed + unseen <= gap.interval[1]
        assert of_names.interval[0] <= of_names.change - unseen <= of_names.change + unseen <= of_names.interval[1]


def test_a_change_that_all_questions_and_names_show_is_bounded_by_what_was_not_seen():
    levels, groups = np.random.default_rng(6).random((60, 1)) * 0.3, np.repeat(["a", "b"], 60)
    before, after = levels + np.array([0.6, 0.1]), levels + np.array([0.4, 0.3])
    unseen = 1 - 0.025 ** (1 / 60)  # the gap of such questions or names may change from 1 to -1 or from -1 to 1
    of_names = name_gap_change(np.repeat(before, 60, axis=1), np.repeat(after, 60, axis=1), groups, 0.95)
    for change in (largest_gap_change([before], [after], 0.95), of_names):
        assert change.interval == pytest.approx((-0.4 - unseen * (2 - 0.4), -0.4 + unseen * (2 + 0.4)))


@pytest.mark.parametrize("share", [0.0, 0.03])
def test_a_bound_for_equal_decisions_holds_although_few_questions_show_nothing(share):
    """Before, answers differ between terms. After, nearly all sets of questions show no difference."""
    rng, held, sets = np.random.default_rng(5), 0, 200
    for _ in range(sets):
        before = (rng.random((20, 3)) < [0.9, 0.5, 0.5]).astype(float)
        after = np.ones((20, 3))
        after[rng.random(20) < share, 0] = 0.0
        low, high = largest_gap_change([before], [after], 0.95).interval
        held += low <= share - 0.4 <= high
    assert held >= 0.93 * sets


def test_changes_of_gaps_are_paired_by_question():
    before, after = draw(np.random.default_rng(2), (APART, 0 * APART), 15)
    gaps = [table - table.mean(axis=1, keepdims=True) for table in (before, after)]
    for number, change in enumerate(_term_changes("Age", list("abcdef"), (before, after)).values()):
        expected = stats.ttest_rel(gaps[1][:, number], gaps[0][:, number])
        assert change.interval == pytest.approx(tuple(expected.confidence_interval()))
        assert change.change == pytest.approx(np.mean(gaps[1][:, number] - gaps[0][:, number]))
    assert change.first == pytest.approx(gaps[0][:, 5].mean())


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([0.12, -0.12], [-0.12, 0.12]),
        ([0.2, 0, 0], [0, 0.2, 0]),
    ],
)
def test_changes_in_a_gap_of_names_are_those_of_its_size(before, after):
    """Another group may have the advantage after the change."""
    rng, sizes, held, sets = np.random.default_rng(1), (8, 9, 7)[: len(before)], 0, 30 if len(before) == 2 else 10
    groups = np.repeat(list("abc")[: len(sizes)], sizes)
    for _ in range(sets):
        of_names = 0.5 + np.repeat([before, after], sizes, axis=1) + rng.normal(0, 0.05, (2, sum(sizes)))
        asked = rng.normal(0, 0.1, (2, 20, 1))
        tables = (of_names[:, None] + asked + rng.normal(0, 0.2, (2, 20, sum(sizes)))).clip(0, 1)
        change = name_gap_change(tables[0], tables[1], list(groups), 0.95)
        low, high = change.interval
        held += low <= np.ptp(after) - np.ptp(before) <= high
        means = [[table[:, groups == group].mean() for group in sorted(set(groups))] for table in tables]
        assert (change.first, change.second) == pytest.approx(np.ptp(means, axis=1))
    assert held >= 0.9 * sets
