"""Simulated texts with known regard, for the intervals of regard: the designs, and what an interval is held to.

A design draws the shares of negative, neutral and positive texts of each unit (structure, seed or prompt) and the
texts of each unit. The mean of the shares is known, and so is the truth.
"""

from typing import NamedTuple

import numpy as np
from scipy.stats import t as student

from hb_metrics.regard_bias.regard_results import regard_bias
from tests.hb_metrics.stats.coverage import Coverage, coverage

LABELS = np.array(["negative", "neutral", "positive"])
PAIR = {"pair": ("first", "second")}
FLAT = (1 / 3, 1 / 3, 1 / 3)


class Design(NamedTuple):
    """What is simulated.

    Attributes:
        over: What the interval is over: structures, seeds or prompts.
        units: How many, of each group.
        texts: Least and greatest number of texts of a unit and a group (of seeds: in each structure).
        first, second: Mean shares of labels of the two groups.
        spread: How much each group's shares differ from unit to unit: 0 not at all, to 1.
        shared: How much of that is the same for both groups, if they share units.
        apart: Whether each group has units of its own.
        missing: Share of units that each group lacks.
        structures: How many, where the interval is over seeds.
        figure: gap or mean (of the first group).
        given: always, seldom or never: whether there is an interval; skewed: always, but nearly all texts are alike.
    """

    over: str
    units: int
    texts: tuple[int, int]
    first: tuple[float, float, float] = FLAT
    second: tuple[float, float, float] = FLAT
    spread: tuple[float, float] = (0.0, 0.0)
    shared: float = 0.0
    apart: bool = False
    missing: tuple[float, float] = (0.0, 0.0)
    structures: int = 1
    figure: str = "gap"
    given: str = "always"


HIGH, LOW = (0.2, 0.3, 0.5), (0.4, 0.3, 0.3)
RARE, RARER = (0.0, 0.9, 0.1), (0.0, 0.97, 0.03)
COIN = (0.5, 0.0, 0.5)
# In the ordinary tests: the default's ten seeds, five, two, and a hundred structures of few texts.
SMALL = {
    "10 seeds": Design("seeds", 10, (5, 5)),
    "5 seeds": Design("seeds", 5, (10, 10), HIGH, LOW, (0.1, 0.1)),
    "2 seeds": Design("seeds", 2, (10, 10), given="never"),
    "12 structures": Design("structures", 12, (3, 6), spread=(0.3, 0.1), shared=0.5),
}
DESIGNS = SMALL | {
    # Units from few to many; no effect to a large one.
    "5 structures": Design("structures", 5, (30, 30), spread=(0.2, 0.2)),
    "30 structures, large effect": Design("structures", 30, (6, 6), (0.05, 0.15, 0.8), (0.8, 0.15, 0.05)),
    "100 structures, effect": Design("structures", 100, (6, 6), HIGH, LOW, (0.2, 0.2), 0.5),
    # Unequal counts, unequal spread, missing units.
    "10 structures of 1 to 40 texts": Design("structures", 10, (1, 40), HIGH, LOW),
    "20 structures, a third missing": Design("structures", 20, (6, 6), HIGH, LOW, (0.3, 0.3), 0.8, missing=(0, 0.33)),
    "100 structures, most missing": Design("structures", 100, (6, 6), spread=(0.5, 0.5), shared=0.8, missing=(0, 0.8)),
    # Scores of two values, one text a unit, near-constant and skewed ones.
    "100 structures of one coin": Design("structures", 100, (1, 1), (0.4, 0, 0.6), (0.6, 0, 0.4)),
    "5 structures of one coin": Design("structures", 5, (1, 1), COIN, COIN, given="skewed"),
    "20 structures, nearly constant": Design("structures", 20, (3, 3), RARER, RARER, given="skewed"),
    "100 structures, rare in one": Design("structures", 100, (6, 6), RARE, RARER),
    "10 structures, all skewed mean": Design(
        "structures", 10, (50, 50), RARE, spread=(0.6, 0.6), figure="mean", given="skewed"
    ),
    "10 structures, all alike": Design("structures", 10, (6, 6), (0, 1, 0), (0, 1, 0), given="never"),
    # Seeds: of one structure and of many, with and without what seeds have in common, whole and sparse.
    "10 seeds, mean": Design("seeds", 10, (10, 10), HIGH, LOW, (0.1, 0.1), figure="mean"),
    "10 seeds, unlike in counts": Design("seeds", 10, (1, 20), HIGH, LOW),
    "10 seeds of each group": Design("seeds", 10, (10, 10), HIGH, LOW, apart=True),
    "6 seeds of each group, one spread": Design("seeds", 6, (20, 20), spread=(0.5, 0.05), apart=True),
    "20 seeds of one text": Design("seeds", 20, (1, 1)),
    "10 seeds in 20 structures, spread": Design("seeds", 10, (1, 1), spread=(0.2, 0.2), shared=0.5, structures=20),
    "10 seeds in 30 structures, sparse, spread": Design("seeds", 10, (0, 1), HIGH, LOW, (0.1, 0.1), 0.5, structures=30),
    "10 seeds in 30 structures, most empty": Design("seeds", 10, (-2, 1), HIGH, LOW, structures=30, given="seldom"),
    # Prompts: shared verb phrases, and prompts that name the group.
    "10 prompts": Design("prompts", 10, (10, 10), HIGH, LOW, (0.3, 0.3), 0.5),
    "10 prompts of each group": Design("prompts", 10, (10, 10), spread=(0.3, 0.3), apart=True),
    "30 prompts of each group, few texts": Design("prompts", 30, (1, 3), HIGH, LOW, (0.3, 0.6), apart=True),
}


