"""The agreement of directions under two cues, against loops over replies and against known truth."""

from itertools import product

import numpy as np
import pytest

from hb_metrics.measurements.generation.cue_agreement import NO_EFFECT_REASON, cue_agreement
from tests.hb_metrics.measurements.generation.cue_designs import DESIGNS, NO_EFFECT, Design, draw, outcome


def loop_product(one, other, terms):
    """Σ_d ⟨u_d of one, u_d of other⟩ / (D − 1), over pairs of replies to different prompts."""

    def of_two(term, second):
        total = 0.0
        for cell, second_cell in product(np.unique(one.cells), np.unique(other.cells)):
            rows = np.flatnonzero((one.terms == term) & (one.cells == cell))
            others = np.flatnonzero((other.terms == second) & (other.cells == second_cell))
            found = [one.styles[i] @ other.styles[j] for i in rows for j in others if one.ids[i] != other.ids[j]]
            total += np.mean(found)
        return total / len(np.unique(one.cells)) / len(np.unique(other.cells))

    every = np.array([[of_two(first, second) for second in range(terms)] for first in range(terms)])
    return (np.trace(every) - every.sum() / terms) / (terms - 1)


def agreement(drawn):
    return cue_agreement(*drawn.cues, drawn.axes, drawn.buckets)


def test_the_value_is_that_of_loops_over_pairs_of_prompts():
    drawn = draw(Design(0.6, size=0.15, terms=14, axes=3, cells=2, common=True), np.random.default_rng(0))
    one, other = drawn.cues
    shared, *own = (loop_product(a, b, 14) for a, b in ((one, other), (one, one), (other, other)))
    assert agreement(drawn).value == pytest.approx(shared / np.sqrt(own[0] * own[1]))


def test_luck_common_to_both_cues_is_no_agreement():
    """The second cue asks two questions where the first has one cell, and replies to a prompt have the same luck."""
    rng, values = np.random.default_rng(1), []
    for _ in range(200):
        drawn = draw(Design(0.0, size=0.1, cells=1, replies=(8, 8), terms=14, axes=2, common=True), rng)
        second = drawn.cues[1]._replace(cells=np.arange(len(drawn.cues[1].cells)) % 8 // 4)
        values.append(agreement(drawn._replace(cues=[drawn.cues[0], second])).value)
    error = np.std(values) / np.sqrt(len(values))
    assert abs(np.mean(values)) < 3 * error
    assert error < 0.1 * (0.15 / 0.1) ** 2 / 8  # a tenth of the agreement that luck alone would make


def test_few_terms_or_no_effect_have_a_reason():
    rng = np.random.default_rng(3)
    few = draw(Design(0.9, terms=10, axes=1, size=0.2), rng)
    assert agreement(few).reason.endswith("count as only 10 of at least 11 groups of similar terms on one axis")
    alike = draw(Design(0.9, terms=30, axes=1, size=0.2, synonyms=3), rng)
    assert "30 terms" in agreement(alike).reason
    empty = [cue._replace(**{name: column[:0] for name, column in cue._asdict().items()}) for cue in few.cues]
    none = few._replace(cues=empty)
    assert agreement(none._replace(axes=few.axes[:0], buckets=few.buckets[:0])).reason.startswith("0 terms")
    many = draw(Design(0.9, terms=30), rng)
    equal = many.cues[0]._replace(styles=np.full_like(many.cues[0].styles, 0.125))
    assert agreement(many._replace(cues=[equal, equal])).reason == NO_EFFECT_REASON


def outcome_of(design, sets, seed):
    rng = np.random.default_rng(seed)
    drawn = [draw(design, rng) for _ in range(sets)]
    return outcome(map(agreement, drawn), [one.agreement for one in drawn])


@pytest.mark.parametrize("name", ["half", "one style each, common luck", "weak", "threes of near-synonyms"])
def test_intervals_hold_the_truth(name):
    given, held, _ = outcome_of(DESIGNS[name], 60, 4)
    assert given > 0.8
    assert held > 0.85


def test_no_effect_has_no_direction():
    assert outcome_of(NO_EFFECT["no effect, one style each, common luck"], 60, 5)[2] < 0.1


@pytest.mark.long
@pytest.mark.parametrize("name", [*DESIGNS, *NO_EFFECT])
def test_intervals_hold_the_truth_in_all_designs(name):
    given, held, signed = outcome_of((DESIGNS | NO_EFFECT)[name], 500, 6)
    print(name, f"{given:.2f} {held:.3f} {signed:.3f}")
    assert signed < 0.05 if name in NO_EFFECT else held > 0.92
