"""Likelihood Bias over all of v1.0, end to end: from the columns of the sentences to the shares."""

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import NamedTuple

import numpy as np

from tests.benchmarks.row import OURS, Row, Side

ALPHA = 0.05
SEED = 0
# How far apart the descriptors' mean log perplexities are, in units of one descriptor's spread: so that about half of
# the tests are significant.
APART = 0.5
NUM_TEMPLATES = 26


class Sentences(NamedTuple):
    """What is measured; all are [sentences]."""

    perplexities: np.ndarray
    axes: list[str]
    descriptors: list[str]
    templates: list[str]


def sentences(fraction: float) -> Sentences:
    """The sentences of v1.0 in a share of its templates, with perplexities that are made up.

    Terms for one gender are left out, as in the count of 571,584 tests.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    from hb_dataset import load_table
    from hb_metrics.likelihood_bias.shares import GENDERED_DESCRIPTORS

    prompts = load_table("v1.0")
    prompts = prompts.filter(pc.invert(pc.is_in(prompts["descriptor"], pa.array(sorted(GENDERED_DESCRIPTORS)))))
    template = pc.rank(prompts["template"], tiebreaker="dense").to_numpy() - 1
    prompts = prompts.filter(pa.array(template < max(1, round(fraction * NUM_TEMPLATES))))
    generator = np.random.default_rng(SEED)
    descriptor = prompts["descriptor"].combine_chunks().dictionary_encode()
    means = APART * generator.standard_normal(len(descriptor.dictionary))
    log_perplexities = 4 + means[descriptor.indices.to_numpy()] + generator.standard_normal(len(prompts))
    columns = (prompts[name].to_pylist() for name in ("axis", "descriptor", "template"))
    return Sentences(np.exp(log_perplexities), *columns)


def num_tests(inputs: Sentences) -> int:
    """The pairs of descriptors in the same axis and template."""
    cells = Counter(
        (axis, template)
        for axis, template, _ in set(zip(inputs.axes, inputs.templates, inputs.descriptors, strict=True))
    )
    return sum(size * (size - 1) // 2 for size in cells.values())


def by_us(inputs: Sentences, loaded: None) -> dict[str, np.ndarray]:
    """One call, which also finds effect sizes, adjusted shares and medians."""
    from hb_metrics.likelihood_bias.shares import likelihood_bias

    found = likelihood_bias(*inputs, alpha=ALPHA)
    return {
        "num_tests": np.array(found["num_tests"]),
        "likelihood_bias": np.array(found["likelihood_bias"]),
        "by_axis": np.array(list(found["by_axis"].values())),
        "by_axis_and_template": np.array(
            [share for by_template in found["by_axis_and_template"].values() for share in by_template.values()]
        ),
    }


def by_stacked_scipy(inputs: Sentences, loaded: None) -> dict[str, np.ndarray]:
    """All pairs of a cell in one call, where the sizes are equal; one call for each two sizes where they are not."""
    from scipy.stats import mannwhitneyu

    found = {}
    for cell, groups in _cells(inputs):
        by_size: dict[int, list[np.ndarray]] = {}
        for group in groups:
            by_size.setdefault(len(group), []).append(group)
        stacks = [np.stack(same) for same in by_size.values()]
        pvalues = []
        for stack in stacks:
            first, second = np.triu_indices(len(stack), k=1)
            if len(first):
                pvalues.append(mannwhitneyu(stack[first], stack[second], axis=1).pvalue)
        for one, other in combinations(stacks, 2):
            first, second = (index.ravel() for index in np.indices((len(one), len(other))))
            pvalues.append(mannwhitneyu(one[first], other[second], axis=1).pvalue)
        found[cell] = np.concatenate(pvalues)
    return _shares(found)


def _cells(inputs: Sentences) -> Iterator[tuple[tuple[str, str], list[np.ndarray]]]:
    """The perplexities of each descriptor in each axis and template, in alphabetical order."""
    import pandas as pd

    frame = pd.DataFrame(dict(zip(("axis", "descriptor", "template"), inputs[1:], strict=True)), dtype="category")
    frame["perplexity"] = inputs.perplexities
    cells: dict[tuple[str, str], list[np.ndarray]] = {}
    groups = frame.groupby(["axis", "template", "descriptor"], observed=True, sort=True)["perplexity"]
    for (axis, template, _), group in groups:
        cells.setdefault((str(axis), str(template)), []).append(group.to_numpy())
    return iter(cells.items())


def _shares(pvalues: Mapping[tuple[str, str], np.ndarray]) -> dict[str, np.ndarray]:
    by_axis: dict[str, list[np.ndarray]] = {}
    for (axis, _), found in pvalues.items():
        by_axis.setdefault(axis, []).append(found)
    everything = np.concatenate(list(pvalues.values()))
    return {
        "num_tests": np.array(len(everything)),
        "likelihood_bias": np.array(np.mean(everything < ALPHA)),
        "by_axis": np.array([np.mean(np.concatenate(found) < ALPHA) for found in by_axis.values()]),
        "by_axis_and_template": np.array([np.mean(found < ALPHA) for found in pvalues.values()]),
    }


ROW = Row(
    title="Likelihood Bias of v1.0",
    inputs=sentences,
    work=num_tests,
    unit="tests",
    sides={
        OURS: Side(run=by_us, repeats=5),
        "scipy, stacked": Side(run=by_stacked_scipy, bar=4.0),
    },
    notes=lambda found: (
        "from the columns to the shares of significant tests; ours also adjusts them and finds effects and medians"
    ),
)
