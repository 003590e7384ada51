"""How often intervals of changes over turns hold the true change, which the designs know."""

from typing import NamedTuple

import numpy as np
import pytest

from hb_metrics.paired_changes.gen_bias_covariance import turn_changes
from tests.hb_metrics.paired_changes.test_gen_bias_covariance import debiased, dirichlet, softmax
from tests.hb_metrics.stats.coverage import coverage

LEVEL = 0.95


class Design(NamedTuple):
    """Conversations whose true change over turns is known.

    Attributes:
        effects: How far terms differ, at each turn.
        kind: "copied": a reply has the style of the reply before it with a probability, else a style of its own, whose
            mean is that of its term at its turn; "shared": the logits of all replies of a conversation have a part in
            common, as large a part of their variance.
        tie: That probability, or that part.
        terms: Terms.
        templates: Templates.
        sizes: The fewest and the most conversations of a cell, drawn anew in each set.
        single: The share of cells with one conversation.
        concentration: Of replies, of kind "copied"; small: nearly of one style each.
        tails: Degrees of freedom of the logits of replies, of kind "shared"; 0: normal.
        uneven: Whether the terms' replies vary unlike each other.
        same_direction: Whether terms differ in the same direction at each turn.
    """

    effects: tuple[float, ...]
    kind: str = "copied"
    tie: float = 0.3
    terms: int = 16
    templates: int = 4
    sizes: tuple[int, int] = (8, 8)
    single: float = 0.0
    concentration: float = 4.0
    tails: int = 0
    uneven: bool = False
    same_direction: bool = True
    styles: int = 10


DESIGNS = {
    "at every turn": Design((0.4, 0.4, 0.4, 0.4), tie=0.0),
    "no bias": Design((0.0,) * 4),
    "at turn 1 only": Design((0.6, 0.0, 0.0)),
    "fades": Design((0.6, 0.5, 0.3, 0.2), sizes=(4, 16)),
    "grows, turns share much": Design((0.2, 0.4, 0.6), "shared", tie=0.9),
    "nearly of one style each": Design((0.6, 0.4, 0.3), concentration=0.4, sizes=(6, 10)),
    "heavy tails": Design((0.5, 0.5, 0.4, 0.3), "shared", tie=0.5, tails=3),
    "few terms": Design((0.6, 0.3, 0.3), terms=6, templates=6, sizes=(10, 14)),
    "a tenth single": Design((0.5, 0.4, 0.3), single=0.1),
    "many templates, five replies": Design((0.4, 0.35, 0.3, 0.3), templates=20, sizes=(5, 5), terms=10),
    "three terms": Design((0.8, 0.4, 0.0), terms=3, templates=2),
    "no change, shared": Design((0.4, 0.4, 0.4), "shared", tie=0.5, same_direction=False, uneven=True),
}


class Conversations:
    """Draws the conversations of a design."""

    def __init__(self, design, seed):
        self.design, self.rng = design, np.random.default_rng(seed)
        turns, shape = len(design.effects), (design.templates, design.terms)
        shift = self.rng.normal(size=(1 if design.same_direction else turns, *shape, design.styles))
        base = 0.8 * self.rng.normal(size=(1, design.templates, 1, design.styles))
        self.logits = base + np.array(design.effects)[:, None, None, None] * shift
        self.spread = np.exp(0.6 * self.rng.normal(size=(*shape, 1, 1))) if design.uneven else np.ones((*shape, 1, 1))
        if design.kind == "copied":
            self.own = softmax(self.logits)
            self.means = self.own.copy()
            for turn in range(1, turns):
                self.means[turn] = design.tie * self.means[turn - 1] + (1 - design.tie) * self.own[turn]
        else:
            self.means = np.mean([self._replies(100).mean(axis=3) for _ in range(200)], axis=0)
        self.truth = 1000 * self.means.var(axis=2).sum(axis=-1).mean(axis=1)  # [turns]

    def _replies(self, number):
        """[turns, templates, terms, replies, styles]"""
        design, turns = self.design, len(self.design.effects)
        shape = (*self.logits.shape[1:3], number)
        if design.kind == "copied":
            replies = []
            for own in self.own:
                drawn = dirichlet(
                    self.rng,
                    np.broadcast_to(own[:, :, None], (*shape, design.styles)),
                    design.concentration / self.spread,
                )
                if replies:
                    drawn = np.where(self.rng.random((*shape, 1)) < design.tie, replies[-1], drawn)
                replies.append(drawn)
            return np.stack(replies)
        noise = self.rng.normal(size=(turns + 1, *shape, design.styles))
        if design.tails:
            noise = self.rng.standard_t(design.tails, size=noise.shape) / np.sqrt(3)
        mixed = np.sqrt(design.tie) * noise[:1] + np.sqrt(1 - design.tie) * noise[1:]
        return softmax(self.logits[:, :, :, None] + self.spread * mixed)

    def drawn(self):
        """[turns] of [conversations, styles]; their cells; and the debiased values of the turns."""
        design, shape = self.design, self.logits.shape[1:3]
        sizes = self.rng.integers(design.sizes[0], design.sizes[1] + 1, size=shape)
        sizes = np.where(self.rng.random(shape) < design.single, 1, sizes)
        replies = self._replies(sizes.max())
        there = np.arange(sizes.max()) < sizes[..., None]
        cells = [(f"t{t}", None, f"d{d}") for t, d, _ in zip(*np.nonzero(there), strict=True)]
        return [of_turn[there] for of_turn in replies], cells, {None: [debiased(turn, sizes) for turn in replies]}


def outcome(design, sets, seed):
    """The coverage of the change and of the slope."""
    conversations = Conversations(design, seed)
    turns = len(design.effects)
    slope = float(np.polyfit(np.arange(turns), conversations.truth, 1)[0])
    truths = conversations.truth[-1] - conversations.truth[0], slope
    found = [turn_changes(*conversations.drawn(), LEVEL) for _ in range(sets)]
    outcomes = []
    for kind, truth in enumerate(truths):
        changes = [changes[kind][None] for changes in found]
        outcomes.append(coverage([each.change for each in changes], [each.interval for each in changes], truth))
    return outcomes


def test_intervals_hold_the_change_and_the_slope():
    for found in outcome(DESIGNS["three terms"], 30, 0):
        assert found.given > 0.8
        assert found.held > 0.8
        assert found.width < 1.5


@pytest.mark.long
@pytest.mark.parametrize("name", DESIGNS)
def test_intervals_hold_them_in_all_designs(name):
    for found in outcome(DESIGNS[name], 500, 1):
        assert found.given > 0.9
        assert 0.92 < found.held < 0.985
        assert found.width < 1.2
