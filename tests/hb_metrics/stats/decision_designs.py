"""Simulated decisions with known truth. No design is what the intervals assume: normal, with equal variances.

A design draws a table of decisions: [questions, terms], NaN if an answer states none. "Equal" terms have equal means.
"""

import numpy as np
from scipy.special import ndtr


def arcs(questions, shifts, *, jumps=0.0, spread=1.0):
    """Probabilities on the arcsine scale. A share of the answers jumps to another decision."""
    shifts = np.array(shifts, float)

    def draw(rng, number=questions):
        size = (number, len(shifts))
        errors = rng.normal(0, 0.12, size) * spread
        errors += np.where(rng.random(size) < jumps, rng.choice([-0.6, 0.6], size), 0)
        return np.sin(np.clip(rng.uniform(0.2, 1.2, (number, 1)) + shifts + errors, 0, np.pi / 2)) ** 2

    return draw


def counts(questions, means, weight, answers):
    """Shares of a number of answers, whose probabilities have a beta distribution near 0 or 1."""
    means = np.array(means, float)

    def draw(rng, number=questions):
        chances = rng.beta(means * weight, (1 - means) * weight, (number, len(means)))
        return rng.binomial(answers, chances) / answers

    return draw


def probits(questions, shifts, *, deviation=1.0, base=0.0, answers=0, missing=0.0, topics=1):
    """Answers (0: probabilities) to questions with heavy tails; terms differ in one of the topics."""
    shifts, missing = np.array(shifts, float), np.array(missing)

    def draw(rng, number=questions):
        levels = base + deviation * rng.standard_t(5, (number, 1))
        effects = np.where(rng.integers(0, topics, (number, 1)) == 0, shifts * topics, 0.0)
        values = ndtr(levels + effects + 0.2 * rng.normal(size=(number, len(shifts))))
        values = rng.binomial(answers, values) / answers if answers else values
        return np.where(rng.random(values.shape) < missing, np.nan, values)

    return draw


def stars(questions, shifts):
    """Ratings from 0 to 4 stars."""

    def draw(rng, number=questions):
        errors = rng.gamma(2, 0.5, (number, len(shifts)))
        return np.clip(np.round(rng.gamma(4, 0.6, (number, 1)) + shifts + errors - 1), 0, 4) / 4

    return draw


def victims(questions, terms, share, drop):
    """A share of the questions treats one random term worse."""

    def draw(rng, number=questions):
        values = 0.6 * rng.beta(5, 3, (number, 1)) + 0.2 + rng.laplace(0, 0.03, (number, terms))
        rows, columns = np.flatnonzero(rng.random(number) < share), rng.integers(0, terms, number)
        values[rows, columns[rows]] -= drop
        return np.clip(values, 0, 1)

    return draw


DESIGNS = {
    "equal": arcs(9, [0] * 6),
    "equal, jumps": arcs(18, [0] * 6, jumps=0.08),
    "equal, unequal variances": arcs(12, [0] * 5, spread=np.array([2.5, 1, 1, 0.5, 0.5])),
    "equal, two terms": arcs(8, [0, 0]),
    "equal, near 0": counts(20, [0.08] * 5, 4, 3),
    "equal, near 1, one answer": counts(40, [0.9] * 8, 5, 1),
    "equal, one answer": probits(16, [0] * 5, answers=1),
    "equal, unparsed by term": probits(36, [0] * 5, missing=[0.4, 0.2, 0.1, 0.1, 0]),
    "equal, stars": stars(10, np.zeros(6)),
    "equal, random victims": victims(24, 6, 0.3, 0.4),
    "equal, many random victims": victims(12, 10, 0.5, 0.3),
    "one apart": arcs(14, [0.25, 0, 0, 0, 0]),
    "graded, 8 questions": arcs(8, np.linspace(-0.2, 0.2, 7)),
    "five answers": counts(16, [0.2, 0.35, 0.35, 0.35, 0.35, 0.5], 6, 5),
    "term and topic": probits(30, [0.3, 0, 0, 0], topics=5),
    "near 1": probits(24, [-0.5, 0, 0, 0, 0], base=1.8, deviation=0.6),
    "unparsed by term": probits(20, [-0.8, 0, 0, 0.4], answers=2, missing=[0.2, 0.05, 0.05, 0.05]),
    "stars": stars(25, np.array([-0.5, 0, 0, 0, 0.5])),
    "two terms": probits(12, [0.3, -0.3]),
    "thirty terms": arcs(20, [0.2, 0.1, *[0] * 28]),
}


def true_means(name):
    means = np.nanmean(DESIGNS[name](np.random.default_rng(0), 60_000), axis=0)
    return np.full(len(means), means.mean()) if name.startswith("equal") else means
