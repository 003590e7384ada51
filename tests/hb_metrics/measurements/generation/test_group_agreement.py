"""Whether names move replies as statements do: against loops, and with names as draws of groups of known directions."""

import math
from itertools import product

import numpy as np
import pytest

from hb_metrics.measurements.generation.cue_agreement import CueReplies, group_agreement
from tests.hb_metrics.measurements.generation.cue_designs import outcome
from tests.hb_metrics.measurements.generation.test_name_groups import STYLES, directions, draw

STRONG = {"between": 0.08, "told": 0.08}
WEAK = {"between": 0.04, "told": 0.05}
# The agreement, and the design of both runs.
DESIGNS = {
    "same": (1.0, STRONG),
    "opposite": (-1.0, STRONG),
    "unrelated": (0.0, STRONG),
    "half": (0.5, STRONG),
    "half and opposite": (-0.5, STRONG),
    "weak": (0.5, WEAK),
    "weak and unrelated": (0.0, WEAK),
    "four names each": (0.5, STRONG | {"sizes": (4, 4)}),
    "uneven": (0.5, STRONG | {"sizes": (5, 12)}),
    "four groups": (0.5, STRONG | {"sizes": (6, 6, 6, 6)}),
    "heavy tails": (0.5, STRONG | {"sizes": (12, 12), "tails": "t"}),
    "one direction": (0.0, STRONG | {"tails": "one"}),
    "one style each": (0.5, STRONG | {"kind": "styles"}),
    "unlike spread": (0.5, STRONG | {"sizes": (6, 18), "unlike": 2.0}),
    "names do not differ": (0.5, STRONG | {"within": 0.0}),
    "two cells": (0.5, {"between": 0.08, "told": 0.3, "cells": 2}),
    "strong": (0.5, {"between": 0.2, "told": 0.2, "uneven": 5}),
}
NO_EFFECT = {
    "no effect": {"between": 0.0, "told": 0.0},
    "no effect, one style each": {"between": 0.0, "told": 0.0, "kind": "styles"},
    "no effect of names": {"between": 0.0, "told": 0.08},
    "no effect of strong statements": {"between": 0.0, "told": 0.3},
    "no effect of statements": {"between": 0.08, "told": 0.0},
}


def both_runs(rng, agreement, told, sizes=(18, 18), cells=20, uneven=0, **named):
    """Arguments of `group_agreement`. Statements have 4 replies per cell, or up to `uneven` more."""
    (vectors, names, questions, groups), _ = draw(rng, sizes, **named)
    codes = [np.unique(column, return_inverse=True)[1] for column in (names, questions)]
    number = len(sizes)
    along, other = directions(number, 1.0), directions(number, 1.0, seed=8)
    other -= along * (along * other).sum() / number
    other /= np.sqrt((other**2).sum() / number)
    moves = told * (agreement * along + math.sqrt(1 - agreement**2) * other)
    counts = rng.integers(4, 5 + uneven, number * cells)
    terms, asked = (np.repeat(column.ravel(), counts) for column in np.indices((number, cells)))
    means = 1 / STYLES + moves[terms] + 0.03 * np.random.default_rng(9).normal(size=(cells, STYLES))[asked]
    statements = CueReplies(np.arange(len(terms)), means + 0.15 * rng.normal(size=means.shape), terms, asked)
    return CueReplies(-1 - np.arange(len(vectors)), vectors, *codes), list(groups.values()), statements


def mean_product(ones, others):
    """The mean over pairs of different vectors."""
    return np.mean([one @ other for one in ones for other in others if one is not other])


def test_the_value_is_that_of_loops_over_pairs_of_replies():
    names, groups, statements = both_runs(np.random.default_rng(0), 0.5, 0.2, (4, 5, 4), 2, 3, between=0.2)
    named, told = [[], [], []], {}
    for code, group in enumerate(groups):
        cells = [names.styles[(names.terms == code) & (names.cells == cell)].mean(axis=0) for cell in range(6)]
        named[int(group[-1])].append(np.mean(cells, axis=0))
    for group, cell in product(range(3), range(2)):
        told[group, cell] = list(statements.styles[(statements.terms == group) & (statements.cells == cell)])
    of_names = of_statements = of_both = 0.0
    for one, other in product(range(3), repeat=2):
        weight = (one == other) - 1 / 3
        of_names += weight * mean_product(named[one], named[other])
        for cell, second in product(range(2), repeat=2):
            of_statements += weight * mean_product(told[one, cell], told[other, second]) / 4
            of_both += weight * mean_product(named[one], told[other, second]) / 4
    found = group_agreement(names, groups, statements)
    assert found.value == pytest.approx(of_both / math.sqrt(of_names * of_statements))
    assert found.interval[0] < found.value < found.interval[1]


def outcome_of(truth, design, sets, seed):
    rng = np.random.default_rng(seed)
    agreements = [group_agreement(*both_runs(rng, truth, **design)) for _ in range(sets)]
    return outcome(agreements, [truth] * sets)


def test_intervals_hold_planted_agreements_and_no_bias_has_no_direction():
    for name in ("same", "opposite", "unrelated"):
        given, held, signed = outcome_of(*DESIGNS[name], 30, 1)
        assert given > 0.8
        assert held > 0.85
        assert signed > 0.9 or name == "unrelated"
    for design in NO_EFFECT.values():
        assert not outcome_of(0.0, design, 20, 2)[2] > 0.15


@pytest.mark.long
@pytest.mark.parametrize("name", [*DESIGNS, *NO_EFFECT])
def test_intervals_hold_the_truth_in_all_designs(name):
    truth, design = DESIGNS.get(name) or (0.0, NO_EFFECT[name])
    given, held, signed = outcome_of(truth, design, 500, 3)
    print(name, given, held, signed)
    assert signed < 0.06 if name in NO_EFFECT else held > 0.92


def test_few_groups_names_or_replies_have_no_verdict():
    names, groups, statements = both_runs(np.random.default_rng(5), 1.0, **STRONG, sizes=(3, 4))
    assert "needs at least 4 names" in group_agreement(names, groups, statements).reason
    assert "fewer than two groups" in group_agreement(names, ["group 0"] * 7, statements).reason
    names, groups, _ = both_runs(np.random.default_rng(5), 1.0, **STRONG)
    empty = CueReplies(*(column[:0] for column in statements))
    assert "two replies to each group" in group_agreement(names, groups, empty).reason
