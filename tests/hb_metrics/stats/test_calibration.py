"""Corrected rates against formulas, closed forms and simulations with known truth; agreement against references."""

import numpy as np
import pytest
from nltk.metrics.agreement import AnnotationTask
from scipy import stats

from hb_metrics.stats.calibration import (
    ENOUGH_TERMS,
    _rate,
    alternative_annotator,
    corrected_gap,
    corrected_rate,
    judge_agreement,
    krippendorff_alpha,
)
from tests.hb_metrics.stats.calibration_designs import DESIGNS, Design, draw_set, try_design

BY_NAME = {design.name: design for design in DESIGNS}


def part(drawn, rows):
    return [column[rows] for column in drawn[:5]]


@pytest.mark.parametrize("name", ["no gap, both by axis", "rare for people, not for the judge"])
def test_intervals_cover_the_truth(name):
    tried = try_design(BY_NAME[name], 60)
    for estimand, covered in tried.covered.items():
        assert len(covered) > 20
        assert 0.85 <= np.mean(covered) <= 1, estimand
    if name.startswith("no gap"):
        assert np.mean(tried.uncorrected) < 0.1
        assert np.mean(tried.declared) < 0.15


def test_the_rate_is_that_of_the_formula():
    """The judge's part on all replies plus the people's correction, by hand; λ is least in the variance of sampling."""
    rng = np.random.default_rng(0)
    drawn = draw_set(Design("", raters=((0.9, 0.1), (0.7, 0.2)), labels=300), rng)
    found = corrected_rate(*part(drawn, slice(None)))
    seen = ~np.isnan(drawn.labels)
    strata = [(drawn.axes == axis) & (drawn.verdicts == verdict) for axis in (0, 1) for verdict in (False, True)]

    def at(weight):
        value, variance = weight * drawn.scores.mean(), 0.0
        for stratum in strata:
            corrections = (drawn.labels - weight * drawn.scores)[stratum & seen]
            size, number = stratum.sum(), len(corrections)
            share = size / len(seen)
            value += share * corrections.mean()
            variance += share**2 * (1 - number / size) * corrections.var(ddof=1) / number
        return value, variance

    weights = np.linspace(0, 1, 1001)
    best = weights[np.argmin([at(weight)[1] for weight in weights])]
    assert found.weight == pytest.approx(best, abs=1e-3)
    assert 0 < best < 1
    assert found.value == pytest.approx(at(found.weight)[0])
    assert found.judged == pytest.approx(drawn.verdicts.mean())


def test_all_labelled_replies_need_no_judge():
    """With every reply labelled: the mean of labels, clustered by term, with the bounds of a skewed mean."""
    drawn = draw_set(Design("", rates=(0.3, 0.3), term_spread=0.1), np.random.default_rng(1))
    labels = drawn.people.mean(axis=1)
    rows = drawn.axes == 0
    found = corrected_rate(labels[rows], *part(drawn, rows)[1:])
    mean = labels[rows].mean()
    sums = [np.sum(labels[drawn.terms == term] - mean) for term in range(30)]
    variance = 30 / 29 * np.sum(np.square(sums)) / rows.sum() ** 2
    t = stats.t.ppf(0.975, 29)
    shift = (1 - 2 * mean) * variance / (mean * (1 - mean))
    middle, half = mean + shift * (2 * t**2 + 1) / 6, t * np.sqrt(variance + (t * shift) ** 2 / 4)
    assert found.value == pytest.approx(mean)
    assert found.interval == pytest.approx((middle - half, middle + half))


def test_a_stratum_without_labels_has_no_rate():
    drawn = draw_set(Design(""), np.random.default_rng(0))
    labels = np.where(drawn.verdicts & (drawn.axes == 0), np.nan, drawn.labels)
    found = corrected_rate(labels, *part(drawn, slice(None))[1:])
    assert found.value is found.interval is found.excess_interval is None
    assert found.num_needed == found.num_labelled + 2
    labels[np.flatnonzero(np.isnan(labels) & drawn.verdicts & (drawn.axes == 0))[:2]] = 0.0
    assert corrected_rate(labels, *part(drawn, slice(None))[1:]).value is not None


@pytest.mark.parametrize("number", [4, 5])
def test_labels_come_from_at_least_five_terms(number):
    """The judge gives the label to half of the replies. People label all replies to some of 20 equal terms."""
    terms, verdicts = np.repeat(np.arange(20), 50), np.arange(1000) % 2
    labels = np.where(terms < number, np.random.default_rng(0).random(1000) < 0.4, np.nan)
    found = corrected_rate(labels, 1.0 * verdicts, verdicts, terms, np.zeros(1000, int))
    assert (found.interval is None, found.num_needed) == ((True, 250) if number == 4 else (False, None))


