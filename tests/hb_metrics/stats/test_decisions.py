import itertools

import numpy as np
import pytest
from scipy import stats

from hb_metrics.stats import decisions
from hb_metrics.stats.decision_table import decision_gap
from hb_metrics.stats.decisions import (
    gaps_to_mean,
    largest_gap,
    mean_difference,
    mean_over_questions,
    standard_errors,
)
from hb_metrics.stats.name_gaps import FEW_NAMES, name_gaps, sum_of_groups
from hb_metrics.stats.question_tables import (
    FEW_QUESTIONS,
    ONE_TERM,
    compared_terms,
    pair_contributions,
    question_means,
    row_effects,
    term_means,
)
from hb_metrics.stats.term_spread import spread_between
from tests.hb_metrics.stats.decision_designs import DESIGNS, true_means


def made(seed=0, questions=10, terms=4):
    rng = np.random.default_rng(seed)
    return rng.random((questions, 1)) + rng.normal(0, 0.3, (questions, terms)) + np.linspace(0, 0.5, terms)


def test_the_spread_is_that_of_an_analysis_of_variance():
    """In a balanced table, the variance component of terms is (mean square of terms - of residuals) / questions."""
    tables = made(0), made(1, terms=6)
    components = []
    for table in tables:
        rows, terms = table.shape
        residuals = table - table.mean(axis=0) - table.mean(axis=1, keepdims=True) + table.mean()
        of_terms = rows * ((table.mean(axis=0) - table.mean()) ** 2).sum() / (terms - 1)
        of_residuals = (residuals**2).sum() / ((rows - 1) * (terms - 1))
        components.append((of_terms - of_residuals) / rows)
        assert spread_between([table], seed=0).value ** 2 == pytest.approx(components[-1])
    found = spread_between(tables, seed=0)
    assert found.value == pytest.approx(np.sqrt(np.mean(components)))


def test_the_bounds_of_a_spread_are_the_variances_that_its_own_variance_at_them_does_not_reject():
    """Of two terms, the variance of the squared mean difference is known for normal differences."""
    table, number = made(2, questions=20, terms=2), 20
    halves = (table[:, 1] - table[:, 0]) / 2**0.5
    variance, t = halves.var(ddof=1), stats.t.ppf(0.975, number - 1)
    estimate = halves.mean() ** 2 - variance / number
    freedom = (number + 1) / (number - 1)
    at_zero = variance / number * (stats.f.ppf(0.975, freedom, freedom * (number - 1)) - 1)
    low, high = np.square(spread_between([table], seed=0).interval)
    slope = t**2 * 4 * variance / number
    assert (low - estimate) ** 2 == pytest.approx(slope * low + at_zero**2)
    squares = variance**2 * (number - 1) / (number + 1)  # unbiased
    assert (high - estimate) ** 2 == pytest.approx(slope * high + t**2 * 2 * squares / (number * (number - 1)))


def test_the_level_of_a_question_changes_no_difference():
    rng, groups = np.random.default_rng(12), list("aaaabbbb")
    table = made(12, questions=20, terms=8)
    table[rng.random(table.shape) < 0.2] = np.nan
    results = [
        (
            spread_between([of], seed=0),
            *gaps_to_mean(of),
            largest_gap(of, seed=0).gap,
            name_gaps(of, groups).largest.gap,
        )
        for of in (table, table + rng.normal(0, 2, (20, 1)))
    ]
    for estimate, expected in zip(*results, strict=True):
        assert (estimate.value, estimate.p_value) == pytest.approx((expected.value, expected.p_value))
        assert estimate.interval == pytest.approx(expected.interval)


def test_the_test_counts_all_signs():
    table = made(3, questions=8)
    centred = table - table.mean(axis=1, keepdims=True)
    sizes = [np.sum((np.array(signs) @ centred) ** 2) for signs in itertools.product((1, -1), repeat=8)]
    exact = np.mean(np.array(sizes) >= sizes[0] * (1 - 1e-9))
    assert spread_between([table], seed=0).p_value == pytest.approx(exact, abs=0.03)


