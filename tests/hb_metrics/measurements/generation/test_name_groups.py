"""Bias between groups of names: against loops, and with names as draws of groups whose truth is known."""

import math
from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest

from hb_metrics.collect.classifiers.censoring import masked_texts, term_mentioned
from hb_metrics.layout.figure import Figure
from hb_metrics.measurements.generation.figures import names_figure
from hb_metrics.measurements.generation.name_groups import name_groups
from hb_metrics.measurements.generation.page import style_differs
from hb_metrics.run.replies import Replies
from tests.hb_metrics.stats.coverage import coverage

STYLES, QUESTIONS, REPLIES = 8, 6, 4
NULLS = {
    "even": {},
    "four names each": {"sizes": (4, 4)},
    "uneven": {"sizes": (5, 12)},
    "four groups": {"sizes": (6, 6, 6, 6)},
    "heavy tails": {"tails": "t"},
    "one direction": {"tails": "one"},
    "one style each": {"kind": "styles"},
    "names do not differ": {"within": 0.0},
    "two questions": {"questions": 2},
    "a few names vary more": {"sizes": (6, 18), "unlike": 2.0},
    "many names vary more": {"sizes": (18, 6), "unlike": 2.0},
    "few names vary most": {"sizes": (4, 8, 25), "unlike": 3.0},
    "few names vary most, heavy tails": {"sizes": (4, 8, 25), "unlike": 3.0, "tails": "t"},
}
DESIGNS = {
    "weak": {"between": 0.04},
    "strong": {"between": 0.08},
    "strong, four names each": {"between": 0.08, "sizes": (4, 4)},
    "many names": {"between": 0.03, "sizes": (40, 40), "tails": "one"},
    "four groups": {"between": 0.05, "sizes": (6, 6, 6, 6)},
    "one style each": {"between": 0.08, "kind": "styles"},
    "names do not differ": {"between": 0.05, "within": 0.0},
    "heavy tails": {"between": 0.1, "tails": "t", "sizes": (12, 12)},
    "groups of unlike spread": {"between": 0.06, "sizes": (6, 18), "unlike": 2.0},
    "few names vary most": {"between": 0.08, "sizes": (4, 8, 25), "unlike": 3.0},
    "few names vary most, strong": {"between": 0.2, "sizes": (4, 8, 25), "unlike": 3.0},
}


def directions(number, size, seed=5):
    """The moves [groups, styles] of groups that differ, the same in all sets."""
    moves = np.random.default_rng(seed).normal(size=(number, STYLES))
    moves -= moves.mean(axis=1, keepdims=True)
    moves -= moves.mean(axis=0)
    return moves * size / np.sqrt((moves**2).sum(axis=1).mean())


def draw(rng, sizes=(9, 9), between=0.0, within=0.04, tails="normal", kind="normal", questions=QUESTIONS, unlike=1.0):
    """Arguments of `name_groups` with names drawn of their groups, and the true value."""
    of_groups = directions(len(sizes), between)
    group_of = np.repeat(np.arange(len(sizes)), sizes)
    shape = len(group_of), STYLES
    moves = rng.standard_t(4, shape) / np.sqrt(2) if tails == "t" else rng.normal(size=shape)
    if tails == "one":
        moves = moves[:, :1] * (np.arange(STYLES) - (STYLES - 1) / 2) / 2
    moves -= moves.mean(axis=1, keepdims=True)
    moves *= np.where(group_of == 0, unlike, 1.0)[:, None]
    reactions = 0.03 * rng.normal(size=(len(group_of), questions, STYLES))
    reactions -= reactions.mean(axis=2, keepdims=True)
    means = 1 / STYLES + (of_groups[group_of] + within * moves)[:, None] + reactions
    names = np.repeat(np.arange(len(group_of)), questions * REPLIES)
    asked = np.tile(np.repeat(np.arange(questions), REPLIES), len(group_of))
    expected = means[names, asked]
    if kind == "styles":
        shares = np.maximum(expected, 1e-3)
        shares /= shares.sum(axis=1, keepdims=True)
        vectors = np.eye(STYLES)[(rng.random((len(names), 1)) > shares.cumsum(axis=1)[:, :-1]).sum(axis=1)]
    else:
        vectors = expected + 0.15 * rng.normal(size=expected.shape)
    groups = {f"name {row:02}": f"group {group}" for row, group in enumerate(group_of.tolist())}
    called = [f"name {row:02}" for row in names.tolist()]
    return (vectors, called, [f"question {row}" for row in asked.tolist()], groups), 1000 * between**2


