"""Computes the changes in Likelihood Bias and in attitude contrasts between two runs.

The intervals of Likelihood Bias generalise to other terms of the same axes, and those of contrasts to other nouns.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from hb_metrics.layout.numbers import axis_groups, axis_label
from hb_metrics.likelihood_bias.mann_whitney import pairwise_mann_whitney
from hb_metrics.measurements.likelihood.compute import log_likelihoods, marked_pairs
from hb_metrics.measurements.likelihood.figures import CONTRAST
from hb_metrics.measurements.measurement import FigureChanges
from hb_metrics.measurements.results import Run
from hb_metrics.paired_changes.paired_change import (
    NO_FILES_REASON,
    PairedChange,
    change_from_covariance,
    pair_share_change,
)
from hb_metrics.run.schema import OF_PROMPT_SCHEMA
from hb_metrics.run.tables import PAIRS_REASON, has_pairs_of_terms
from hb_metrics.stats.bias_values import descriptor_codes
from hb_metrics.stats.contrasts import (
    MIN_NOUNS,
    NONCE_AXIS,
    known_members,
    known_pairs,
    pair_contrasts,
    spread_without_nouns,
)
from hb_metrics.stats.generalising import Generalised, Influences, Over, generalised, pair_share_influences
from hb_metrics.stats.inputs import text_codes


def changes(first: Run, second: Run) -> FigureChanges:
    scored = scored_prompts(first, second)
    if isinstance(scored, str):
        return FigureChanges({}, scored)
    tests = pair_tests(scored, first.results.likelihood.likelihood_bias.alpha)
    by_name = {}
    for name, chosen in axis_groups("Likelihood Bias", tests.groups[tests.firsts], tests.axes).items():
        by_name[name] = _change(tests, chosen, first.confidence_level)
    return FigureChanges(by_name | _contrast_changes(first, scored))


def scored_prompts(first: Run, second: Run) -> list[pa.Table] | str:
    """Returns the perplexities of both runs in the same order, or the reason why they cannot be paired."""
    found = []
    for run in (first, second):
        scores = run.tables.scores()
        if scores is None:
            return NO_FILES_REASON
        if has_pairs_of_terms(run.tables.prompts()):
            return PAIRS_REASON
        found.append(scores.sort_by("id"))
    about = [scores.select(["id", *OF_PROMPT_SCHEMA.names]) for scores in found]
    return found if about[0].equals(about[1]) else "the runs scored different prompts"


def _contrast_changes(first: Run, scores: Sequence[pa.Table]) -> dict[str, PairedChange]:
    """Computes the changes in the spread of attitude contrasts. The nouns are the random units (jackknife)."""
    tables = [log_likelihoods(of_run) for of_run in scores]
    pairs = known_pairs(tables[0], marked_pairs(first.record).pairs)
    if not pairs:
        return {}
    rows = [pair_contrasts(table, pairs)[1] for table in tables]
    members = known_members(tables[0].axes, rows[0])
    groups = {f"{CONTRAST}, {axis_label(axis)}": [of_axis] for axis, of_axis in members.items()}
    groups[CONTRAST] = [of_axis for axis, of_axis in members.items() if axis != NONCE_AXIS]
    number, by_name = rows[0].shape[1], {}
    for name, group in groups.items():
        if number < MIN_NOUNS or not group:
            continue
        (before, without), (after, others) = (spread_without_nouns(of_run.mean(axis=0), group) for of_run in rows)
        covariance = np.cov(np.stack([without, others]), ddof=0) * (number - 1)
        by_name[name] = change_from_covariance(before, after, covariance, number - 1, first.confidence_level)
    return by_name


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


def pair_tests(scores: Sequence[pa.Table], alpha: float) -> PairTests:
    """Computes the tests of one or more runs, whose rows of scores are about the same prompts."""
    columns = {name: scores[0][name].to_pylist() for name in ("axis", "descriptor", "template")}
    values = [of_run["perplexity"].to_numpy() for of_run in scores]
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


def generalise(run: Run, over: Over) -> dict[str, Generalised]:
    level = run.confidence_level
    return {name: generalised(influences, over, level) for name, influences in likelihood_influences(run).items()}


def likelihood_influences(run: Run) -> dict[str, Influences]:
    scores = run.tables.scores()
    if scores is None:
        raise ValueError(
            f"'{run.folder}' lacks the perplexities that --generalise needs; measure again in a new folder"
        )
    alpha = run.results.likelihood.likelihood_bias.alpha
    tests = pair_tests([scores], alpha)
    found = {}
    for name, chosen in axis_groups("Likelihood Bias", tests.groups[tests.firsts], tests.axes).items():
        _, templates = np.unique(tests.templates[chosen], return_inverse=True)
        terms, codes = np.unique(np.stack([tests.firsts[chosen], tests.seconds[chosen]]), return_inverse=True)
        firsts, seconds = codes.reshape(2, -1)
        significant = tests.significant[0, chosen].astype(float)
        found[name] = pair_share_influences(templates, firsts, seconds, significant, tests.groups[terms])
    return found