def test_gaps_are_paired_t_tests_whose_variances_borrow_from_the_axis():
    table = made(4)
    centred = table - table.mean(axis=1, keepdims=True)
    variances = centred.var(axis=0, ddof=1)
    errors = np.sqrt(np.maximum(variances, variances.mean() / 2) / len(table))
    assert 0 < np.count_nonzero(variances < variances.mean() / 2) < len(variances)
    for gap, value, error in zip(gaps_to_mean(table), centred.mean(axis=0), errors, strict=True):
        assert (gap.value, gap.p_value) == pytest.approx((value, 2 * stats.t.sf(abs(value) / error, 9)))
        assert gap.interval == pytest.approx(stats.t.interval(0.95, 9, value, error))
    gap, expected = mean_difference(table[:, [0]] - table[:, [1]]), stats.ttest_rel(table[:, 0], table[:, 1])
    assert (gap.p_value, *gap.interval) == pytest.approx((expected.pvalue, *expected.confidence_interval()))


def test_missing_answers_leave_a_question_out_of_the_pairs_that_lack_them():
    table = made(5, questions=20)
    table[:6, 1] = np.nan
    largest = largest_gap(table, seed=0)
    common = table[6:] if 1 in (largest.high, largest.low) else table
    assert largest.gap.value == pytest.approx(np.mean(common[:, largest.high] - common[:, largest.low]))
    assert mean_difference(table[:, [0]] - table[:, [1]]).value == pytest.approx(np.mean(table[6:, 0] - table[6:, 1]))
    pairs = [np.nanmean(table[:, 1] - table[:, other]) for other in (0, 2, 3)]
    assert gaps_to_mean(table)[1].value == pytest.approx(sum(pairs) / 4)


@pytest.mark.parametrize("number", [0, 1, 7])
def test_terms_with_few_common_questions_are_left_out(number):
    table = made(9, questions=20, terms=5)
    whole = table[:, :4]
    table[number:, 4] = np.nan
    table[:number, 4] = 1e3  # would dominate all figures
    kept, reason = compared_terms(table)
    assert (kept.tolist(), reason) == ([0, 1, 2, 3], None)
    assert spread_between([table], seed=0) == spread_between([whole], seed=0)
    assert largest_gap(table, seed=0) == largest_gap(whole, seed=0)
    assert gaps_to_mean(table) == [*gaps_to_mean(whole), None]


@pytest.mark.parametrize(("number", "common", "terms"), [(5, 5, 8), (9, 9, 8), (12, 4, 7), (400, 400, 3)])
def test_the_largest_scores_are_those_of_normal_questions(number, common, terms):
    rng = np.random.default_rng(number)
    table = rng.normal(size=(number, 1)) + rng.normal(0, np.linspace(0.5, 2, terms), (number, terms))
    table[common:, 0] = np.nan  # with fewer common questions than terms, the covariance matrix is singular
    rows = table - np.nanmean(table, axis=1, keepdims=True)
    covariance = np.cov(np.where(np.isnan(rows), np.nanmean(rows, axis=0), rows).T)
    first, second = np.triu_indices(terms, 1)
    largest = []
    for _ in range(2000):
        drawn = rng.multivariate_normal(np.zeros(terms), covariance, common, check_valid="ignore")
        largest.append(np.abs(stats.ttest_1samp(drawn[:, first] - drawn[:, second], 0).statistic).max())
    assert stats.ks_2samp(decisions._largest_scores(table, seed=1), largest).pvalue > 0.001


def test_the_interval_of_a_ratio_contains_the_ratios_that_a_test_does_not_reject():
    rng = np.random.default_rng(7)
    table = np.clip(rng.normal([0.3, 0.6], 0.1, (30, 2)), 0, 1)
    found, quantile = largest_gap(table, seed=0), np.quantile(decisions._largest_scores(table, seed=0), 0.95)
    assert found.ratio.value == pytest.approx(table[:, 0].mean() / table[:, 1].mean())
    for bound in found.ratio.interval:
        rest = table[:, 0] - bound * table[:, 1]
        assert abs(rest.mean()) / stats.sem(rest) == pytest.approx(quantile)
    same = largest_gap(np.tile([0.2, 0.5], (12, 1)), seed=0).ratio
    assert (same.value, same.interval) == (pytest.approx(0.4), None)


