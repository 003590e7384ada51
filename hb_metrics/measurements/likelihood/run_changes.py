"""Computes the changes in Likelihood Bias and in attitude contrasts between two runs.

The intervals of Likelihood Bias generalise to other terms of the same axes, and those of contrasts to other nouns.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd
import pyarrow as pa

from hb_metrics.layout.numbers import axis_groups, axis_label
from hb_metrics.likelihood_bias.shares import pair_tests
from hb_metrics.measurements.likelihood.compute import log_likelihoods, marked_pairs
from hb_metrics.measurements.likelihood.figures import CONTRAST
from hb_metrics.measurements.results import Run
from hb_metrics.run.record import CONFIDENCE_LEVEL
from hb_metrics.run.schema import OF_PROMPT_SCHEMA
from hb_metrics.run.tables import PAIRS_REASON, has_pairs_of_terms
from hb_metrics.stats.changes import FigureChanges, PairedChange, change_from_covariance, pair_share_change
from hb_metrics.stats.clusters import Generalised, Over, generalised, pair_share_influences
from hb_metrics.stats.contrasts import NONCE_AXIS, known_pairs, pair_contrasts, spread_without_nouns
from hb_metrics.stats.inputs import descriptor_codes, text_codes
from hb_metrics.stats.likelihood_tables import have_few_nouns, known_members


def changes(first: Run, second: Run) -> FigureChanges:
    scored = scored_prompts(first, second)
    if isinstance(scored, str):
        return FigureChanges({}, scored)
    alpha, by_name = first.results.likelihood.likelihood_bias.alpha, {}
    for name, of_runs, firsts, seconds, axes in tests_of(scored):
        before, after = ((tests["p"] < alpha).to_numpy() for tests in of_runs)
        by_name[name] = pair_share_change(firsts, seconds, axes, (before, after), CONFIDENCE_LEVEL)
    return FigureChanges(by_name | _contrast_changes(first, scored))


def scored_prompts(first: Run, second: Run) -> list[pa.Table] | str:
    """Returns the perplexities of both runs in the same order, or the reason why they cannot be paired."""
    if any(has_pairs_of_terms(run.tables.prompts()) for run in (first, second)):
        return PAIRS_REASON
    of_runs = [run.tables.scores().sort_by("id") for run in (first, second)]
    about = [scores.select(["id", *OF_PROMPT_SCHEMA.names]) for scores in of_runs]
    return of_runs if about[0].equals(about[1]) else "the runs scored different prompts"


def _contrast_changes(first: Run, scores: Sequence[pa.Table]) -> dict[str, PairedChange]:
    """Computes the changes in the spread of attitude contrasts. The nouns are the random units (jackknife)."""
    tables = [log_likelihoods(of_run) for of_run in scores]
    pairs = known_pairs(tables[0], marked_pairs(first.record).pairs)
    if not pairs:
        return {}
    (counts, _), rows = zip(*(pair_contrasts(table, pairs) for table in tables), strict=True)
    members = known_members(tables[0].axes, rows[0])
    groups = {f"{CONTRAST}, {axis_label(axis)}": [of_axis] for axis, of_axis in members.items()}
    groups[CONTRAST] = [of_axis for axis, of_axis in members.items() if axis != NONCE_AXIS]
    number, by_name = rows[0].shape[1], {}
    for name, group in groups.items():
        if not group or have_few_nouns(counts, group):
            continue
        (before, without), (after, others) = (spread_without_nouns(of_run.mean(axis=0), group) for of_run in rows)
        covariance = np.cov(np.stack([without, others]), ddof=0) * (number - 1)
        by_name[name] = change_from_covariance(before, after, covariance, number - 1, CONFIDENCE_LEVEL)
    return by_name


def tests_of(
    scores: Sequence[pa.Table],
) -> Iterator[tuple[str, list[pd.DataFrame], np.ndarray, np.ndarray, np.ndarray]]:
    """Yields each figure's name, its tests in each run, the codes of their first and second terms, and those of axes.

    The rows of the runs' scores are about the same prompts. The codes of axes are by term.
    """
    axis, descriptor, template = (scores[0][name].to_pylist() for name in ("axis", "descriptor", "template"))
    axes, axis_names = text_codes("axis", axis)
    terms, keys = descriptor_codes(descriptor, axis)
    templates, _ = text_codes("template", template)
    of_runs = [pair_tests(of_run["perplexity"].to_numpy(), axes, templates, terms) for of_run in scores]
    axis_of = np.array([axis_names.index(str(key.axis)) for key in keys])
    for name, chosen in axis_groups("Likelihood Bias", of_runs[0]["axis"].to_numpy(), axis_names).items():
        tests = [of_run[chosen] for of_run in of_runs]
        compared, codes = np.unique(tests[0][["first", "second"]], return_inverse=True)
        firsts, seconds = codes.reshape(-1, 2).T
        yield name, tests, firsts, seconds, np.unique(axis_of[compared], return_inverse=True)[1]


def generalise(run: Run, over: Over) -> dict[str, Generalised]:
    alpha, by_name = run.results.likelihood.likelihood_bias.alpha, {}
    for name, (tests,), firsts, seconds, axes in tests_of([run.tables.scores()]):
        _, templates = np.unique(tests["template"], return_inverse=True)
        significant = (tests["p"] < alpha).to_numpy(float)
        influences = pair_share_influences(templates, firsts, seconds, significant, axes)
        by_name[name] = generalised(influences, over, CONFIDENCE_LEVEL)
    return by_name