@pytest.mark.parametrize("number", [39, 41])
def test_one_label_moves_the_rate_by_at_most_an_eighth_of_its_variance(number):
    """The judge gives the label to 200 of 1,000 replies. Of each verdict, people label as many."""
    verdicts, seen = np.arange(1000) < 200, np.arange(1000) % 200 < number
    seen[400:] = False
    found = corrected_rate(
        np.where(seen, verdicts, np.nan), 1.0 * verdicts, verdicts, np.arange(1000), np.zeros(1000, int)
    )
    assert (found.interval is not None) == (0.8 / number < 0.2 * 0.8 / 8)
    assert found.num_needed == (80 if number < 40 else None)


@pytest.mark.parametrize("more", [{"terms": 4, "per_term": 150}, {"terms": 10, "per_term": 4}])
def test_no_number_of_labels_is_enough_for_few_terms_or_replies(more):
    design = Design("", rates=(0.2, 0.2), labels=60, **more)
    for labels in (60, 2 * design.terms * design.per_term):
        drawn = draw_set(design._replace(labels=labels), np.random.default_rng(2))
        found = corrected_rate(*part(drawn, drawn.axes == 0))
        assert found.interval is found.num_needed is None


@pytest.mark.parametrize("terms", [3, ENOUGH_TERMS])
def test_the_number_of_terms_that_is_named_is_enough(terms):
    design = Design("", rates=(0.4, 0.4), terms=terms, per_term=32, labels=150)
    for seed in range(20):
        drawn = draw_set(design, np.random.default_rng(seed))
        for rows in (drawn.axes == 0, drawn.axes >= 0):
            found = corrected_rate(*part(drawn, rows))
            if terms == ENOUGH_TERMS:
                assert found.interval is not None
            elif not drawn.axes[rows].any():  # two axes of three terms are at the limit
                assert found.reason.startswith("3 terms are too few, whatever the number of labels; 6 per axis")


