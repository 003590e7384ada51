"""Simulated decisions with known truth. No design is what the intervals assume: normal, with equal variances."""

import numpy as np


def design(
    shifts, num_questions, *, base=0.0, noise=0.4, spread=None, repeats=0, tails="normal", reversed_in=0.0, missing=0.0
):
    """A design draws a table of decisions [questions, terms]; also returns the number of its questions.

    `shifts` are the terms' effects on logits, `repeats` the answers per cell (0: probabilities), `reversed_in` the
    share of questions in which the effects are reversed and doubled, and `missing` the least share of missing answers,
    which grows with the term's number to three times that.
    """
    shifts = np.array(shifts, float)
    terms = len(shifts)
    scale = noise * np.array(spread if spread is not None else [1.0] * terms)

    def draw(rng, number=num_questions):
        questions = rng.normal(0, 1, (number, 1)) + base
        size = (number, terms)
        errors = {"normal": rng.standard_normal, "t3": lambda size: rng.standard_t(3, size)}.get(
            tails, lambda size: rng.exponential(1, size) - 1
        )(size)
        effects = shifts * np.where(rng.random((number, 1)) < reversed_in, -2.0, 1.0)
        values = 1 / (1 + np.exp(-(questions + effects + scale * errors)))
        if repeats:
            values = rng.binomial(repeats, values) / repeats
        hidden = rng.random(size) < missing * (1 + 2 * np.arange(terms) / terms)
        return np.where(hidden, np.nan, values)

    return draw, num_questions


DESIGNS = {
    "equal treatment": design([0] * 6, 12),
    "equal, few questions": design([0] * 6, 8),
    "equal, two terms": design([0, 0], 10),
    "equal, near 0": design([0] * 6, 20, base=-4),
    "equal, five answers": design([0] * 6, 20, noise=0, repeats=5),
    "equal, unequal variances": design([0] * 6, 15, spread=[3, 1, 1, 1, 0.3, 0.3]),
    "one term apart": design([1.5, 0, 0, 0, 0, 0], 12),
    "one term apart, 30 questions": design([0.7, 0, 0, 0, 0, 0], 30),
    "graded": design(np.linspace(-1, 1, 6), 20),
    "graded, few questions": design(np.linspace(-1, 1, 6), 8),
    "depends on the question": design([1, 0, 0, 0, 0, 0], 24, reversed_in=0.25),
    "near 0": design([1.5, 0, 0, 0, 0, 0], 20, base=-4),
    "near 1": design([-1, 0, 0, 0, 0, 0], 20, base=3),
    "five answers": design(np.linspace(-0.6, 0.6, 6), 20, noise=0.2, repeats=5),
    "one answer": design([1, 0, 0, 0, 0, 0], 40, repeats=1),
    "heavy tails": design([1, 0, 0, 0, 0, 0], 20, tails="t3"),
    "skewed": design(np.linspace(-0.7, 0.7, 5), 15, noise=0.8, tails="exponential"),
    "many terms": design([1.0] + [0] * 39, 30),
    "two terms": design([0.5, -0.5], 20),
    "missing answers depend on the term": design(np.linspace(-0.7, 0.7, 6), 25, missing=0.1),
    "large differences": design(np.linspace(-2, 2, 12), 60),
}


def true_means(draw):
    return np.nanmean(draw(np.random.default_rng(0), 100_000), axis=0)
