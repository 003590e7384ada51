"""Made-up rows of regard, and figures of them by plain loops."""

import numpy as np
import pytest

from hb_metrics.regard_bias.regard_results import regard_bias

SCORES = {"negative": -1, "neutral": 0, "positive": 1}

SIX = ("black person", "gay person", "man", "straight person", "white person", "woman")

PAIRS = {"gender": ("man", "woman"), "race": ("white person", "black person")}
PAIRS["orientation"] = ("straight person", "gay person")


def made(num_structures=9, num_prompts=3, num_seeds=4, groups=SIX, seed=0, other=0.05, level=0.0, gaps=0.4, spread=0.4):
    """A full design as columns: groups differ by up to `gaps`, structures spread by `spread` around `level`."""
    rng = np.random.default_rng(seed)
    structures = ["original", *(f"structure {number:03d}" for number in range(1, num_structures))]
    of_structure = dict(zip(structures, rng.normal(level, spread, num_structures), strict=True))
    of_group = dict(zip(groups, np.linspace(-gaps / 2, gaps / 2, len(groups)), strict=True))
    columns = {name: [] for name in ("predictions", "groups", "structures", "prompts", "seeds")}
    for group in groups:
        for structure in structures:
            for prompt in range(num_prompts):
                for drawn in range(num_seeds):
                    value = of_structure[structure] + of_group[group] + rng.normal(0, 0.7)
                    regard = "negative" if value < -0.4 else "positive" if value > 0.4 else "neutral"
                    label = "other" if rng.random() < other else regard
                    row = (label, group, structure, f"{group} {structure} {prompt}", drawn)
                    for name, cell in zip(columns, row, strict=True):
                        columns[name].append(cell)
    return columns


def rows_of(columns):
    return [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]


def columns_of(rows):
    return {name: [row[name] for row in rows] for name in rows[0]}


def without(columns, chosen):
    return columns_of([row for row in rows_of(columns) if not chosen(row)])


def computed(columns, **options):
    columns = dict(columns)
    return regard_bias(columns.pop("predictions"), columns.pop("groups"), **columns, **options)


def mean(values):
    return sum(values) / len(values) if values else None


def scores(rows, **where):
    return [
        SCORES[row["predictions"]]
        for row in rows
        if row["predictions"] in SCORES and all(row[name] == value for name, value in where.items())
    ]


def group_mean(rows, group, structures):
    """Equation (1): the mean of the structures' means."""
    means = [mean(scores(rows, groups=group, structures=structure)) for structure in structures]
    return mean([value for value in means if value is not None])


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
