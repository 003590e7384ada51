"""Designs over which corrected rates are tried: judges, raters and terms with known truth, and how replies are drawn.

In each set, terms, replies, verdicts and labels are drawn anew. The truth is the rate with endless terms and replies,
as the mean of these raters labels them. Axes 0 and 1 are compared.
"""

from typing import NamedTuple

import numpy as np
from scipy import stats

from hb_metrics.human_eval.labels import MIN_PER_STRATUM
from hb_metrics.human_eval.study import allocate
from hb_metrics.stats.calibration import corrected_gap, corrected_rate

Raters = tuple[tuple[float, float], ...]
TRUE: Raters = ((1.0, 0.0),)
TWO: Raters = ((0.9, 0.02), (0.8, 0.06))
THREE: Raters = ((0.9, 0.05), (0.85, 0.02), (0.8, 0.1))
FIVE: Raters = ((0.95, 0.01), (0.9, 0.05), (0.85, 0.1), (0.7, 0.02), (0.6, 0.15))
ESTIMANDS = ("all", "axis", "gap", "excess", "excess of axis")


class Design(NamedTuple):
    """A run, its judge and its raters.

    Attributes:
        name: What is special about it.
        rates: Of each axis, the share of replies that truly are what is judged.
        labels: The number of labelled replies.
        terms: The number of terms of each axis, or one number for all axes.
        per_term: The number of replies to each term.
        hits: Of each axis, the share of true ones that the judge finds.
        alarms: Of each axis, the share of the others that the judge takes for one.
        term_spread: The intraclass correlation of the truth within terms; 0: terms are alike.
        judge_spread: That of the judge's errors.
        raters: Of each rater, the share of hits and of alarms.
        score: How well the judge's probability tells replies with one verdict apart; 0: not at all.
        is_drawn_equally: Whether all strata get as many labels; the product draws by the roots of their sizes.
        tail: The exponent of a Pareto distribution of the terms' sizes; 0: none.
        missing: The share of the labels that the raters left out, each for himself.
    """

    name: str
    rates: tuple[float, ...] = (0.1, 0.1)
    labels: int = 200
    terms: int | tuple[int, ...] = 30
    per_term: int = 20
    hits: tuple[float, ...] = (0.8, 0.8)
    alarms: tuple[float, ...] = (0.05, 0.05)
    term_spread: float = 0.0
    judge_spread: float = 0.0
    raters: Raters = TRUE
    score: float = 1.0
    is_drawn_equally: bool = False
    tail: float = 0.0
    missing: float = 0.0

    def truth(self, axes) -> dict[str, float]:
        """The true value of each estimand, where the replies are of these axes."""
        rates = np.array(self.rates)
        hits, alarms = np.mean(self.raters, axis=0)
        people = rates * hits + (1 - rates) * alarms
        judged = rates * self.hits + (1 - rates) * self.alarms
        shares, excess = np.bincount(axes) / len(axes), judged - people
        values = shares @ people, people[0], people[0] - people[1], shares @ excess, excess[0]
        return dict(zip(ESTIMANDS, map(float, values), strict=True))


def alike(number, **more):
    """Axes that are alike, by default with a rate of 20 %."""
    return {"rates": (0.2,) * number, "hits": (0.8,) * number, "alarms": (0.05,) * number, **more}


