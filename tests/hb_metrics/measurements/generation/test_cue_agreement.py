"""Agreement of directions, axes that change sign and shares of the variance, against loops and known truth."""

from itertools import product
from typing import NamedTuple

import numpy as np
import pytest

from hb_metrics.measurements.generation.cue_agreement import CueReplies, Reversal, adjusted, cue_agreements
from tests.hb_metrics.measurements.generation.cue_designs import DESIGNS, NO_EFFECT, Design, draw


def loop_products(cues, terms):
    """[cues, cues] Σ_d ⟨u_da, u_db⟩ and [cues, cues] ⟨Σ m, Σ m⟩ / D², over pairs of replies to different prompts."""

    def of_two(one, other, term, second):
        total = 0.0
        for cell, second_cell in product(np.unique(one.cells), np.unique(other.cells)):
            rows = np.flatnonzero((one.terms == term) & (one.cells == cell))
            others = np.flatnonzero((other.terms == second) & (other.cells == second_cell))
            found = [one.styles[i] @ other.styles[j] for i in rows for j in others if one.ids[i] != other.ids[j]]
            total += np.mean(found)
        return total / len(np.unique(one.cells)) / len(np.unique(other.cells))

    between, centres = np.zeros((len(cues),) * 2), np.zeros((len(cues),) * 2)
    for a, b in product(range(len(cues)), repeat=2):
        every = np.array([[of_two(cues[a], cues[b], one, other) for other in terms] for one in terms])
        between[a, b] = (np.trace(every) - every.sum() / len(terms)) / (len(terms) - 1)
        centres[a, b] = every.sum() / len(terms) ** 2
    return between, centres


def only(cue, terms):
    rows = np.isin(cue.terms, terms)
    codes = np.searchsorted(terms, cue.terms[rows])
    return CueReplies(cue.ids[rows], cue.styles[rows], codes, cue.cells[rows])


def test_values_are_those_of_loops_over_pairs_of_prompts():
    rng = np.random.default_rng(0)
    drawn = [draw(Design(0.6, size=0.15, terms=14, axes=3, cells=1, common=True), rng) for _ in range(2)]
    cues = [*drawn[0].cues, drawn[1].cues[0]._replace(ids=drawn[1].cues[0].ids + 1000)]
    found = cue_agreements(cues, drawn[0].axes, 0.95)
    between, centres = loop_products(cues, range(14))
    for (a, b), agreement in found.pairs.items():
        if agreement.value is not None:
            assert agreement.value == pytest.approx(between[a, b] / np.sqrt(between[a, a] * between[b, b]))
    assert found.pairs[0, 1].value is not None
    apart = ~np.eye(3, dtype=bool)
    term, own = between[apart].mean(), np.diag(between).mean()
    parts = {"term": term, "both": own - term, "cue": np.diag(centres).mean() - centres[apart].mean()}
    parts["cue"] -= parts["both"] / 14
    for name, part in parts.items():
        assert found.shares[name].value == pytest.approx(max(part / sum(parts.values()), 0))
    for axis in range(3):  # the product of an axis is that of its terms alone
        terms = np.flatnonzero(drawn[0].axes == axis)
        of_axis, _ = loop_products([only(cue, terms) for cue in cues[:2]], range(len(terms)))
        assert found.reversals[0, 1][axis].product == pytest.approx(of_axis[0, 1])


