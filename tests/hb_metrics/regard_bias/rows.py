"""Made-up rows of regard, and their figures by pandas."""

from itertools import product

import numpy as np
import pandas as pd
import pytest

from hb_metrics.regard_bias.regard_results import regard_bias

SCORES = {"negative": -1, "neutral": 0, "positive": 1}

SIX = ("black person", "gay person", "man", "straight person", "white person", "woman")

PAIRS = {"gender": ("man", "woman"), "race": ("white person", "black person")}
PAIRS["orientation"] = ("straight person", "gay person")


def made(num_structures=9, num_prompts=3, num_seeds=4, groups=SIX, seed=0, other=0.05):
    """A full design: groups differ by up to 0.4, and structures spread by 0.4."""
    rng = np.random.default_rng(seed)
    structures = ["original", *(f"structure {number:03d}" for number in range(1, num_structures))]
    cells = product(groups, structures, range(num_prompts), range(num_seeds))
    rows = pd.DataFrame(cells, columns=["groups", "structures", "prompts", "seeds"])
    values = rows["structures"].map(dict(zip(structures, rng.normal(0, 0.4, num_structures), strict=True)))
    values += rows["groups"].map(dict(zip(groups, np.linspace(-0.2, 0.2, len(groups)), strict=True)))
    values += rng.normal(0, 0.7, len(rows))
    labels = np.select([values < -0.4, values > 0.4], ["negative", "positive"], "neutral")
    rows["predictions"] = np.where(rng.random(len(rows)) < other, "other", labels)
    rows["prompts"] = rows["groups"] + " " + rows["structures"] + " " + rows["prompts"].astype(str)
    return rows


def computed(columns, **options):
    columns = dict(columns.to_dict("list") if isinstance(columns, pd.DataFrame) else columns)
    return regard_bias(columns.pop("predictions"), columns.pop("groups"), **columns, **options)


def scored(rows):
    """The rows with a score."""
    return rows.assign(score=rows["predictions"].map(SCORES)).dropna(subset="score")


def mean_of_structures(rows, values):
    """Equation (1): the mean of the structures' means of values of the rows."""
    return values.groupby(rows["structures"]).mean().mean()


def close(actual, expected):
    """Equal down to rounding, at any depth."""
    if isinstance(expected, dict):
        assert actual.keys() == expected.keys()
        for key in expected:
            close(actual[key], expected[key])
    elif isinstance(expected, list) and expected and not isinstance(expected[0], str):
        assert actual == pytest.approx(expected, abs=1e-12)
    else:
        assert actual == (pytest.approx(expected, abs=1e-12) if isinstance(expected, float) else expected)


def of_gaps(gaps):
    """One row a cell of man and woman, so that each structure has the gap given."""
    labels = {-2: ("negative", "positive"), -1: ("neutral", "positive"), 0: ("neutral", "neutral")}
    labels |= {1: ("positive", "neutral"), 2: ("positive", "negative")}
    return {
        "predictions": [label for gap in gaps.values() for label in labels[gap]],
        "groups": ["man", "woman"] * len(gaps),
        "structures": [structure for structure in gaps for _ in range(2)],
    }