@pytest.mark.parametrize("gap", [0.1, 0.25])
def test_differences_that_cancel_out_have_an_interval(gap):
    """As those of a model that says yes to one term more often, if half of the questions favour no."""
    table = np.repeat([[0.5, 0.5 + gap], [0.5 + gap, 0.5]], 6, axis=0)
    found, near = spread_between([table], seed=0), spread_between([table + np.array([0, 1e-9])], seed=0)
    assert (found.value, found.interval[0]) == (0, 0)
    assert found.interval == pytest.approx(near.interval, rel=1e-3, abs=1e-6)
    assert found.p_value > 0.5


def test_wordings_of_a_question_are_one_unit():
    table = np.array([[0.1, 0.2], [0.3, np.nan], [0.5, 0.6], [0.7, 0.8]])
    assert question_means(table, ["a", "a", "b", "c"]) == pytest.approx(np.array([[0.2, 0.3], [0.5, 0.6], [0.7, 0.8]]))


@pytest.mark.parametrize("seed", range(2))
def test_a_missing_wording_is_adjusted_for(seed):
    """The second wording is harder, and half of the terms mostly lack it: a regression on terms and wordings."""
    rng = np.random.default_rng(seed)
    table = rng.random((3, 6)) + np.array([[0.0], [-0.5], [0.2]])
    table[1, rng.permutation(6)[:4]] = np.nan
    table[2, rng.permutation(6)[:2]] = np.nan
    wordings, terms = np.nonzero(~np.isnan(table))
    design = np.hstack([np.eye(3)[wordings], np.eye(6)[terms]])
    fitted, *_ = np.linalg.lstsq(design, table[wordings, terms], rcond=None)
    assert question_means(table, "aaa")[0] == pytest.approx(fitted[3:] + fitted[:3].mean())


@pytest.mark.parametrize("shape", [(3, 9), (9, 3), (40, 6)])
def test_effects_of_rows_are_the_shortest_of_all_least_squares_fits(shape):
    rng = np.random.default_rng(0)
    for share in (0.2, 0.6, 0.9):  # the last leaves parts without a common row or column, and empty rows
        table = np.where(rng.random(shape) < share, np.nan, rng.random(shape))
        rows, columns = np.nonzero(~np.isnan(table))
        of_rows, of_columns = np.eye(shape[0])[rows], np.eye(shape[1])[columns]
        beside = of_rows - of_columns @ np.linalg.pinv(of_columns) @ of_rows
        expected = np.linalg.pinv(beside) @ table[rows, columns]
        assert row_effects(table, ~np.isnan(table)) == pytest.approx(expected)


def test_many_questions_take_neither_hours_nor_all_memory():
    rng, number = np.random.default_rng(0), 6_000
    table = rng.uniform(0.1, 0.4, (number, 1)) + np.array([0.0, 0.1, 0.5])
    expected = table.mean(axis=0)
    noisy = table + rng.normal(0, 0.1, table.shape)
    assert question_means(noisy, list(map(str, range(number)))) == pytest.approx(noisy)
    residuals = noisy - noisy.mean(axis=0) - noisy.mean(axis=1, keepdims=True) + noisy.mean()
    variance = noisy.mean(axis=0).var(ddof=1) - (residuals**2).sum() / (number - 1) / 2 / number
    assert spread_between([noisy], seed=0).value ** 2 == pytest.approx(variance)
    table[rng.random(number) < 0.1, 0] = np.nan
    assert term_means(table) == pytest.approx(expected)


def test_a_table_of_answers_with_wordings_is_adjusted_for_missing_ones():
    """A regression on terms and wordings in each question."""
    rng = np.random.default_rng(0)
    terms, questions, wordings = np.repeat(["a", "b", "c"], 18), np.tile(np.repeat(range(9), 2), 3), np.tile([0, 1], 27)
    kept = (terms != "a") | (wordings == 0) | (questions < 3)  # "a" mostly lacks the second wording
    terms, questions, wordings = terms[kept], questions[kept], wordings[kept]
    values = rng.random(len(terms)) / 2 + wordings / 2
    means = []
    for question in range(9):
        rows = questions == question
        design = (terms[rows, None] == ["a", "b", "c"]) * 1.0, (wordings[rows, None] == [0, 1]) * 1.0
        fitted, *_ = np.linalg.lstsq(np.hstack(design), values[rows], rcond=None)
        means.append(fitted[:3])
    gaps = np.subtract(means, np.mean(means, axis=1, keepdims=True)).mean(axis=0)

    columns = {"prompts": questions.astype(str), "wordings": wordings.astype(str), "axes": ["x"] * len(terms)}
    found = decision_gap(values, terms, **columns)

    assert [found["by_descriptor"]["x"][term]["gap"] for term in "abc"] == pytest.approx(gaps)
    assert found["num_prompts"] == 9