def test_the_number_of_replies_that_is_named_is_enough():
    """The judge gives the label to one in ten replies, and people label all of them."""

    def rate(number):
        rows = np.arange(number)
        verdicts = rows % 10 == 0
        return corrected_rate(1.0 * verdicts, 1.0 * verdicts, verdicts, rows // 10 % 8, np.zeros(number, int))

    reason = rate(80).reason
    assert reason.startswith("80 replies are too few, whatever the number of labels; at this rate, ")
    needed = int(reason.split()[-3])
    assert rate(needed - 9).interval is None
    assert rate(needed + 9).interval is not None


def test_no_label_decides_whether_there_is_an_interval():
    drawn = draw_set(Design("", rates=(0.2, 0.2)), np.random.default_rng(0))
    for people in (0.0, 1.0):
        labels = np.where(np.isnan(drawn.labels), np.nan, people)
        found = corrected_rate(labels, *part(drawn, slice(None))[1:])
        assert found.value == people
        assert 0.01 < found.interval[1] - found.interval[0] < 0.1
        assert found.interval[0] <= people <= found.interval[1]
        alike = corrected_rate(np.full(len(labels), people), *part(drawn, slice(None))[1:])
        assert 0 < alike.interval[1] - alike.interval[0] < 0.01


def test_a_gap_combines_independent_intervals():
    """MOVER, with Welch's quantile in place of each rate's own."""
    drawn = draw_set(Design("", rates=(0.2, 0.4), labels=400, terms=(8, 30)), np.random.default_rng(0))
    first, second = (corrected_rate(*part(drawn, drawn.axes == axis)) for axis in (0, 1))
    low, high = corrected_gap(first, second)
    quantiles = [stats.t.ppf(0.975, rate.freedom) for rate in (first, second)]
    errors = [np.ptp(rate.interval) / 2 / quantile for rate, quantile in zip((first, second), quantiles, strict=True)]
    parts = [error**4 / rate.freedom for error, rate in zip(errors, (first, second), strict=True)]
    welch = stats.t.ppf(0.975, np.square(errors).sum() ** 2 / sum(parts))
    assert min(quantiles) < welch < max(quantiles)
    below = ((first.value - first.interval[0]) / quantiles[0]) ** 2
    below += ((second.interval[1] - second.value) / quantiles[1]) ** 2
    assert first.value - second.value - low == pytest.approx(welch * below**0.5)
    assert corrected_gap(second, first) == pytest.approx((-high, -low))
    assert corrected_gap(first, second._replace(interval=None)) is None


def test_scores_never_widen_an_interval_by_over_5_percent():
    """The limit changes few sets: without it, some are wider by a fifth."""
    limited, rng = 0, np.random.default_rng(0)
    for name in ("6 terms", "8 terms, 3 raters", "scores mislead"):
        for _ in range(40):
            drawn = part(draw_set(BY_NAME[name], rng), slice(None))
            rate, alone = corrected_rate(*drawn), corrected_rate(drawn[0], 0 * drawn[1], *drawn[2:])
            assert np.ptp(rate.interval) <= 1.05 * np.ptp(alone.interval)
            assert np.ptp(rate.excess_interval) <= 1.05 * np.ptp(alone.excess_interval)
            limited += rate.weight == 0 < _rate(*drawn).weight
    assert 0 < limited < 40


def test_error_rates_cover_the_truth():
    """Among replies with one verdict, the share that people label so, which is what a judge gets wrong or misses."""
    design, rng = BY_NAME["3 raters"], np.random.default_rng(5)
    hit, alarm = np.mean(design.raters, axis=0)
    for verdict in (True, False):
        finds, calls = (np.array(of) if verdict else 1 - np.array(of) for of in (design.hits, design.alarms))
        rates = np.array(design.rates)
        true, others = (rates * finds).mean(), ((1 - rates) * calls).mean()
        expected = (true * hit + others * alarm) / (true + others)
        covered = []
        for _ in range(100):
            drawn = draw_set(design, rng)
            found = corrected_rate(*part(drawn, drawn.verdicts == verdict))
            assert found.interval is not None
            covered.append(found.interval[0] <= expected <= found.interval[1])
        assert 0.88 <= np.mean(covered) <= 1


@pytest.mark.long
def test_intervals_cover_in_all_designs():
    means, number = [], 200
    for design in DESIGNS:
        tried = try_design(design, number)
        # In fewer sets, the judge's rate was high by chance, and so was the people's.
        shares = [np.mean(covered) for covered in tried.covered.values() if len(covered) > number / 4]
        assert min(shares, default=1) >= 0.88, design.name
        means += shares
        if len(set(design.alarms)) + len(set(design.hits)) > 2:
            assert np.mean(tried.uncorrected) < 0.5, design.name
        if design.name.startswith("no gap") and len(tried.declared) > number / 4:
            assert np.mean(tried.declared) <= 0.1, design.name
    assert 0.94 <= np.mean(means) <= 0.975


def made_labels(rng, number, raters, missing=0.0, num_labels=3):
    """Labels that agree more than by chance, of terms."""
    true = rng.integers(num_labels, size=number)
    noise = rng.integers(num_labels, size=(number, raters))
    labels = np.where(rng.random((number, raters)) < 0.6, true[:, None], noise)
    return np.where(rng.random((number, raters)) < missing, -1, labels), true


def test_alpha_is_that_of_nltk():
    rng = np.random.default_rng(0)
    for raters, missing in ((2, 0.0), (3, 0.3), (5, 0.6)):
        labels, _ = made_labels(rng, 80, raters, missing)
        triples = [(rater, reply, int(label)) for (reply, rater), label in np.ndenumerate(labels) if label >= 0]
        counts = (labels >= 0).sum(axis=1)
        shared = [triple for triple in triples if counts[triple[1]] > 1]
        found = krippendorff_alpha(labels, np.ones(80), np.arange(80) % 20)
        assert found.alpha == pytest.approx(AnnotationTask(shared).alpha())


def test_weights_of_alpha_count_as_copies():
    rng = np.random.default_rng(1)
    labels, true = made_labels(rng, 400, 3)
    weights, terms = rng.integers(1, 6, 400), np.arange(400) % 40
    copied = [np.repeat(column, weights, axis=0) for column in (labels, true, terms)]
    ones = np.ones(len(copied[0]))
    weighted = krippendorff_alpha(labels, weights, terms)
    assert weighted.alpha == pytest.approx(krippendorff_alpha(copied[0], ones, copied[2]).alpha, abs=2e-3)
    pairs = [krippendorff_alpha(np.stack([true, rater], 1), weights, terms).alpha for rater in labels.T]
    assert judge_agreement(labels, true, weights, terms).alpha == pytest.approx(np.mean(pairs))


def test_intervals_of_alpha_cover_the_truth():
    """Replies of a term are of one kind, so they are alike; their truth is alpha of very many."""
    rng, number, raters = np.random.default_rng(2), 100, 2

    def drawn(num_terms, of_term):
        rates = rng.beta(2, 6, num_terms)
        terms = np.repeat(np.arange(num_terms), of_term)
        true = rng.random(len(terms)) < rates[terms]
        judged = rng.random(len(terms)) < np.where(true, 0.7, 0.1)
        people = rng.random((len(terms), raters)) < np.where(true[:, None], 0.85, 0.05)
        kept = rng.random(len(terms)) < np.where(judged, 1.0, 0.4)  # the judge's rare verdicts are drawn more often
        weights = np.where(judged, 1.0, 2.5)
        return (people[kept].astype(int), judged[kept].astype(int), weights[kept], terms[kept])

    people, judged, weights, terms = drawn(100_000, 4)
    truths = krippendorff_alpha(people, weights, terms).alpha, judge_agreement(people, judged, weights, terms).alpha
    covered = []
    for _ in range(200):
        people, judged, weights, terms = drawn(number // 4, 8)
        found = krippendorff_alpha(people, weights, terms), judge_agreement(people, judged, weights, terms)
        covered.append([one.interval[0] <= true <= one.interval[1] for one, true in zip(found, truths, strict=True)])
    assert np.all(np.mean(covered, axis=0) >= 0.9)
    assert np.all(np.mean(covered, axis=0) <= 0.99)


def test_alpha_has_reasons_where_it_cannot_be_known():
    labels, _ = made_labels(np.random.default_rng(0), 40, 2)
    weights, terms = np.ones(40), np.arange(40)
    alone = np.where(np.arange(2) == 0, labels, -1)
    assert krippendorff_alpha(alone, weights, terms).alpha is None
    assert krippendorff_alpha(np.zeros((40, 2), int), weights, terms).alpha is None
    assert krippendorff_alpha(np.repeat(labels[:, :1], 2, axis=1), weights, terms)[:2] == (1.0, None)
    assert krippendorff_alpha(labels, weights, terms % 5).interval is None
    judged = np.where(np.arange(40) < 3, 1, labels[:, 0])
    stopped = np.column_stack([labels, np.where(np.arange(40) < 3, 1, -1)])  # after three labels like the judge's
    assert judge_agreement(stopped, judged, weights, terms) == judge_agreement(labels, judged, weights, terms)
    few = np.where((np.arange(40) < 30)[:, None] & (np.arange(2) == 1), -1, labels)
    assert krippendorff_alpha(few, weights, terms % 20).interval is not None  # 10 terms have a second label
    assert krippendorff_alpha(few, weights, np.maximum(terms, 32)).interval is None  # 8 terms
    one = np.repeat(np.arange(40)[:, None] % 2, 2, axis=1)
    one[0] = 0, 1  # without its term, raters agree on everything, which no logarithm shows
    assert krippendorff_alpha(one, weights, terms).reason == "too few labels differ"


def published_test(labels, judged, epsilon):
    """The procedure of Calderon et al. (2025), written plainly from their description, for complete labels."""
    p_values, advantages = [], []
    for rater in range(labels.shape[1]):
        others = np.delete(labels, rater, axis=1)
        own_score, judge_score = ((others == one[:, None]).mean(axis=1) for one in (labels[:, rater], judged))
        judge_wins, rater_wins = judge_score >= own_score, own_score >= judge_score
        advantages.append(judge_wins.mean())
        differences = rater_wins.astype(int) - judge_wins.astype(int)
        p_values.append(stats.ttest_1samp(differences, epsilon, alternative="less").pvalue)
    order, number = np.argsort(p_values), len(p_values)
    harmonic = sum(1 / rank for rank in range(1, number + 1))
    rejected = 0
    for rank, place in enumerate(order, start=1):
        if p_values[place] <= rank / number * 0.05 / harmonic:
            rejected = rank
    return rejected / number, np.mean(advantages)


def test_the_alternative_annotator_is_the_published_test():
    rng = np.random.default_rng(0)
    rates = set()
    for raters in (3, 4, 6):
        for quality in (0.1, 0.4, 0.45, 0.5, 0.55, 0.6, 0.8):
            labels, true = made_labels(rng, 90, raters)
            judged = np.where(rng.random(90) < quality, true, rng.integers(3, size=90))
            found = alternative_annotator(labels, judged, np.ones(90), 0.15)
            assert found[1:3] == pytest.approx(published_test(labels, judged, 0.15))
            assert found.passes == (found.winning_rate >= 0.5)
            rates.add(found.winning_rate)
    assert {0.0, 1.0} <= rates
    assert len(rates) > 2
    assert alternative_annotator(labels[:, :2], judged, np.ones(90), 0.15).passes is None
    assert alternative_annotator(labels[:29], judged[:29], np.ones(29), 0.15).passes is None


def test_a_judge_like_a_rater_at_the_margin_seldom_passes():
    """With epsilon 0 and a judge as good as a rater, each test rejects in 5 %; weights leave that so."""
    rng = np.random.default_rng(3)
    won = []
    for _ in range(250):
        labels, _ = made_labels(rng, 150, 4)
        drawn = rng.random(150) < np.where(labels[:, 3] == 0, 1.0, 0.5)  # more often of one verdict
        weights = np.where(labels[:, 3] == 0, 1.0, 2.0)[drawn]
        found = alternative_annotator(labels[drawn, :3], labels[drawn, 3], weights, 0.0)
        won.append(found.winning_rate)
    assert np.mean(won) <= 0.08
