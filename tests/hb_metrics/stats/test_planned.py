"""Predicted half-widths: against the intervals of the pilot itself, and of runs drawn anew from the same population."""

from itertools import product

import numpy as np
import pytest

from hb_dataset.own_prompts import OwnPrompt
from hb_dataset.prompt_columns import NAMES_AXIS
from hb_metrics.command.pilot import _ERROR, planned_share
from hb_metrics.measurements.decisions.answers import DecisionAnswer
from hb_metrics.measurements.decisions.cells import cells_by_axis, largest_of
from hb_metrics.measurements.decisions.planned import planned_decisions
from hb_metrics.stats.gen_bias_intervals import (
    Size,
    ValueVariance,
    at_size,
    change_half_width,
    gen_bias_change,
    gen_bias_covariances,
    half_width,
    value_interval,
    value_variance,
)
from hb_metrics.stats.reply_shares import share_interval
from hb_metrics.stats.u_statistic import Paired, template_covariances
from tests.hb_metrics.stats.test_gen_bias_changes import Pair, cell_replies, debiased
from tests.hb_metrics.stats.test_reply_shares import DESIGNS as SHARES

LEVEL = 0.95
SIZES = [
    (Size(8, 4, 20), Size(32, 4, 20)),
    (Size(8, 8, 20), Size(8, 4, 20)),
    (Size(8, 4, 6), Size(16, 4, 6)),
    (Size(5, 4, 78), Size(16, 4, 78)),
    (Size(8, 4, 40), Size(5, 4, 40)),
    (Size(8, 4, 20), Size(16, 4, 60)),
    (Size(5, 8, 30), Size(8, 26, 30)),
]
KINDS = [
    {"effects": (0.6, 0.6), "concentration": 1.5, "styles": 20},
    {"effects": (1.2, 1.2), "concentration": 6.0, "styles": 20},
    {"effects": (0.3, 0.3), "concentration": 0.5, "styles": 60},
]


def model(sizes, kind, seed):
    """A model with known means: the terms and templates of a run are its first."""
    replies, templates, terms = np.max(sizes, axis=0)
    return Pair(templates=templates, terms=terms, number=replies, seed=seed, **kind)


def drawn(pair, size):
    """New replies of a run: [templates, terms, replies, styles]."""
    return pair.replies()[0][: size.templates, : size.terms, : size.replies]


def found_of(replies):
    """A run's variances by template, its debiased value and its plain value."""
    counts = np.full(replies.shape[1], replies.shape[2])
    rows = [of_template.reshape(-1, replies.shape[3]) for of_template in replies]
    templates = [({None: len(counts)}, [Paired(of_template[None], counts)]) for of_template in rows]
    covariances = [covariance for (covariance,) in template_covariances(templates, {})[None]]
    plain = replies.mean(axis=2).var(axis=1).sum(axis=-1).mean()
    return covariances, debiased(replies) / 1000, float(plain)


def half_of(bounds):
    return np.nan if bounds is None else (bounds[1] - bounds[0]) / 2


def errors_of(kinds, sets, seed=0):
    """Relative errors of half-widths, in parts of what the plan gives as their error."""
    errors = []
    for sizes, kind in product(SIZES, kinds):
        pair = model(sizes, kind, seed := seed + 1)
        spread = value_variance(*found_of(drawn(pair, sizes[0])))
        later = [found_of(drawn(pair, sizes[1])) for _ in range(sets)]
        realised = np.nanmean([half_of(value_interval(*found, LEVEL).bounds) for found in later])
        planned = half_width(at_size(spread, sizes[1]), LEVEL)
        errors.append(abs(planned / realised - 1) / (_ERROR / np.sqrt(spread.freedom)))
    return np.array(errors)


def test_predicted_half_widths_are_those_of_later_runs():
    errors = errors_of(KINDS[:2], 1)
    assert np.median(errors) < 0.6
    assert np.mean(errors < 1) > 0.7


@pytest.mark.long
def test_nine_in_ten_predictions_are_within_their_error_in_all_designs():
    errors = errors_of(KINDS * 8, 3)
    assert 0.85 < np.mean(errors < 1) < 0.98


def test_at_the_pilots_size_they_are_those_of_its_interval_and_of_a_change():
    replies, others = (drawn(model(SIZES[0], KINDS[0], 0), SIZES[0][0]) for _ in range(2))
    found = found_of(replies)
    spread = value_variance(*found)
    assert half_width(spread, LEVEL) == pytest.approx(half_of(value_interval(*found, LEVEL).bounds), rel=1e-6)
    assert np.allclose(at_size(spread, spread.size)[:4], spread[:4])
    first, second = cell_replies(replies), cell_replies(others)
    (covariance,) = gen_bias_covariances(first, second._replace(ids=-1 - second.ids), {})[None]
    realised = half_of(gen_bias_change(0.0, 0.0, covariance, 1, LEVEL).interval)
    assert change_half_width(spread, LEVEL) == pytest.approx(realised, rel=0.25)


