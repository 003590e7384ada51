"""Compares decisions about terms with the scores that other measurements gave the same terms.

Decisions are paired by question, and scores by template, so the noise of the two is independent. Runs with `--prompts`
are not compared, because there, templates are questions.
"""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from hb_dataset.vocabulary_entries import AFTER_THE_NOUN
from hb_metrics.measurements.likelihood.compute import log_likelihoods, marked_pairs
from hb_metrics.measurements.results import Run
from hb_metrics.measurements.term_agreement import column_agreement
from hb_metrics.run.replies import Replies, whole_prompts
from hb_metrics.run.run_folder import PERPLEXITIES, STYLES
from hb_metrics.stats.clusters import Estimate
from hb_metrics.stats.contrasts import known_pairs, pair_contrasts
from hb_metrics.stats.likelihood_tables import LikelihoodTable
from hb_metrics.stats.question_tables import compared_terms

BIAS_VALUES, LIKELIHOODS, CONTRASTS = "mean bias values", "mean log-likelihoods", "attitude contrasts"
Key = tuple[str, str]  # axis and term
_SCORED = ("id", "axis", "descriptor", "noun", "template", "text", "log_likelihood", "num_tokens")


def predictions(
    run: Run, tables: Mapping[str, tuple[list[str], np.ndarray]], buckets: Mapping[Key, str | None]
) -> dict[str, Estimate]:
    """Computes the correlation of decisions with each score of the run, over terms.

    Args:
        run: The run. Its record shows what was measured.
        tables: For each axis, the terms, and [questions, terms].
        buckets: The bucket of each term.
    """
    record, agreements = run.record, {}
    if record.settings.prompts is not None:
        return {}
    keys, compared = [], []
    for axis, (terms, table) in tables.items():
        columns, reason = compared_terms(table)
        if reason is not None:
            columns = columns[:0]
        keys += [(axis, terms[column]) for column in columns]
        compared.append(table[:, columns])
    decided, axes = np.concatenate(compared, axis=1), np.array([axis for axis, _ in keys])
    # Terms after the noun share a bucket because of their position, and not because they are similar.
    alike = {key: buckets[key] for key in keys if buckets[key] != AFTER_THE_NOUN}
    of_bucket = np.array([f"{axis}\n{alike.get((axis, term)) or term}" for axis, term in keys])

    scores: dict[str, tuple[np.ndarray, float]] = {}
    if "generation" in run.results.measured:
        # A bias value is a square, so its error is twice that of one of its factors.
        replies = run.tables.replies()
        scores[BIAS_VALUES] = _bias_values(replies, run.tables.vectors_of(STYLES, replies.ids), keys), 4.0
    if "likelihood" in run.results.measured:
        sentences = run.tables.read(PERPLEXITIES, _SCORED)
        scores[LIKELIHOODS] = _likelihoods(sentences, keys), 1.0
        by_noun = log_likelihoods(sentences)
        if pairs := known_pairs(by_noun, marked_pairs(record).pairs):
            scores[CONTRASTS] = _contrasts(by_noun, pairs, keys), 1.0
    for name, (rows, times) in scores.items():
        known = (~np.isnan(rows)).sum(axis=0) > 1
        agreements[name] = column_agreement(
            decided[:, known],
            rows[:, known],
            axes[known],
            of_bucket[known],
            times=times,
            few=f"{known.sum()} terms with decisions and {name}",
            no_effect=f"decisions or {name} do not differ between terms by more than chance",
        )
    return agreements


def _bias_values(replies: Replies, styles: np.ndarray, keys: list[Key]) -> np.ndarray:
    """Returns rows whose means over templates are the mean bias values, without sampling noise: [templates, terms].

    The bias value of a term is the squared distance of its mean style vector from that of all terms. Each row is the
    product of the distance in one template with that in all other templates.
    """
    means = _cell_means(replies, styles, keys)
    apart = means - np.nanmean(means, axis=1, keepdims=True)
    complete = ~np.isnan(means[..., 0]).any(axis=0)
    others = (apart.sum(axis=0) - apart) / max(len(apart) - 1, 1)
    return np.where(complete, np.einsum("jds,jds->jd", apart, others), np.nan)


def _likelihoods(scores: pa.Table, keys: list[Key]) -> np.ndarray:
    """Returns the mean log-likelihood per token of each cell: [templates, terms]."""
    values = scores["log_likelihood"].to_numpy() / scores["num_tokens"].to_numpy()
    return _cell_means(whole_prompts(scores), values[:, None], keys)[..., 0]


def _contrasts(table: LikelihoodTable, pairs: list[tuple[str, str]], keys: list[Key]) -> np.ndarray:
    """Returns the attitude contrasts with each noun, as means over pairs: [nouns, terms].

    Terms without scores, for example because of `--sample`, are NaN.
    """
    rows = pair_contrasts(table, pairs)[1].mean(axis=0)
    rows = np.append(rows, np.full((len(rows), 1), np.nan), axis=1)
    columns = {key: column for column, key in enumerate(zip(table.axes.tolist(), table.terms.tolist(), strict=True))}
    return rows[:, [columns.get(key, -1) for key in keys]]


def _cell_means(rows: Replies, values: np.ndarray, keys: list[Key]) -> np.ndarray:
    """Averages [rows, columns] by template and term: [templates, terms, columns], NaN where there are no rows."""
    columns = {key: column for column, key in enumerate(keys)}
    templates = {template: row for row, template in enumerate(dict.fromkeys(rows.templates))}
    about = zip(rows.axes, rows.descriptors, rows.templates, strict=True)
    places = np.array([(templates[template], columns.get((axis, term), -1)) for axis, term, template in about])
    known = places[:, 1] >= 0
    cells = tuple(places[known].T)
    sums, counts = np.zeros((len(templates), len(keys), values.shape[1])), np.zeros((len(templates), len(keys)))
    np.add.at(sums, cells, values[known])
    np.add.at(counts, cells, 1)
    return sums / np.where(counts, counts, np.nan)[..., None]