def loop_value(vectors, names, questions, groups):
    """Half the mean squared distance between names of two groups, less that within groups, over pairs of questions."""
    named, asked = sorted(set(names)), sorted(set(questions))

    def mean(name, question):
        rows = [row for row, pair in enumerate(zip(names, questions, strict=True)) if pair == (name, question)]
        return vectors[rows].mean(axis=0)

    means = {(name, question): mean(name, question) for name in named for question in asked}

    def distance(one, other):
        apart = [means[one, question] - means[other, question] for question in asked]
        return np.mean([first @ second for first, second in permutations(apart, 2)])

    members = {group: [name for name in named if groups[name] == group] for group in sorted(set(groups.values()))}
    within = {group: np.mean([distance(*pair) for pair in permutations(of, 2)]) for group, of in members.items()}
    value = 0.0
    for one, other in permutations(members, 2):
        crossed = np.mean([distance(first, second) for first in members[one] for second in members[other]])
        value += (crossed - (within[one] + within[other]) / 2) / 2 / len(members) ** 2
    return 1000 * value, 1000 * np.mean(list(within.values())) / 2


@pytest.mark.parametrize("sizes", [(4, 5), (4, 6, 5)])
def test_the_value_is_that_of_loops(sizes):
    arguments, _ = draw(np.random.default_rng(0), sizes, between=0.08)
    keep = np.flatnonzero(np.random.default_rng(1).random(len(arguments[0])) < 0.8)  # uneven cells
    names, questions = ([column[row] for row in keep] for column in arguments[1:3])
    found = name_groups(arguments[0][keep], names, questions, arguments[3])
    assert (found.value, found.within) == pytest.approx(loop_value(arguments[0][keep], names, questions, arguments[3]))
    order = np.random.default_rng(2).permutation(len(names))
    shuffled = [[column[i] for i in order] for column in (names, questions)]
    again = name_groups(arguments[0][keep][order], *shuffled, arguments[3])
    assert again == found


def outcome(design, sets, seed):
    """The share of sets with p ≤ 5 %, and the coverage."""
    rng, results = np.random.default_rng(seed), []
    for _ in range(sets):
        arguments, truth = draw(rng, **design)
        results.append(name_groups(*arguments))
    values, intervals, p_values = zip(*((found.value, found.interval, found.p) for found in results), strict=True)
    return np.mean(np.array(p_values) <= 0.05), coverage(values, intervals, truth)


def test_a_difference_between_groups_is_found_and_no_other():
    significant, found = outcome(DESIGNS["strong"], 40, 3)
    assert significant > 0.9
    assert found.held > 0.85
    assert found.error < 4
    assert outcome(NULLS["even"], 60, 4)[0] < 0.15
    assert outcome(NULLS["few names vary most"], 200, 4)[0] < 0.09


@pytest.mark.long
@pytest.mark.parametrize("design", [*NULLS.values(), *DESIGNS.values()], ids=str)
def test_intervals_hold_the_truth_without_false_alarms(design):
    significant, covered = outcome(design, 1000, 5)
    print(design, significant, covered)
    assert "between" in design or significant <= 0.065
    assert covered.held > 0.92
    assert covered.error < 4


