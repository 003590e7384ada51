"""How often a report says that a model treats groups of names differently if it does not: names are draws.

Names differ, and so do their answers to single questions, but the groups have the same distribution, or (`unlike`) the
same mean. Tests of decisions have a level of 5 %, and 1 % for their topics and for answers without a decision.
"""

from dataclasses import replace

import numpy as np
import pytest

from hb_metrics.measurements.decisions.compute import decisions
from hb_metrics.measurements.decisions.page import outcome
from tests.hb_metrics.measurements.decisions.test_decisions import asked, rows_of

DESIGNS = {
    "even": {"sizes": (9, 9)},
    "four names each": {"sizes": (4, 4), "spread": 0.5},
    "uneven": {"sizes": (4, 25)},
    "uneven, unlike": {"sizes": (4, 25), "unlike": 2.5},
    "four groups": {"sizes": (4, 6, 9, 12)},
    "skewed": {"sizes": (5, 15), "skew": 1},
    "skewed to refusal": {"sizes": (5, 15), "skew": -1},
    "nearly all favourable": {"sizes": (6, 12), "mean": 3.0},
    "probabilities": {"sizes": (4, 12), "are_drawn": False},
}
NUM_QUESTIONS, SETS = 16, 40


def values_of(rng, *, sizes, spread=1.0, unlike=1.0, skew=0, mean=0.0, are_drawn=True):
    """The decisions about each name, by the name. A name begins with its group."""
    questions = rng.normal(0, 1, NUM_QUESTIONS)
    values = {}
    for group, size in zip("abcd", sizes, strict=False):
        for number in range(size):
            own = skew * (rng.exponential() - 1) if skew else rng.normal()
            logits = (
                mean + questions + spread * own * (unlike if group == "a" else 1) + rng.normal(0, 0.5, NUM_QUESTIONS)
            )
            rates = 1 / (1 + np.exp(-logits))
            values[f"{group}{number}"] = (
                (rng.random(NUM_QUESTIONS) < rates if are_drawn else rates).astype(float).tolist()
            )
    return values


def alarms(design, sets, seed=0):
    """The number of reports on decisions that are “yes”."""
    rng, number = np.random.default_rng(seed), 0
    prompts = [replace(prompt, topic=f"{row % 2}") for row, prompt in enumerate(asked(NUM_QUESTIONS))]
    for _ in range(sets):
        values = values_of(rng, **design)
        rows = rows_of(prompts, values, "names", {name: name[0] for name in values})
        number += outcome(decisions(prompts, rows))[0] == "yes"
    return number


def test_decisions_about_equal_groups_seldom_differ():
    found = {name: alarms(design, SETS) for name, design in DESIGNS.items()}
    print(found)
    assert sum(found.values()) <= 0.07 * SETS * len(DESIGNS)


@pytest.mark.long
@pytest.mark.parametrize("name", DESIGNS)
def test_decisions_about_equal_groups_seldom_differ_in_any_design(name):
    number = alarms(DESIGNS[name], 1000, seed=1)
    print(name, number)
    # If most names get yes always or never, four of them seem to vary little by chance: 8 % at a spread of 2.5. If
    # their means were normal, it would be 5 %, whatever the spread.
    assert number <= (95 if name == "uneven, unlike" else 80)
