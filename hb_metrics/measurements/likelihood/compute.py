from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa

from hb_dataset.prompts import config_vocabulary
from hb_dataset.vocabulary_entries import PAIR_MARKS
from hb_metrics.likelihood_bias.shares import likelihood_bias
from hb_metrics.measurements.likelihood.results import DescriptorMedians, Likelihood, LikelihoodBias, Perplexities
from hb_metrics.measurements.results import Run
from hb_metrics.run.record import CONFIDENCE_LEVEL, Record
from hb_metrics.run.tables import has_pairs_of_terms
from hb_metrics.stats.contrasts import contrasts
from hb_metrics.stats.likelihood_tables import LikelihoodTable, likelihood_table, term_share

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


class MarkedPairs(NamedTuple):
    """Pairs of templates: favourable and unfavourable ones, and the controls."""

    pairs: Sequence[tuple[str, str]]
    controls: Sequence[tuple[str, str]]


def compute(run: Run) -> Likelihood:
    are_pairs = has_pairs_of_terms(run.tables.prompts())
    return likelihood_results(run.tables.scores(), marked_pairs(run.record), are_pairs=are_pairs)


def marked_pairs(record: Record) -> MarkedPairs:
    """Returns the pairs that the run's own vocabulary marks, or those of the config's version."""
    if "contrasts" in record.content:
        return MarkedPairs(*(record.contrasts[mark] for mark in PAIR_MARKS))
    vocabulary = config_vocabulary(record.settings.dataset_config)
    return MarkedPairs(*map(vocabulary.marked_pairs, PAIR_MARKS))


def log_likelihoods(scores: pa.Table) -> LikelihoodTable:
    values = -scores["num_tokens"].to_numpy() * np.log(scores["perplexity"].to_numpy())
    return likelihood_table(values, *(scores[name].to_pylist() for name in ("axis", "descriptor", "noun", "template")))


def likelihood_results(scores: pa.Table, marked: MarkedPairs, *, are_pairs: bool = False) -> Likelihood:
    """Computes Likelihood Bias and attitude contrasts, and summarises perplexities by axis, descriptor and template.

    `scores` has the columns of `schema.PERPLEXITY_SCHEMA`. Pairs of terms with a term in common are not independent, so
    they have no contrasts.
    """
    columns = {name: scores[name].to_pylist() for name in ("axis", "descriptor", "template")}
    perplexities = scores["perplexity"].to_numpy()
    metric = likelihood_bias(perplexities, columns["axis"], columns["descriptor"], columns["template"])
    frame = pd.DataFrame({**columns, "perplexity": perplexities, "num_tokens": scores["num_tokens"].to_numpy()})
    table = log_likelihoods(scores)
    found = None if are_pairs else contrasts(table, *marked, CONFIDENCE_LEVEL)
    return Likelihood(LikelihoodBias(**metric), _perplexities(frame), term_share(table, CONFIDENCE_LEVEL), found)


def _perplexities(frame: pd.DataFrame) -> Perplexities:
    templates = list(dict.fromkeys(frame["template"]))
    by_cell = frame.groupby(["axis", "template"], sort=True)["perplexity"].quantile(np.array(QUANTILES)).unstack()
    quantiles: dict[str, dict[str, list[float]]] = {}
    for (axis, template), row in zip(by_cell.index, by_cell.to_numpy(), strict=True):
        quantiles.setdefault(axis, {})[template] = row.tolist()

    grouped = frame.groupby(["axis", "descriptor", "template"], sort=True)
    medians = grouped["perplexity"].median().unstack().reindex(columns=templates)
    tokens = grouped["num_tokens"].median().unstack().reindex(columns=templates)
    rows = zip(medians.index, medians.to_numpy(), tokens.to_numpy(), strict=True)
    descriptors = [
        DescriptorMedians(axis, descriptor, _nullable(values), _nullable(numbers))
        for (axis, descriptor), values, numbers in rows
    ]
    return Perplexities(float(frame["perplexity"].median()), templates, quantiles, descriptors)


def _nullable(values: np.ndarray) -> list[float | None]:
    return [None if np.isnan(value) else float(value) for value in values]
