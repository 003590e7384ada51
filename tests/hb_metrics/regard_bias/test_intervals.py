"""Intervals of regard: their formulas against scipy and loops, why there is none, and simulations with known truth."""

import math

import numpy as np
import pytest
from scipy import stats

from hb_metrics.regard_bias import intervals
from hb_metrics.regard_bias.regard_results import regard_bias
from hb_metrics.regard_bias.regard_rows import Pair
from tests.hb_metrics.regard_bias.interval_designs import DESIGNS, SMALL, simulate
from tests.hb_metrics.regard_bias.rows import SCORES
from tests.hb_metrics.regard_bias.rows import made as made_columns

PAIR = {"gender": ("man", "woman")}
LABELS = {score: label for label, score in SCORES.items()}


def made(num_structures=12, num_seeds=10, num_prompts=3, seed=0, kept=1.0):
    """Rows of man and woman, [(group, structure, prompt, seed, score)]; of a design that is whole where `kept` is 1."""
    columns = made_columns(num_structures, num_prompts, num_seeds, tuple(PAIR["gender"]), seed, other=0)
    is_kept = np.random.default_rng(seed).random(len(columns["seeds"])) < kept
    rows = zip(*(columns[name] for name in ("groups", "structures", "prompts", "seeds", "predictions")), strict=True)
    return [
        (group, structure, prompt[-1], drawn, SCORES[label])
        for (group, structure, prompt, drawn, label), keep in zip(rows, is_kept, strict=True)
        if keep
    ]


def computed(rows, **options):
    groups, structures, prompts, seeds, scores = (list(column) for column in zip(*rows, strict=True))
    labels = [LABELS[score] for score in scores]
    return regard_bias(labels, groups, structures=structures, prompts=prompts, seeds=seeds, pairs=PAIR, **options)


def group_mean(rows, group):
    """Every structure has the same weight."""
    cells = {}
    for of, structure, *_, score in rows:
        if of == group:
            cells.setdefault(structure, []).append(score)
    return np.mean([np.mean(cell) for cell in cells.values()])


def test_over_structures_it_is_that_of_the_paired_t_test():
    rows = made(seed=1)
    structures = sorted({row[1] for row in rows})
    means = {
        group: [group_mean([row for row in rows if row[1] == one], group) for one in structures]
        for group in ("man", "woman")
    }

    results = computed(rows, confidence_level=0.9)

    expected = stats.ttest_rel(means["man"], means["woman"]).confidence_interval(0.9)
    assert results["gaps"]["gender"]["interval_structures"] == pytest.approx(list(expected))
    expected = stats.ttest_1samp(means["man"], 0).confidence_interval(0.9)
    assert results["by_group"]["man"]["interval_structures"] == pytest.approx(list(expected))
    assert results["gaps"]["gender"]["no_interval"] == {}


def test_over_seeds_of_a_whole_design_it_is_that_of_the_seeds_means():
    rows = made(seed=2)
    means = {
        group: [group_mean([row for row in rows if row[3] == one], group) for one in range(10)]
        for group in ("man", "woman")
    }

    results = computed(rows)

    expected = stats.ttest_rel(means["man"], means["woman"]).confidence_interval(0.95)
    assert results["gaps"]["gender"]["interval_seeds"] == pytest.approx(list(expected))
    expected = stats.ttest_1samp(means["woman"], 0).confidence_interval(0.95)
    assert results["by_group"]["woman"]["interval_seeds"] == pytest.approx(list(expected))


def test_prompts_that_name_the_group_are_compared_as_two_samples():
    rows = [
        (group, structure, group + prompt + str(drawn), drawn, score)
        for group, structure, prompt, drawn, score in made(num_structures=1, num_seeds=6, num_prompts=5, seed=3)
    ]
    # As many texts of each prompt, but fewer prompts of one group.
    rows = [(*row[:4], score) for row in rows for score in (row[4], 0)]
    rows = [row for row in rows if row[0] == "man" or row[3] < 3]
    means = {}
    for group in ("man", "woman"):
        prompts = sorted({row[2] for row in rows if row[0] == group})
        means[group] = [np.mean([row[4] for row in rows if row[2] == prompt]) for prompt in prompts]
    assert (len(means["man"]), len(means["woman"])) == (30, 15)

    results = computed(rows)["fixed"]["gaps"]["gender"]

    expected = stats.ttest_ind(means["man"], means["woman"], equal_var=False).confidence_interval(0.95)
    assert results["interval_prompts"] == pytest.approx(list(expected))


def test_degrees_of_freedom_where_groups_share_some_units_are_those_of_the_matrices():
    generator = np.random.default_rng(4)
    first = intervals.Parts(np.arange(12), generator.normal(0, 1, 12), 0.0)
    second = intervals.Parts(np.arange(5, 14), generator.normal(0, 2, 9), 0.0)
    total = np.zeros((14, 14))
    for parts in (first, second):
        size = len(parts.units)
        projection = (np.eye(size) - 1 / size) * np.square(parts.values).sum() / (size - 1)
        total[np.ix_(parts.units, parts.units)] += projection

    assert intervals._gap_freedom(first, second) == pytest.approx(np.trace(total) ** 2 / np.trace(total @ total))
    assert intervals._gap_freedom(first, first) == pytest.approx(11)