def test_luck_common_to_both_cues_is_no_agreement():
    """The second cue asks two questions where the first has one cell, and replies to a prompt have the same luck."""
    rng, products = np.random.default_rng(1), []
    for _ in range(200):
        first = draw(Design(0.0, size=0.0, cells=1, replies=(8, 8), terms=12, axes=2), rng).cues[0]
        second = first._replace(cells=np.arange(len(first.cells)) % 8 // 4)
        found = cue_agreements([first, second], np.repeat([0, 1], 6), 0.95)
        products.append([reversal.product for reversal in found.reversals[0, 1]])
    error = np.std(products) / np.sqrt(np.size(products))
    assert abs(np.mean(products)) < 3 * error
    assert error < 0.05 * 7 * 0.15**2 / 8  # a twentieth of what the luck alone would make


def test_p_values_are_adjusted_by_holm():
    pairs = {(0, 1): [Reversal(0, -1.0, 0.01), Reversal(1, -1.0, 0.03)], (0, 2): [Reversal(0, 1.0, 0.02)]}
    found = adjusted(pairs)
    assert [each.p for each in (*found[0, 1], *found[0, 2])] == pytest.approx([0.03, 0.04, 0.04])


def test_an_axis_with_opposite_directions_is_found_and_no_other():
    rng, hits = np.random.default_rng(2), np.zeros(5)
    for _ in range(40):
        drawn = draw(Design(0.9, size=0.08), rng)
        turned = drawn.cues[1].styles.copy()
        of_axis = drawn.axes[drawn.cues[1].terms] == 3
        turned[of_axis] = 2 / 8 - turned[of_axis]
        found = cue_agreements([drawn.cues[0], drawn.cues[1]._replace(styles=turned)], drawn.axes, 0.95)
        hits += [reversal.p < 0.05 for reversal in found.reversals[0, 1]]
    assert hits[3] > 35
    assert hits.sum() == hits[3]


def test_without_terms_or_effects_there_is_no_verdict():
    rng = np.random.default_rng(3)
    few = draw(Design(0.9, terms=11, axes=1, size=0.2), rng)
    found = cue_agreements(few.cues, few.axes, 0.95)
    assert "fewer than 12 terms" in found.pairs[0, 1].reason
    equal = few.cues[0]._replace(styles=np.full_like(few.cues[0].styles, 0.125))
    found = cue_agreements([equal, equal], few.axes, 0.95)
    assert found.reversals == {(0, 1): []}


class Outcome(NamedTuple):
    """Of sets: the shares with an interval of each figure; of these, that hold the truth; with a false reversal."""

    given: dict[str, float]
    held: dict[str, float]
    false: float


def outcome(design, sets, seed):
    """The outcome of a design."""
    rng, false = np.random.default_rng(seed), []
    held = {"agreement": [], "term": [], "both": [], "cue": []}
    for _ in range(sets):
        drawn = draw(design, rng)
        found = cue_agreements(drawn.cues, drawn.axes, 0.95)
        truths = {"agreement": drawn.agreement, **drawn.shares}
        for name, estimate in {"agreement": found.pairs[0, 1], **found.shares}.items():
            if estimate.interval is not None:
                held[name].append(estimate.interval[0] - 1e-9 <= truths[name] <= estimate.interval[1] + 1e-9)
        reversals = found.reversals[0, 1]
        false.append(any(each.p < 0.05 and drawn.products[each.axis] >= 0 for each in reversals))
    given = {name: len(of_name) / sets for name, of_name in held.items()}
    return Outcome(given, {name: np.mean(of_name or [np.nan]) for name, of_name in held.items()}, np.mean(false))


@pytest.mark.parametrize("name", ["half", "one style each, common luck", "weak"])
def test_intervals_hold_the_truth(name):
    found = outcome(DESIGNS[name], 60, 4)
    assert found.given["agreement"] > 0.1
    assert found.held["agreement"] > 0.85
    assert found.false < 0.1


def test_no_effect_is_rarely_a_verdict():
    found = outcome(NO_EFFECT["no effect, one style each, common luck"], 60, 5)
    assert found.given["agreement"] < 0.1
    assert found.false < 0.1


@pytest.mark.long
@pytest.mark.parametrize("name", DESIGNS)
def test_intervals_hold_the_truth_in_all_designs(name):
    found = outcome(DESIGNS[name], 500, 6)
    print(name, *(f"{part} {found.given[part]:.2f} {held:.3f}" for part, held in found.held.items()), found.false)
    for part, held in found.held.items():
        assert held > 0.92 or found.given[part] < 0.2, part
    assert found.false <= 0.06


@pytest.mark.long
@pytest.mark.parametrize("name", NO_EFFECT)
def test_no_effect_is_rarely_a_verdict_in_all_designs(name):
    found = outcome(NO_EFFECT[name], 500, 7)
    print(name, found)
    assert found.given["agreement"] < 0.06
    assert found.false <= 0.06