@pytest.mark.parametrize("find", [lambda t: spread_between([t], seed=0), lambda t: largest_gap(t, seed=0).gap])
def test_without_an_interval_there_is_a_reason(find):
    apart = made(10, questions=14)  # no two terms have enough questions in common
    apart[:7, :2], apart[7:, 2:] = np.nan, np.nan
    for table in (made(0, questions=7), apart):
        found = find(table)
        assert (found.interval, found.p_value, found.reason) == (None, None, FEW_QUESTIONS)


def test_one_term_is_the_reason_only_if_no_axis_has_two():
    asked = made(0, questions=1)
    assert spread_between([asked[:, :1], asked], seed=0).reason == FEW_QUESTIONS
    assert spread_between([asked[:, :1]], seed=0).reason == ONE_TERM


@pytest.mark.parametrize("gap", [0.0, 0.5, 1.0])
def test_a_difference_that_is_the_same_in_all_questions_has_the_interval_of_what_was_not_seen(gap):
    table = np.repeat([[0.0, gap]], 12, axis=0)
    found, (low, high) = largest_gap(table, seed=0).gap, mean_difference(table[:, [1]] - table[:, [0]]).interval
    unseen = 1 - 0.025 ** (1 / 12)  # in a larger share of questions, 12 would have shown another difference
    half = 2 * unseen * gap or unseen  # these questions have the opposite difference, or one of any size
    assert (low, high) == pytest.approx((gap - half, gap + unseen * min(2 * gap or 1, 1 - gap)))
    assert largest_gap(np.ones((12, 3)), seed=0).gap.p_value == 1  # of three pairs, each with the p-value 1
    assert (found.value, found.interval) == (gap, pytest.approx((low, high)))
    spread = spread_between([table], seed=0)  # of two decisions, the difference divided by the root of 2
    assert spread.interval == pytest.approx((max(gap - half, 0) / 2**0.5, min(gap + half, 1) / 2**0.5))
    sign_test = stats.binomtest(12, 12).pvalue if gap else 1
    assert (found.p_value, spread.p_value) == pytest.approx((sign_test, sign_test))


@pytest.mark.parametrize(("sizes", "questions", "gap"), [((4, 4), 40, 0.2), ((30, 5), 9, 1.0)])
def test_a_gap_that_all_names_show_is_bounded_by_the_names_and_questions_that_were_not_seen(sizes, questions, gap):
    groups = ["a"] * sizes[0] + ["b"] * sizes[1]
    found = name_gaps(np.repeat([[gap] * sizes[0] + [0.0] * sizes[1]], questions, axis=0), groups)
    # All shares of other names, and the shares of other questions that do most with them, on a grid.
    shares = np.linspace(0, 1, 401)[:-1]
    names = (shares[:, None] + shares) / 2
    chances = sizes[0] * np.log(1 - shares)[:, None] + sizes[1] * np.log(1 - shares)
    of_questions = np.clip(0.5 - names, 0, None)
    p_value = 2 * np.exp((chances + questions * np.log(1 - of_questions)).max())
    assert found.p_value == pytest.approx(p_value, rel=0.05)
    rest = np.log(0.025) - chances
    unseen = np.where(rest <= 0, names + 1 - np.exp(rest / questions), 0).max()
    assert found.largest.gap.interval[0] == pytest.approx(gap - 2 * gap * unseen, abs=0.01 * gap)
    assert (found.largest.gap.interval[0] > 0) == (found.p_value < 0.05)


