"""Made replies under cues with known truth: each set draws the directions of terms anew, and the luck of replies.

Under each cue a term moves the expected style vector. Its moves under two cues have a known correlation. Replies are
near that vector, or of one style each, or a mix.
"""

from typing import NamedTuple

import numpy as np

from hb_metrics.measurements.generation.cue_agreement import CueReplies

STYLES = 8


class Design(NamedTuple):
    """A design.

    Attributes:
        agreement: The correlation of a term's moves under both cues.
        size: The spread of a style's move; 0: terms have no effect.
        terms: The number of terms.
        axes: The number of axes that they are on.
        replies: The fewest and the most replies of a cell.
        cells: The cells of a term.
        tails: The distribution of moves: "normal", "t" (five degrees of freedom) or "few" (a tenth makes most of it).
        kind: The distribution of replies: "normal", "styles" (one each) or "mixed".
        common: Whether replies to a prompt have the same luck under both cues.
        of_axes: The spread of moves that the terms of an axis share.
        second: The size of moves under the second cue, in parts of the first.
        synonyms: The number of terms of an axis whose moves are the same, apart from a tenth of the variance.
    """

    agreement: float
    size: float = 0.05
    terms: int = 30
    axes: int = 5
    replies: tuple[int, int] = (4, 4)
    cells: int = 2
    tails: str = "normal"
    kind: str = "normal"
    common: bool = False
    of_axes: float = 0.0
    second: float = 1.0
    synonyms: int = 1


DESIGNS = {
    "half": Design(0.5),
    "same": Design(1.0),
    "opposite": Design(-0.8),
    "unrelated": Design(0.0),
    "few terms, same": Design(0.9, terms=12, axes=2),
    "few terms, clear": Design(0.5, terms=12, axes=2, size=0.08),
    "many terms": Design(0.5, terms=100, axes=13),
    "uneven cells": Design(0.5, replies=(2, 9), cells=3),
    "heavy tails": Design(0.7, tails="t", terms=40),
    "a tenth has most": Design(0.3, tails="few", terms=120),
    "axes differ": Design(0.6, of_axes=0.05, terms=40),
    "one style each": Design(0.95, kind="styles", size=0.04, terms=60, replies=(16, 16)),
    "one style each, common luck": Design(0.5, kind="styles", size=0.04, terms=60, replies=(8, 8), common=True),
    "common luck": Design(0.0, common=True),
    "a weak second cue": Design(0.5, second=0.4),
    "axes of two": Design(-0.5, terms=24, axes=12, size=0.08),
    "one term an axis": Design(0.9, terms=16, axes=16, size=0.06, replies=(6, 10)),
    "weak": Design(0.8, size=0.025),
    "weak, many terms": Design(0.8, size=0.025, terms=100, axes=13),
    "weak and opposite": Design(-0.5, size=0.025),
    "threes of near-synonyms": Design(0.5, terms=60, axes=3, synonyms=3),
    "fours of near-synonyms, weak": Design(0.5, terms=96, axes=4, size=0.03, synonyms=4),
    "fives of near-synonyms": Design(0.8, terms=100, axes=5, synonyms=5),
    "near-synonyms, heavy tails": Design(0.7, terms=90, axes=3, synonyms=3, tails="t"),
}
NO_EFFECT = {
    "no effect": Design(0.0, size=0.0),
    "no effect, one style each": Design(0.0, size=0.0, axes=15, kind="styles"),
    "no effect, one style each, common luck": Design(0.0, size=0.0, axes=15, kind="styles", common=True),
    "no effect, one cell": Design(0.0, size=0.0, axes=15, kind="styles", common=True, cells=1),
    "no effect, mixed": Design(0.0, size=0.0, terms=20, axes=10, kind="mixed", cells=1),
    "no effect under the second cue": Design(0.0, size=0.1, axes=10, second=0.0),
}


class Drawn(NamedTuple):
    """A set: the replies under both cues, the axes and the buckets of terms, and the agreement of the population."""

    cues: list[CueReplies]
    axes: np.ndarray
    buckets: np.ndarray
    agreement: float


