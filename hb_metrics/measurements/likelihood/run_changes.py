"""Computes the changes in Likelihood Bias between two runs.

The intervals generalise to other terms of the same axes.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from hb_metrics.layout.numbers import axis_groups
from hb_metrics.likelihood_bias.mann_whitney import pairwise_mann_whitney
from hb_metrics.measurements.measurement import FigureChanges
from hb_metrics.paired_changes.paired_change import NO_FILES_REASON, PairedChange, pair_share_change
from hb_metrics.run.finished_run import PAIRS_REASON, Run, has_pairs_of_terms, read_prompts, read_shards
from hb_metrics.run.replies import replied_prompts
from hb_metrics.run.run_folder import PERPLEXITIES, PROMPTS_FILE
from hb_metrics.stats.bias_values import descriptor_codes
from hb_metrics.stats.inputs import text_codes


def changes(first: Run, second: Run) -> FigureChanges:
    prompts, values = [], []
    for run in (first, second):
        scores = read_shards(run.folder / PERPLEXITIES, ("id", "perplexity"))
        if scores is None or not (run.folder / PROMPTS_FILE).is_file():
            return FigureChanges({}, NO_FILES_REASON)
        scores = scores.sort_by("id")
        scored = replied_prompts(read_prompts(run.folder), scores)
        if has_pairs_of_terms(scored):
            return FigureChanges({}, PAIRS_REASON)
        prompts.append(scored.select(["id", "axis", "descriptor", "template"]))
        values.append(scores["perplexity"].to_numpy())
    if not prompts[0].equals(prompts[1]):
        return FigureChanges({}, "the runs scored different prompts")
    tests = pair_tests(prompts[0], values, first.results["likelihood"]["likelihood_bias"]["alpha"])
    by_name = {}
    for name, chosen in axis_groups("Likelihood Bias", tests.groups[tests.firsts], tests.axes).items():
        by_name[name] = _change(tests, chosen, first.confidence_level)
    return FigureChanges(by_name)


class PairTests(NamedTuple):
    """The significance tests of several runs.

    The tests of each run compare the same pairs of terms in the same templates.

    Attributes:
        templates: [tests] The code of the template.
        firsts: [tests] The code of the first term.
        seconds: [tests] The code of the second term.
        significant: [runs, tests] Whether the test is significant in each run.
        groups: [terms] The code of each term's axis.
    """

    templates: np.ndarray
    firsts: np.ndarray
    seconds: np.ndarray
    significant: np.ndarray
    groups: np.ndarray
    axes: list[str]


def pair_tests(prompts: pa.Table, values: Sequence[np.ndarray], alpha: float) -> PairTests:
    columns = {name: prompts[name].to_pylist() for name in ("axis", "descriptor", "template")}
    axes, axis_names = text_codes("axis", columns["axis"])
    terms, keys = descriptor_codes(columns["descriptor"], columns["axis"])
    templates, _ = text_codes("template", columns["template"])
    order = np.lexsort((terms, templates, axes))
    cells = axes[order] * (templates.max() + 1) + templates[order]
    cell_templates, firsts, seconds, significant = [], [], [], []
    for rows in np.split(order, np.flatnonzero(np.diff(cells)) + 1):
        compared, groups = np.unique(terms[rows], return_inverse=True)
        if len(compared) < 2:
            continue
        pairs = [pairwise_mann_whitney(of_run[rows], groups) for of_run in values]
        cell_templates.append(np.full(len(pairs[0].first), templates[rows[0]]))
        firsts.append(compared[pairs[0].first])
        seconds.append(compared[pairs[0].second])
        significant.append(np.stack([pair.pvalue < alpha for pair in pairs]))
    of_axis = {name: code for code, name in enumerate(axis_names)}
    return PairTests(
        np.concatenate(cell_templates),
        np.concatenate(firsts),
        np.concatenate(seconds),
        np.concatenate(significant, axis=1),
        np.array([of_axis[str(key.axis)] for key in keys]),
        list(axis_names),
    )


def _change(tests: PairTests, chosen: np.ndarray, level: float) -> PairedChange:
    firsts, seconds = tests.firsts[chosen], tests.seconds[chosen]
    terms, codes = np.unique(np.concatenate([firsts, seconds]), return_inverse=True)
    _, groups = np.unique(tests.groups[terms], return_inverse=True)
    before, after = tests.significant[:, chosen]
    return pair_share_change(codes[: len(firsts)], codes[len(firsts) :], groups, (before, after), level)