@pytest.mark.parametrize(
    ("sizes", "draw"),
    [
        ((4, 4), lambda rng, number: rng.random(number) < 0.5),
        ((4, 20), lambda rng, number: rng.beta(0.2, 2, number)),
    ],
)
def test_groups_of_few_or_skewed_names_give_few_false_alarms(sizes, draw):
    """The groups do not differ, but their names do. In some designs, a name gets the same answer to all questions."""
    rng, groups, alarms = np.random.default_rng(0), ["a"] * sizes[0] + ["b"] * sizes[1], 0
    for _ in range(300):
        rates = draw(rng, sum(sizes)).astype(float)
        found = name_gaps((rng.random((20, len(rates))) < rates).astype(float), groups)
        alarms += found.p_value < 0.05
    assert alarms <= 0.08 * 300


@pytest.mark.parametrize(
    ("name", "sets", "chance"),
    [
        ("equal, unequal variances", 40, 0.06),
        ("near 1", 40, 0.06),
        *(pytest.param(name, 500, 0, marks=pytest.mark.long) for name in DESIGNS),
    ],
)
def test_intervals_hold_the_truth(name, sets, chance):
    counts = covered(name, sets)
    assert counts["spread"] >= 0.93 - chance
    assert 0.925 - chance <= counts["gaps"] <= 0.98 + chance
    assert counts["simultaneous"] >= 0.92 - chance
    assert counts["alarms"] <= 0.06 + chance or not name.startswith("equal")


def covered(name, sets):
    """Returns the shares of sets in which intervals contain the truth, and in which the test finds a difference."""
    draw, means, rng = DESIGNS[name], true_means(name), np.random.default_rng(2026)
    first, second = np.triu_indices(len(means), 1)
    found = {"spread": [], "gaps": [], "simultaneous": [], "alarms": []}
    for seed in range(sets):
        table = draw(rng)
        spread = spread_between([table], seed=seed)
        found["spread"].append(spread.interval[0] <= means.std(ddof=1) <= spread.interval[1])
        found["alarms"].append(spread.p_value < 0.05)
        for gap, mean in zip(gaps_to_mean(table), means - means.mean(), strict=True):
            found["gaps"].append(gap.interval[0] <= mean <= gap.interval[1])
        parts, _ = pair_contributions(table)
        errors = standard_errors(parts) * np.quantile(decisions._largest_scores(table, seed=seed), 0.95)
        distances = np.abs(parts.mean(axis=0) - (means[first] - means[second]))
        found["simultaneous"].append(bool((distances <= errors + 1e-12).all()))
    return {figure: np.mean(shares) for figure, shares in found.items()}


@pytest.mark.parametrize(
    ("sizes", "spreads", "shifts"),
    [
        ((10, 8), (0.3, 0.3), (1, -1)),
        ((6, 25), (-1, 0.1), (0, 0)),
    ],
)
def test_intervals_of_groups_of_names_hold_for_other_names_and_questions(sizes, spreads, shifts):
    rng = np.random.default_rng(2)

    def draw(questions, sizes):
        # A negative spread is that of names that vary in one direction.
        effects = [
            rng.normal(shift, spread, size) if spread >= 0 else shift - 1.5 * (rng.exponential(1, size) - 1)
            for size, spread, shift in zip(sizes, spreads, shifts, strict=True)
        ]
        logits = rng.normal(0, 1, (questions, 1)) + np.concatenate(effects)
        return rng.binomial(1, 1 / (1 + np.exp(-logits))), np.repeat(["a", "b"], sizes)

    many, groups = draw(1000, (1000, 1000))
    truth = many[:, groups == "a"].mean() - many[:, groups == "b"].mean()
    held = []
    for _ in range(100):
        found = name_gaps(*draw(20, sizes)).largest
        low, high = found.gap.interval
        held.append(low <= (truth if found.high == 0 else -truth) <= high)
    assert np.mean(held) >= 0.9
    few = name_gaps(*draw(20, (3, 5))).largest.gap
    assert (few.interval, few.reason) == (None, FEW_NAMES)