DESIGNS = [
    Design("plain"),
    Design("3 raters", raters=THREE),
    Design("50 labels at 40 %", rates=(0.4, 0.4), labels=50),
    Design("400 labels at 0.5 %", rates=(0.005, 0.005), labels=400, alarms=(0.003, 0.003), per_term=40),
    Design("clustered strongly, 12 terms", term_spread=0.3, terms=12, rates=(0.3, 0.3)),
    Design("6 terms", term_spread=0.05, terms=6, per_term=60, rates=(0.3, 0.3)),
    Design("8 terms, 3 raters", term_spread=0.1, terms=8, per_term=50, rates=(0.25, 0.25), raters=THREE),
    Design("60 terms of few replies", terms=60, per_term=8, term_spread=0.1),
    Design("errors by term", judge_spread=0.2, term_spread=0.05),
    Design("strata drawn equally, poor judge", is_drawn_equally=True, hits=(0.6, 0.6), alarms=(0.2, 0.2)),
    Design("judge at random", hits=(0.3, 0.3), alarms=(0.3, 0.3), score=0.0),
    Design("judge finds few", rates=(0.3, 0.3), hits=(0.4, 0.4), alarms=(0.0, 0.0)),
    Design("good judge", hits=(0.97, 0.97), alarms=(0.01, 0.01), score=4.0),
    Design("4 axes", **alike(4, terms=15, labels=300, term_spread=0.05)),
    Design("13 axes, 6 terms", **alike(13, terms=6, labels=400, term_spread=0.05)),
    Design("no gap, both by axis", rates=(0.2, 0.2), hits=(0.95, 0.6), alarms=(0.2, 0.03), raters=THREE),
    Design("no gap, errors by axis and term", rates=(0.2, 0.2), alarms=(0.25, 0.03), judge_spread=0.1),
    Design("gap that the judge hides", rates=(0.1, 0.25), hits=(0.9, 0.6), alarms=(0.15, 0.02)),
    Design("gap, 10 terms, 5 raters", rates=(0.2, 0.4), terms=10, per_term=40, alarms=(0.2, 0.03), raters=FIVE),
    Design("very heavy-tailed terms", tail=1.2, rates=(0.4, 0.2), labels=350, terms=60, per_term=8, term_spread=0.05),
    Design("each term once", terms=400, per_term=1, rates=(0.15, 0.15)),
    Design("scores mislead", score=-4.0, rates=(0.25, 0.25)),
    Design("judge worse than chance", rates=(0.35, 0.35), hits=(0.3, 0.3), alarms=(0.5, 0.5), raters=TWO),
    Design("half of the labels missing", rates=(0.3, 0.3), labels=300, raters=THREE, missing=0.5),
    Design("one dominant axis of five", **alike(5, terms=(120, 10, 10, 10, 10), labels=300, term_spread=0.1)),
    Design("rare for people, not for the judge", rates=(0.01, 0.01), hits=(0.9, 0.9), alarms=(0.12, 0.12), labels=300),
    Design("rare for the judge, not for people", rates=(0.3, 0.3), hits=(0.15, 0.15), alarms=(0.01, 0.01)),
    Design("97 %", rates=(0.97, 0.97), hits=(0.95, 0.95), alarms=(0.3, 0.3), labels=250),
    Design("nearly all labelled", rates=(0.3, 0.3), terms=10, per_term=12, labels=200, term_spread=0.1),
]


class Replies(NamedTuple):
    """A drawn set: the arguments of `corrected_rate`, and [replies, raters] what each rater would say."""

    labels: np.ndarray
    scores: np.ndarray
    verdicts: np.ndarray
    terms: np.ndarray
    axes: np.ndarray
    people: np.ndarray


def beta(rng, mean, spread):
    """Shares with this mean and intraclass correlation."""
    if not spread:
        return mean
    total = 1 / spread - 1
    return rng.beta(np.maximum(mean * total, 1e-9), np.maximum((1 - mean) * total, 1e-9))