def test_over_seeds_of_a_sparse_design_it_is_that_of_a_loop():
    rows = made(num_structures=8, num_prompts=1, seed=5, kept=0.5)
    lone = ("man", "lone", "p0", 3, 1)  # a structure of which a single text says nothing of seeds
    rows.append(lone)
    cells = {}
    for group, structure, _, drawn, score in rows:
        if group == "man":
            cells.setdefault(structure, []).append((drawn, score))
    parts, seen, every = np.zeros(10), 0.0, 0.0
    for texts in cells.values():
        mean, size = np.mean([score for _, score in texts]), len(texts)
        every += 1 / size
        seen += 1 / size if size > 1 else 0
        for drawn, score in texts:
            parts[drawn] += (score - mean) / size / len(cells) / math.sqrt(1 - 1 / size) if size > 1 else 0
    error = math.sqrt(np.square(parts).sum() * every / seen)

    results = computed(rows)["by_group"]["man"]

    half = stats.t.ppf(0.975, 9) * error
    assert results["interval_seeds"] == pytest.approx([results["mean"] - half, results["mean"] + half])


def test_an_interval_stays_within_what_regard_can_be():
    rows = [
        (group, f"s{number}", "p", number, sign * score)
        for number in range(8)
        for group, sign in (("man", 1), ("woman", -1))
        for score in ([1] * 6 if number % 2 else [1, 1, 1, 0, 0, 0])
    ]

    results = computed(rows, confidence_level=0.9999999)

    assert results["by_group"]["man"]["interval_structures"][1] == 1
    assert results["by_group"]["woman"]["interval_structures"][0] == -1


def structures_of(*means_of_man, texts=20):
    """Structures with these means of man, and of woman 0."""
    rows = []
    for number, mean in enumerate(means_of_man):
        positive = round(texts * (1 + mean) / 2)
        scores = [1] * positive + [-1] * (texts - positive)
        rows += [("man", f"s{number}", "p", 0, score) for score in scores]
        rows += [("woman", f"s{number}", "p", 0, 0)] * texts
    return rows


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        (structures_of(0.1, 0.2, 0.3, 0.4), "only 4 structures, and an interval needs at least 5"),
        (structures_of(0.5), "only 1 structure, and an interval needs at least 5"),
        (structures_of(*[0.5] * 7), "all 7 structures have the same figure"),
        (structures_of(*[0.0] * 19, 1.0), "a few of the 20 structures account for most of the variation; pass more"),
        (structures_of(1, 1, -1, -1, 1, -1, texts=1), "a single text has too much influence"),
    ],
)
def test_without_an_interval_there_is_a_reason_and_no_verdict(rows, reason):
    results = computed(rows)

    assert results["gaps"]["gender"]["interval_structures"] is None
    assert reason in results["gaps"]["gender"]["no_interval"]["structures"]
    assert results["verdicts"]["gender"]["structured"] is results["verdicts"]["gender"]["survives"] is None
    assert reason in results["verdicts"]["gender"]["no_verdict"]["structured"]
    assert results["verdicts"]["gender"]["no_verdict"]["fixed"] == "no text has the structure 'original'"


def test_one_text_of_a_structure_is_no_reason_where_others_tell_of_seeds():
    few = made(num_structures=6, num_prompts=1, seed=6)
    mostly_single = [row for row in few if row[1] == "original" or row[3] == int(row[1][-3:])]

    assert computed(few)["gaps"]["gender"]["interval_seeds"] is not None
    results = computed(mostly_single)["gaps"]["gender"]
    assert results["no_interval"]["seeds"] == "too many structures have texts from only one seed"


def test_seeds_that_are_too_few_leave_the_fixed_structure_to_prompts():
    rows = made(num_structures=6, num_seeds=4, num_prompts=8, seed=7)
    few, enough = computed(rows), computed(made(num_structures=6, num_seeds=5, num_prompts=8, seed=7))

    assert few["verdict_over"] == {"fixed": "prompts", "structured": "structures"}
    assert few["fixed"]["gaps"]["gender"]["no_interval"]["seeds"] == "only 4 seeds, and an interval needs at least 5"
    assert few["fixed"]["gaps"]["gender"]["interval_prompts"] is not None
    assert few["verdicts"]["gender"]["fixed"] is not None
    assert enough["verdict_over"]["fixed"] == "seeds"


def test_a_gap_needs_enough_units_of_both_groups():
    sizes = [intervals.Parts(np.arange(size), np.tile([0.1, -0.1], size)[:size], 0.001) for size in (8, 4)]
    spread = intervals.UnitSpread("seeds", sizes, 0.95)

    assert spread.of_mean(0.0, 0).bounds is not None
    assert spread.of_gap(0.0, Pair(0, 1)).reason == "only 4 seeds, and an interval needs at least 5"


@pytest.mark.parametrize("name", SMALL)
def test_intervals_hold_the_truth_as_often_as_they_say_in_small_designs(name):
    check(name, 120)


@pytest.mark.long
@pytest.mark.parametrize("name", DESIGNS)
def test_intervals_hold_the_truth_as_often_as_they_say(name):
    check(name, 2000)


def check(name, sets):
    """An interval holds the truth in 93 to 97 % at a width within 15 % of the ideal, or there is none, for a reason."""
    design = DESIGNS[name]
    results = simulate(design, sets)

    chance = 0.0 if sets >= 2000 else 0.05  # in the simulation itself
    assert results.missed <= 0.07 + chance
    assert (results.given == 1) == (not results.reasons)
    if design.given == "never":
        assert results.given < 0.02
    elif design.given == "seldom":
        assert results.given < 0.5
    else:
        assert results.given > -chance + (0.95 if design.units >= 20 else 0.85 if design.units > 6 else 0.75)
        assert 0.93 - chance <= results.coverage <= 0.97 + chance
        assert 0.85 - 3 * chance <= results.width <= 1.15 + 3 * chance