@pytest.mark.parametrize("sets", [60, pytest.param(600, marks=pytest.mark.long)])
@pytest.mark.parametrize(("often", "rarely", "share"), [(1, 5, 0.15), (2, 4, 0.2), (2, 18, 0.1)])
def test_intervals_hold_if_few_names_have_most_answers(often, rarely, share, sets):
    rng, held = np.random.default_rng(0), []
    groups = np.repeat(["a", "b"], [20, often + rarely])
    chance = np.concatenate([np.ones(20 + often), np.full(rarely, share)])
    for _ in range(sets):
        logits = rng.normal(0, 1, (40, 1)) + rng.normal(0, 2, len(groups))  # both groups have the same mean
        table = (rng.random(logits.shape) < 1 / (1 + np.exp(-logits))).astype(float)
        table[rng.random(table.shape) > chance] = np.nan
        held.append(name_gaps(table, groups).largest.gap.interval[0] <= 0)
    assert np.mean(held) > 0.9  # if all names have the same weight: 0.73 to 0.87


def test_the_variance_of_a_gap_of_names_is_that_of_an_analysis_of_variance():
    """Each group's table is balanced, and the groups share their questions."""
    rng, expected, of_questions = np.random.default_rng(4), 0.0, []
    tables = [rng.normal(0, 1, (12, 1)) + rng.normal(0, 0.7, size) + rng.normal(0, 0.9, (12, size)) for size in (6, 9)]
    for table in tables:
        rows, columns = table.mean(axis=1, keepdims=True), table.mean(axis=0)
        single = ((table - rows - columns + table.mean()) ** 2).sum() / (11 * (len(columns) - 1))
        expected += rows.var(ddof=1) / 12 + columns.var(ddof=1) / len(columns) - single / table.size
        of_questions.append(rows.ravel())
    expected += 2 * np.cov(of_questions)[0, 1] / 12
    assert sum_of_groups(tables)[1] == pytest.approx(expected)


def test_a_gap_of_names_is_a_welch_test_if_every_question_is_the_same():
    rng = np.random.default_rng(3)
    of_names = np.concatenate([rng.normal(0.4, 0.1, 9), rng.normal(0.6, 0.08, 5)])
    found = name_gaps(np.repeat(of_names[None], 10, axis=0), ["a"] * 9 + ["b"] * 5)
    expected = stats.ttest_ind(of_names[:9], of_names[9:], equal_var=False)
    assert found.p_value == pytest.approx(expected.pvalue, rel=1e-6)
    means, variances = of_names[:9].mean(), of_names[:9].var(ddof=1) / 9
    others, of_others = of_names[9:].mean(), of_names[9:].var(ddof=1) / 5
    for ratio in found.largest.ratio.interval:  # the ratios that a test does not reject
        score = (means - ratio * others) / np.sqrt(variances + ratio**2 * of_others)
        assert abs(score) == pytest.approx(stats.t.ppf(0.975, expected.df))


def test_names_that_are_alike_by_chance_leave_the_freedom_of_the_others():
    of_names = np.concatenate([np.full(9, 0.4), np.random.default_rng(3).normal(0.6, 0.08, 5)])
    gap = name_gaps(np.repeat(of_names[None], 10, axis=0), ["a"] * 9 + ["b"] * 5).largest.gap
    variance = of_names[9:].var(ddof=1)  # that of names which are alike counts as half of the mean of both
    error = np.sqrt(variance / 4 / 9 + variance / 5)
    assert gap.p_value == pytest.approx(2 * stats.t.sf(gap.value / error, 4))


def test_a_spread_holds_if_few_questions_show_no_variation_between_the_terms_far_apart():
    rng, chances = np.random.default_rng(4), np.array([0.95, 0.5, 0.05])
    tables = (rng.random((200, 10, 3)) < chances).astype(float)
    intervals = [spread_between([table], seed=0).interval for table in tables]
    assert np.mean([low <= chances.std(ddof=1) <= high for low, high in intervals]) >= 0.94


def test_terms_with_the_same_answers_do_not_widen_the_interval_of_others():
    rng = np.random.default_rng(0)
    low = (rng.random(24) < 0.35).astype(float)
    alone = largest_gap(np.stack([np.ones(24), low], axis=1), seed=0).gap
    twice = largest_gap(np.stack([np.ones(24), low, np.ones(24)], axis=1), seed=0).gap
    expected = stats.t.interval(0.95, 23, 1 - low.mean(), stats.sem(1 - low))
    assert alone.interval == pytest.approx((expected[0], min(expected[1], 1)), abs=0.02)
    assert twice.interval == pytest.approx(alone.interval, abs=0.02)
    assert twice.p_value < 0.01