def outcome(agreements, truths):
    """The share of sets with an interval; of these, the shares that hold the truth and that exclude 0."""
    intervals = [agreement.interval for agreement in agreements]
    known = [(*interval, truth) for interval, truth in zip(intervals, truths, strict=True) if interval is not None]
    low, high, truth = np.array(known or [[np.nan] * 3]).T
    held = (low - 1e-9 <= truth) & (truth <= high + 1e-9)
    return len(known) / len(intervals), held.mean() if known else np.nan, ((low > 0) | (high < 0)).mean()


def draw(design, rng):
    """One set of a design."""
    axes = np.sort(np.arange(design.terms) % design.axes)
    of_axis = np.arange(design.terms) - np.searchsorted(axes, axes)
    buckets = axes * design.terms + of_axis // design.synonyms
    moves = _moves(design, rng)
    if design.synonyms > 1:
        first = np.unique(buckets, return_index=True)[1]
        alike = moves[:, first[np.searchsorted(buckets[first], buckets)]]
        moves = np.sqrt(0.9) * alike + np.sqrt(0.1) * _moves(design, rng)
    of_axes = np.random.default_rng(7).normal(0, design.of_axes, (2, design.axes, STYLES))
    of_axes[1] = 0.7 * of_axes.sum(axis=0)
    of_cue = np.array([[0.0] * STYLES, [0.02, -0.02] + [0.0] * (STYLES - 2)])
    given = _centred(of_axes)[:, axes] + of_cue[:, None]
    means = 1 / STYLES + given + moves
    counts = rng.integers(design.replies[0], design.replies[1] + 1, (design.terms, design.cells))
    luck = rng.random((counts.sum(), 1)) if design.kind == "styles" else rng.normal(size=(counts.sum(), STYLES))
    cues = [_replies(mean, counts, design.kind, luck if design.common else None, rng) for mean in means]

    sizes = design.size * np.array([1, design.second])
    between = (STYLES - 1) * np.outer(sizes, sizes) * [[1, design.agreement], [design.agreement, 1]]
    apart = given - given.mean(axis=1, keepdims=True)
    between += np.einsum("ads,bds->ab", apart, apart) / (design.terms - 1)
    with np.errstate(invalid="ignore"):
        agreement = between[0, 1] / np.sqrt(between[0, 0] * between[1, 1])
    return Drawn(cues, axes, buckets, agreement)


def _centred(values):
    return values - values.mean(axis=-1, keepdims=True)


def _moves(design, rng):
    shape = (2, design.terms, STYLES)
    drawn = rng.standard_t(5, shape) / np.sqrt(5 / 3) if design.tails == "t" else rng.normal(size=shape)
    if design.tails == "few":
        drawn *= np.where(rng.random((1, design.terms, 1)) < 0.1, 3, 0.35) / np.sqrt(0.1 * 9 + 0.9 * 0.35**2)
    first, other = _centred(drawn)
    second = design.agreement * first + np.sqrt(1 - design.agreement**2) * other
    return design.size * np.stack([first, design.second * second])


def _replies(means, counts, kind, luck, rng):
    terms = np.repeat(np.arange(len(counts)), counts.sum(axis=1))
    cells = np.repeat(np.tile(np.arange(counts.shape[1]), len(counts)), counts.ravel())
    expected = means[terms]
    if kind == "normal":
        styles = expected + 0.15 * (rng.normal(size=expected.shape) if luck is None else luck)
    elif kind == "styles":
        drawn = rng.random((len(terms), 1)) if luck is None else luck
        styles = np.eye(STYLES)[(drawn > expected.cumsum(axis=1)[:, :-1]).sum(axis=1)]
    else:
        draws = rng.standard_gamma(2 * expected)
        styles = draws / draws.sum(axis=1, keepdims=True)
    return CueReplies(np.arange(len(terms)), styles, terms, cells)