def simulate(design: Design, sets: int, seed: int = 0) -> tuple[Coverage, set[str]]:
    """Simulates sets of texts. Returns what their intervals did, and the reasons why there were none.

    The width is in parts of that of an ideal t-interval.
    """
    generator = np.random.default_rng(seed)
    values, bounds, means, reasons, truths = [], [], [], set(), []
    for _ in range(sets):
        columns, truth = draw(design, generator)
        results = regard_bias(columns.pop("predictions"), columns.pop("groups"), **columns, pairs=PAIR)
        if design.over == "prompts":
            results = results["fixed"]
        figures = results["gaps"]["pair"] if design.figure == "gap" else results["by_group"]["first"]
        bounds.append(figures[f"interval_{design.over}"])
        assert (bounds[-1] is None) == (design.over in figures["no_interval"])
        if bounds[-1] is None:
            reasons.add(figures["no_interval"][design.over])
        values.append(figures["gap" if design.figure == "gap" else "mean"])
        means.append([figures["mean"] for figures in results["by_group"].values()])
        truths.append(truth)
    found = coverage(values, bounds, truths)
    ideal = 2 * student.ppf(0.975, _freedom(design, np.array(means))) / 3.92
    return found._replace(width=found.width / ideal), reasons


def draw(design: Design, generator: np.random.Generator) -> tuple[dict[str, list], float]:
    """One set of texts as columns of `regard_bias`, and the truth."""
    columns: dict[str, list] = {"predictions": [], "groups": [], "structures": [], "seeds": [], "prompts": []}
    # Several structures lean to one side or the other: they are what they are, and seeds are drawn.
    leans = 0.2 * np.sin(np.arange(design.structures)) if design.structures > 1 else [0.0]
    common = _shares(FLAT, max(design.spread), design.units, generator)
    means = []
    for group, mean, spread, missing in zip(
        ("first", "second"), (design.first, design.second), design.spread, design.missing, strict=True
    ):
        shares = (1 - design.shared) * _shares(mean, spread, design.units, generator) + design.shared * common
        plain = (1 - design.shared) * (mean[2] - mean[0])
        means.append(np.mean([(1 - abs(lean)) * plain + lean for lean in leans]))
        absent = generator.permutation(design.units)[: round(missing * design.units)]
        for structure, lean in enumerate(leans):
            numbers = np.maximum(generator.integers(design.texts[0], design.texts[1] + 1, design.units), 0)
            numbers[absent] = 0
            if numbers.sum() == 0:  # a structure without texts would be another design
                numbers[generator.integers(design.units)] = 1
            leaning = (1 - abs(lean)) * shares + abs(lean) * np.array([lean < 0, 0, lean >= 0])
            for unit, of_labels in enumerate(generator.multinomial(numbers, leaning)):
                name = f"{group} {unit}" if design.apart else f"{unit}"
                where = "original" if design.structures == 1 else f"s{structure}"
                number = int(of_labels.sum())
                columns["predictions"] += LABELS.repeat(of_labels).tolist()
                columns["groups"] += [group] * number
                columns["structures"] += [name if design.over == "structures" else where] * number
                columns["seeds"] += [name] * number
                columns["prompts"] += [name] * number
    truth = means[0] - means[1] if design.figure == "gap" else means[0]
    return columns, truth


def _shares(mean: tuple[float, float, float], spread: float, units: int, generator: np.random.Generator) -> np.ndarray:
    """[units, labels] shares, which vary by `spread` of what they can around their mean."""
    if spread == 0:
        return np.tile(mean, (units, 1))
    # Of a beta distribution, the variance is that of a coin, over one more than the sum of its parameters.
    concentration = 1 / spread**2 - 1
    weights = generator.standard_gamma(np.tile(np.array(mean) * concentration, (units, 1))) + 1e-12 * np.array(mean)
    return weights / weights.sum(axis=1, keepdims=True)


def _freedom(design: Design, means: np.ndarray) -> float:
    """Degrees of freedom that an ideal t-interval has."""
    sizes = np.array([round(design.units * (1 - missing)) for missing in design.missing])
    if design.figure == "mean":
        return float(sizes[0] - 1)
    if not design.apart:
        return float(max(sizes.min() - 1, 1))
    variances = means.var(axis=0)
    return float(variances.sum() ** 2 / (variances**2 / (sizes - 1)).sum())