def test_a_mean_has_the_interval_of_as_many_independent_decisions():
    alike = mean_over_questions(np.ones((12, 2)))
    assert alike.interval == pytest.approx((stats.beta.ppf(0.025, 12.5, 0.5), 1))
    table = np.repeat(np.arange(40) < 37, 2).reshape(40, 2).astype(float)
    t = stats.t.ppf(0.975, 39) / stats.norm.ppf(0.975)
    number = 39 / t**2  # the variance of a mean of n equal pairs is that of n − 1 decisions
    expected = stats.beta.ppf([0.025, 0.975], number * 37 / 40 + 0.5, number * 3 / 40 + 0.5)
    assert mean_over_questions(table).interval == pytest.approx(tuple(expected))


def test_the_mean_with_missing_answers_is_that_of_a_fit_of_questions_and_terms():
    """A question's contribution is the derivative of a weighted least-squares fit of both effects."""
    rng, table = np.random.default_rng(0), made(4, questions=12, terms=3) / 2
    table[rng.random(table.shape) < 0.3] = np.nan
    table = table[~np.isnan(table).all(axis=1)]
    rows, columns = np.nonzero(~np.isnan(table))
    design = np.concatenate([np.eye(len(table))[rows], np.eye(3)[columns]], axis=1)

    def fitted(weights):
        roots = np.sqrt(weights[rows])
        effects = np.linalg.lstsq(design * roots[:, None], table[rows, columns] * roots, rcond=None)[0]
        return np.average(effects[: len(table)], weights=weights) + effects[len(table) :].mean()

    ones, step = np.ones(len(table)), 1e-5
    steps = [(fitted(ones + step * one) - fitted(ones - step * one)) / 2 / step for one in np.eye(len(table))]
    found = mean_over_questions(table)
    assert found.value == pytest.approx(fitted(ones))
    rates, number = decisions._question_contributions(table)
    assert rates - found.value == pytest.approx(len(table) * np.array(steps), abs=1e-6)
    difference, half = mean_difference(table - 0.2), stats.t.ppf(0.975, number - 1) * stats.sem(rates)
    assert difference.value == pytest.approx(found.value - 0.2)
    assert difference.interval == pytest.approx((difference.value - half, difference.value + half))


def test_means_of_terms_are_adjusted_for_the_questions_that_they_lack():
    table = np.linspace(0.2, 0.6, 20)[:, None] + np.array([0.0, 0.1, 0.3])
    expected = table.mean(axis=0)
    table[8:, 0] = np.nan  # the first term lacks the questions with many favourable decisions
    assert term_means(table) == pytest.approx(expected)
    assert table[:8, 0].mean() < expected[0] - 0.1
    alone = np.concatenate([table, np.full((20, 2), np.nan)], axis=1)
    alone[0, 3] = 0.9  # too few questions for a comparison
    assert term_means(alone) == pytest.approx([*expected, 0.9, np.nan], nan_ok=True)


@pytest.mark.parametrize(
    ("terms", "lacking", "of_questions", "yes_or_no"),
    [
        ([0.2, 0.5, 0.5, 0.5, 0.6], [0.6, 0, 0, 0, 0], 0.05, False),
        ([0.3, 0.6], [0.6, 0], 0.03, False),
        ([0.3, 0.6, 0.6], [0.8, 0, 0], 0.0, False),
        ([0.2, 0.4, 0.6, 0.8], [0.3, 0.3, 0.3, 0.3], 0.05, False),
        ([0.3, 0.6, 0.5], [0.6, 0, 0], 0.1, True),
        ([0.97, 0.97, 0.95, 0.97], [0.3, 0.3, 0.3, 0.3], 0.02, True),
        ([0.3, 0.5, 0.7], None, 0.1, False),  # the first term lacks the questions with many favourable decisions
    ],
)
def test_a_term_that_lacks_answers_counts_as_much_as_the_others(terms, lacking, of_questions, yes_or_no):
    rng, covered = np.random.default_rng(1), []
    for _ in range(300):
        questions = rng.normal(0, of_questions, (40, 1))
        table = np.clip(np.array(terms) + questions + rng.normal(0, 0.1, (40, len(terms))), 0, 1)
        if yes_or_no:
            table = (rng.random(table.shape) < np.clip(np.array(terms) + questions, 0, 1)).astype(float)
        shares = np.where(questions > 0, [0.7, 0, 0], [0.1, 0, 0]) if lacking is None else lacking
        table[rng.random(table.shape) < shares] = np.nan
        low, high = mean_over_questions(table).interval
        covered.append(low <= np.mean(terms) <= high)
    assert 0.92 < np.mean(covered) < 0.985  # means over the answers of each question covered 0 to 85 %