def draw_set(design, rng):
    """Draws terms, replies, verdicts and labels."""
    num_axes = len(design.rates)
    axis_of_term = np.repeat(np.arange(num_axes), np.broadcast_to(design.terms, num_axes))
    num_terms = len(axis_of_term)
    sizes = np.full(num_terms, design.per_term)
    if design.tail:
        sizes = np.ceil(design.per_term * rng.pareto(design.tail, size=num_terms)).astype(int)
    terms = np.repeat(np.arange(num_terms), sizes)
    axes = axis_of_term[terms]
    means, *errors = (np.array(of_axes)[axis_of_term] for of_axes in (design.rates, design.hits, design.alarms))
    rates = beta(rng, means, design.term_spread)
    hits, alarms = (beta(rng, of_terms, design.judge_spread) for of_terms in errors)
    true = rng.random(len(terms)) < rates[terms]
    verdicts = rng.random(len(terms)) < np.where(true, hits[terms], alarms[terms])
    told = true == (design.score > 0)
    within = rng.beta(1 + abs(design.score) * told, 1 + abs(design.score) * ~told) if design.score else 0.5
    scores = (verdicts + within) / 2
    hit, alarm = np.transpose(design.raters)
    chance = rng.random((len(terms), len(design.raters)))
    people = chance < np.where(true[:, None], hit, alarm)
    strata = 2 * axes + verdicts
    numbers = np.bincount(strata, minlength=2 * num_axes)
    wanted = np.ones(len(numbers)) if design.is_drawn_equally else np.sqrt(numbers)
    drawn = allocate(numbers, design.labels, wanted, least=MIN_PER_STRATUM)
    order = rng.permutation(len(terms))
    order = order[np.argsort(strata[order], kind="stable")]
    places = np.arange(len(terms)) - np.repeat(np.cumsum(numbers) - numbers, numbers)
    chosen = order[places < np.repeat(drawn, numbers)]
    labels = np.full(len(terms), np.nan)
    given = rng.random(people.shape) >= design.missing if np.any(design.missing) else np.ones(people.shape, bool)
    chosen = chosen[given[chosen].any(axis=1)]
    labels[chosen] = np.average(people[chosen], axis=1, weights=given[chosen])
    return Replies(labels, scores, verdicts, terms, axes, people)


def uncorrected(verdicts, terms):
    """The judge's own rate on an axis, and the half-width of its t interval clustered by term."""
    codes = np.unique(terms, return_inverse=True)[1]
    sums, sizes = np.bincount(codes, verdicts), np.bincount(codes)
    deviations = (sums - verdicts.mean() * sizes) / len(verdicts)
    number = len(sizes)
    half = stats.t.ppf(0.975, number - 1) * np.sqrt((deviations**2).sum() * number / (number - 1))
    return verdicts.mean(), half


class Tried(NamedTuple):
    """What came of the sets of a design: 1 covered, 0 not, only of sets with an interval.

    Attributes:
        covered: Of the corrected intervals of each estimand.
        uncorrected: Of the judge's own intervals of the gap.
        declared: Whether each corrected interval of the gap excludes 0.
    """

    covered: dict[str, list[bool]]
    uncorrected: list[bool]
    declared: list[bool]


def try_design(design, number, seed=7):
    """Draws so many sets of a design and tries all intervals."""
    tried, rng = Tried({name: [] for name in ESTIMANDS}, [], []), np.random.default_rng(seed)
    for _ in range(number):
        drawn = draw_set(design, rng)
        truth, found = design.truth(drawn.axes), intervals(drawn)
        for name, bounds in found.items():
            if bounds is not None:
                tried.covered[name].append(bounds[0] <= truth[name] <= bounds[1])
        if found["gap"] is not None:
            tried.declared.append(not found["gap"][0] <= 0 <= found["gap"][1])
        (rate, half), (other, of_other) = (
            uncorrected(drawn.verdicts[drawn.axes == axis], drawn.terms[drawn.axes == axis]) for axis in (0, 1)
        )
        tried.uncorrected.append(abs(rate - other - truth["gap"]) <= np.hypot(half, of_other))
    return tried


def intervals(drawn):
    """The corrected interval of each estimand."""
    rates = []
    for part in (slice(None), drawn.axes == 0, drawn.axes == 1):
        rates.append(corrected_rate(*(column[part] for column in drawn[:5])))
    whole, first, second = rates
    values = whole.interval, first.interval, corrected_gap(first, second), whole.excess_interval, first.excess_interval
    return dict(zip(ESTIMANDS, values, strict=True))