def test_the_variance_at_no_difference_is_that_of_mean_squares():
    """Gen Bias without debiasing is then (D − 1) / (N D) times the mean square between D terms of N replies."""

    def variance(size):
        share = 1 - 1 / size.terms
        between, within = 2 / (size.terms - 1), 2 / (size.terms * (size.replies - 1))  # of mean squares
        return (share / size.replies) ** 2 * (between + within) / size.templates

    sizes = Size(4, 3, 2), Size(20, 2, 9)
    planned = at_size(ValueVariance(0.0, variance(sizes[0]), 0.1, 9.0, sizes[0]), sizes[1])
    assert planned.at_zero == pytest.approx(variance(sizes[1]))


def test_runs_that_will_have_no_interval_have_no_half_width():
    spread = ValueVariance(0.01, 1e-6, 1e-5, 100.0, Size(8, 4, 40))
    for other in (
        spread._replace(size=Size(3, 4, 40)),
        spread._replace(size=Size(7, 1, 2)),
        spread._replace(freedom=0),
    ):
        assert half_width(other, LEVEL) is change_half_width(other, LEVEL) is None
    assert half_width(spread._replace(size=Size(4, 4, 40)), LEVEL) is not None


@pytest.mark.parametrize("name", ["few refuse, others at times", "all alike", "six terms"])
def test_predicted_half_widths_of_shares_are_those_of_later_runs(name):
    design, rng, errors = SHARES[name], np.random.default_rng(0), []
    shape = design.terms, design.templates
    for times in (4, 0.5) * 10:
        shares = np.where(rng.random(design.terms) < design.part, design.share, design.rest)[:, None]
        pilot, later = (np.full(shape, int(2 * design.number * more)) for more in (1, times))
        planned = planned_share(rng.binomial(pilot, shares), pilot, later, LEVEL)
        realised = half_of(share_interval(rng.binomial(later, shares), later, LEVEL))
        errors.append(abs(planned.at(later[0, 0]) / realised - 1) / planned.error)
    assert np.median(errors) < 1
    assert np.mean(np.array(errors) < 2.5) > 0.9


def test_a_share_that_no_reply_has_has_no_known_error():
    found = planned_share(np.zeros((20, 4)), np.full((20, 4), 5), np.full((20, 4), 20), LEVEL)
    assert found.at(20) > 0
    assert found.error == np.inf


@pytest.mark.parametrize(
    ("sizes", "spread", "pilot"), [((5, 5), 0.0, 8), ((5, 5), 1.2, 16), ((4, 8), 0.0, 16), ((4, 8), 1.2, 8)]
)
def test_predicted_half_widths_of_groups_of_names_are_those_of_more_questions(sizes, spread, pilot, monkeypatch):
    """Names have logits of this spread, so groups differ by chance, too. Answers are single, and a fifth is missing.

    A small pilot hardly shows whether names differ, so the prediction for nine times as many questions is less exact.
    """
    monkeypatch.setattr("hb_metrics.measurements.decisions.planned.read_answers", lambda answers: answers)
    groups = np.repeat(["A", "B"], sizes)

    def answers(number, rng):
        logits = rng.normal(0, 0.7, (number, 1)) + rng.normal(0, spread, len(groups)) + 0.8 * (groups == "B")
        values = np.where(rng.random(logits.shape) < 0.2, np.nan, rng.random(logits.shape) < 1 / (1 + np.exp(-logits)))
        prompts = [OwnPrompt(str(row), "", str(row), None, None, None, {}, {}) for row in range(number)]
        return prompts, [
            DecisionAnswer(prompt.id, NAMES_AXIS, str(name), groups[name], "", 0, value, False, None, "", "")
            for prompt, of_prompt in zip(prompts, values, strict=True)
            for name, value in enumerate(None if np.isnan(value) else value for value in of_prompt)
        ]

    def realised(number, rng):
        prompts, found = answers(number, rng)
        [of_names] = cells_by_axis(prompts, found).values()
        return half_of(largest_of(of_names, of_names.table, seed=0).largest.gap.interval)

    numbers = [2 * pilot, 9 * pilot]
    plans = [planned_decisions(answers(pilot, np.random.default_rng(seed)), numbers) for seed in range(24)]
    for place, (number, most) in enumerate(zip(numbers, (0.25, 0.4), strict=True)):
        half = np.median([plan["Largest gap in decisions, Names"][place] for plan in plans])
        actual = np.median([realised(number, np.random.default_rng([1, seed])) for seed in range(24)])
        assert half == pytest.approx(actual, rel=most), number