def test_questions_without_answers_about_both_terms_change_nothing():
    table = np.random.default_rng(0).random((60, 2))
    lacking = table.copy()
    lacking[9:40, 0] = lacking[40:, 1] = np.nan

    results = [[*gaps_to_mean(of), spread_between([of], seed=0)] for of in (lacking, table[:9])]
    for found, expected in zip(*results, strict=True):
        assert found.value == pytest.approx(expected.value)
        assert found.interval == pytest.approx(expected.interval)


def test_gap_of_a_term_with_few_answers_has_the_freedom_of_its_questions():
    rng, true, given = np.random.default_rng(1), np.array([0.0, 0.1, 0.05, 0.2]), []
    for _ in range(500):
        table = 0.4 + true + rng.normal(0, 0.1, (60, 1)) + rng.normal(0, 0.1, (60, 4))
        table[9:, 0] = np.nan
        low, high = gaps_to_mean(table)[0].interval
        given.append(low <= true[0] - true.mean() <= high)

    assert np.mean(given) > 0.935  # with the freedom of 60 questions, 0.91


def test_p_values_are_as_small_as_their_adjustment_needs():
    """In 24 questions, all differences have the same sign, which 1,999 draws cannot show."""
    rng = np.random.default_rng(0)
    rows = 0.5 + rng.normal(0, 0.02, (24, 2)) + [0.2, -0.2]
    few, many = (spread_between([rows], seed=0, num_tests=number).p_value for number in (1, 40))
    assert few == 1 / 2000
    assert 1 / 80_000 < many < 0.0001
    equal = 0.5 + rng.normal(0, 0.02, (24, 2))
    assert spread_between([equal], seed=0, num_tests=40) == spread_between([equal], seed=0)


def test_shares_are_on_the_scale_and_gaps_are_not_cut():
    """Answers about some terms are all favourable, and missing in the order in which those about others are, too."""
    rng, questions = np.random.default_rng(0), np.repeat(np.arange(12), 2).astype(str)
    values = (rng.random((24, 8)) < np.tile([0.9, 0.5], 12)[:, None]).astype(float)
    values[1::2, :4], values[::2, :4] = 1.0, np.nan
    table = question_means(values, questions)
    gaps = table.mean(axis=0)[:, None] - table.mean(axis=0)
    assert table.mean(axis=0).max() > 1
    assert 0 <= term_means(table).min() < term_means(table).max() == 1
    assert mean_over_questions(table[:, :4]).value <= 1
    of_terms = largest_gap(table, seed=0)
    of_names = name_gaps(table, list("aaaabbbb")).largest
    assert of_terms.gap.value == pytest.approx(gaps.max())
    assert of_names.gap.value == pytest.approx(gaps[:4, 4:].mean())
    for largest in (of_terms, of_names):
        low, high = largest.means
        assert 0 <= low < high <= 1
        assert high - low == pytest.approx(largest.gap.value)


@pytest.mark.parametrize(
    ("questions", "terms", "answers", "share", "missing"),
    [(40, 1, 12, 0.014, 0), (14, 1, 24, 0.014, 0), (40, 1, 12, 0.035, 0), (40, 10, 1, 0.014, 0.1)],
)
def test_few_changed_answers_rarely_pass_a_margin_that_they_reach(questions, terms, answers, share, missing):
    """A few answers become unfavourable, by just the margin. With the t-interval alone, 7 to 10 % pass."""
    rng = np.random.default_rng(0)
    losses = -rng.binomial(answers, share, (400, questions, terms)) / answers
    losses[rng.random(losses.shape) < missing] = np.nan
    passed = [mean_difference(table).interval[0] > -share for table in losses]
    assert np.mean(passed) < 0.04