def test_single_names_that_differ_are_no_difference_between_groups():
    name = "Full Gen Bias, debiased"
    whole = {name: Figure(name, 5.0, "bias", interval=(4.0, 6.0))}
    assert style_differs(whole) == "yes"
    groups = name_groups(*draw(np.random.default_rng(0))[0])
    for p_value, differs in ((0.038, "no"), (0.037, "yes"), (None, "unknown")):
        assert style_differs(whole, replace(groups, p=p_value)) == differs


def test_questions_that_lack_a_reply_to_a_name_are_counted():
    (vectors, names, questions, groups), _ = draw(np.random.default_rng(6))
    kept = [row for row, of in enumerate(zip(names, questions, strict=True)) if of != ("name 03", "question 2")]
    found = name_groups(vectors[kept], *([column[row] for row in kept] for column in (names, questions)), groups)
    assert (found.num_questions, found.num_left_out) == (5, 1)
    assert "; 1 of 6 questions left out" in names_figure(found).detail


def test_few_names_have_no_verdict():
    arguments, _ = draw(np.random.default_rng(6), (3, 9))
    found = name_groups(*arguments)
    assert found.value is found.p is None
    assert found.reason == "each group needs at least 4 names with replies (group 0 3)"
    arguments, _ = draw(np.random.default_rng(6), questions=1)
    assert "fewer than two questions" in name_groups(*arguments).reason
    (vectors, *rest), _ = draw(np.random.default_rng(6))
    assert "the same mean" in name_groups(np.full_like(vectors, 0.125), *rest).reason


@pytest.mark.parametrize("sizes", [(4, 4), (4, 5), (4, 4, 4)])
def test_groups_without_spread_have_a_value_and_the_p_value_of_all_permutations(sizes):
    (_, names, questions, groups), _ = draw(np.random.default_rng(6), sizes)
    group_of = np.array([int(groups[name].removeprefix("group ")) for name in names])
    arguments = np.eye(STYLES)[group_of], names, questions, groups
    found = name_groups(*arguments)
    assert (found.value, found.within) == pytest.approx(loop_value(*arguments))
    assert found.interval is None
    assert "spread of other names is unknown" in found.reason
    codes = [row for row, size in enumerate(sizes) for _ in range(size)]
    ways = math.factorial(len(codes)) / math.prod(map(math.factorial, sizes))
    pure = math.prod(math.factorial(sizes.count(size)) for size in set(sizes))  # assignments without spread in a group
    assert found.p >= pure / ways - 1e-9
    assert found.p == pytest.approx(math.factorial(len(sizes)) / ways)
    assert "p = " in names_figure(found).detail or "p < 0.001" in names_figure(found).detail


@pytest.mark.parametrize(
    ("name", "reply", "masked"),
    [
        ("Jay", "Hi Jay, jay, Jay's, JAY and Jaybird!", "Hi Alex, jay, Alex's, Alex and Jaybird!"),
        ("Alex", "Alexandra", None),
        ("Alex", "Hi Alex!", "Hi Alex!"),  # the name for all
        ("Jean-Luc", "Jean Luc, or Jean", "Alex, or Alex"),
        ("Ann van Lee", "Ann, Ms. Lee: Ann van Lee has a van", "Alex, Ms. Alex: Alex has a van"),
        ("Zoë", "Zoë, ZOË, Zoe\u0308, Zoe, zoë, Zoëlle", "Alex, Alex, Alex, Zoe, zoë, Zoëlle"),
        ("Norman", "NORMAN, Normans, NORMANS’, norman, Norma", "Alex, Alex, Alex’, norman, Norma"),
        ("DeShawn", "DESHAWN, Deshawn, deshawn, Shawn", "Alex, Alex, deshawn, Shawn"),
        ("Mary Ann", "MARY, Ann; Mary\xa0Ann; mary, an", "Alex, Alex; Alex; mary, an"),
    ],
)
def test_names_are_masked_as_whole_words_in_their_case(name, reply, masked):
    replies = Replies(["a"], ["names"], [name], ["t"], ["p"], [reply])
    assert masked_texts(replies, {}) == [reply if masked is None else masked]
    assert term_mentioned(replies, {}).tolist() == [masked is not None]
