"""Simulated log-likelihoods with known truth, as sums of effects of terms, nouns, pairs and cells."""

from typing import NamedTuple

import numpy as np

from hb_metrics.stats.contrasts import NONCE_AXIS
from hb_metrics.stats.likelihood_tables import LikelihoodTable


class Design(NamedTuple):
    """The sizes of a run, and the standard deviations of its effects in nats.

    `seen` is the share of nouns of every third term, as of gendered terms. `unequal` makes the noise of terms differ.
    """

    sizes: tuple[int, ...] = (8, 8, 8)
    nouns: int = 30
    pairs: int = 4
    attitude: float = 1.0
    disagreement: float = 0.7
    frequency: float = 4.0
    by_noun: float = 0.5
    cells: float = 0.7
    tails: str = "normal"
    seen: float = 1.0
    unequal: bool = False


DESIGNS = {
    "plain": Design(),
    "one pair": Design(pairs=1),
    "gendered terms, few nouns": Design(nouns=12, seen=1 / 3),
    "heavy tails": Design(sizes=(6,) * 12, tails="t4"),
    "skewed": Design(sizes=(6,) * 12, tails="exponential"),
    "no attitude": Design(attitude=0.0, disagreement=0.0),
    "unequal noise": Design(unequal=True),
    "many terms": Design(sizes=(60, 20, 40)),
    "pairs disagree": Design(disagreement=3.0),
    "pairs agree": Design(disagreement=0.1, cells=0.3),
}
NUM_NONCE = 8
_DRAWS = {
    "normal": lambda rng, size: rng.standard_normal(size),
    "t4": lambda rng, size: rng.standard_t(4, size) / np.sqrt(2),
    "exponential": lambda rng, size: rng.exponential(1, size) - 1,
}


class Effects(NamedTuple):
    frequency: np.ndarray  # [terms]
    attitude: np.ndarray  # [terms]
    of_pairs: np.ndarray  # [pairs, terms]


def axes_of(design):
    names = [f"axis {number}" for number in range(len(design.sizes))] + [NONCE_AXIS]
    return np.repeat(names, [*design.sizes, NUM_NONCE])


def draw_effects(design, rng):
    number, draw = len(axes_of(design)), _DRAWS[design.tails]
    return Effects(
        design.frequency * draw(rng, number),
        design.attitude * draw(rng, number),
        design.disagreement * draw(rng, (design.pairs, number)),
    )


def draw_table(design, effects, rng):
    """Draws a table of log-likelihoods. Half of a contrast is in each of its templates."""
    axes, draw = axes_of(design), _DRAWS[design.tails]
    number = len(axes)
    scale = np.geomspace(0.4, 2.5, number) if design.unequal else np.ones(number)
    contrast = effects.attitude + effects.of_pairs
    layers = [contrast / 2, -contrast / 2]
    values = []
    by_noun = design.by_noun * draw(rng, (2, design.nouns, number)) * scale
    for pair in range(design.pairs):
        for sign, layer in zip((1, -1), layers, strict=True):
            noise = design.cells / np.sqrt(2) * draw(rng, (design.nouns, number)) * scale
            of_nouns = rng.normal(0, 2, (design.nouns, 1))
            values.append(effects.frequency + layer[pair] + by_noun[0] + sign * by_noun[1] / 2 + of_nouns + noise)
    values = np.stack(values)
    if design.seen < 1:
        few = round(design.seen * design.nouns)
        for term in range(0, number, 3):
            start = (term // 3 * few) % design.nouns
            hidden = (np.arange(design.nouns) - start) % design.nouns >= few
            values[:, hidden, term] = np.nan
    names = [f"{kind} {pair}" for pair in range(design.pairs) for kind in ("love", "hate")]
    return LikelihoodTable(values, names, axes, np.array([f"term {term}" for term in range(number)]))


def pairs_of(design):
    return [(f"love {pair}", f"hate {pair}") for pair in range(design.pairs)]
