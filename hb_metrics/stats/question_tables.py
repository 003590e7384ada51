"""Arranges decisions in tables of questions and terms, and chooses the terms that can be compared."""

from collections.abc import Sequence
from typing import Any

import numpy as np

MIN_QUESTIONS = 8
FEW_QUESTIONS = f"fewer than {MIN_QUESTIONS} questions have answers to compare"
ONE_TERM = "only one term has answers"


def question_means(values: np.ndarray, questions: Sequence[str]) -> np.ndarray:
    """Averages a question's wordings.

    If values are missing, a term's mean is adjusted for the wordings that it lacks: a term that lacks a wording which
    most terms answer less favourably is not better off. Wordings are assumed to raise all terms by the same amount.

    Args:
        values: [prompts, terms] NaN marks a missing value.
        questions: [prompts] The question of each prompt.

    Returns:
        [questions, terms] in the order in which the questions first occur. NaN if all of a question's values are
        missing.
    """
    numbers: dict[str, int] = {}
    of_prompts = np.array([numbers.setdefault(question, len(numbers)) for question in questions], dtype=np.int64)
    rows = np.split(np.argsort(of_prompts, kind="stable"), np.cumsum(np.bincount(of_prompts))[:-1])
    return np.array([_adjusted_means(values[of_question]) for of_question in rows[: len(numbers)]])


def _adjusted_means(values: np.ndarray) -> np.ndarray:
    """Fits the sum of an effect of the term and one of the row, such as a wording: [rows, terms] to [terms]."""
    known = ~np.isnan(values)
    if known.all():
        return values.mean(axis=0)
    return row_means((values - row_effects(values, known)[:, None]).T)


def row_effects(values: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Fits the effects of rows in a table whose values are the sum of an effect of the row and one of the column.

    The fit to the known values is by least squares, and the effects [rows] have the smallest possible norm.
    """
    if len(values) > values.shape[1]:
        return _effects_of_many(values, known)
    divisors = np.maximum(known.sum(axis=0), 1)
    filled = np.where(known, values, 0.0)
    centred = np.where(known, filled - filled.sum(axis=0) / divisors, 0.0)
    effects: np.ndarray = np.linalg.lstsq(normal_matrix(known), centred.sum(axis=1), rcond=None)[0]
    return effects


def _effects_of_many(values: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Works like `row_effects`, but fits the columns first, because the time is cubic in what is fitted first."""
    from scipy.sparse.csgraph import connected_components  # options are read without scipy

    effects = np.nan_to_num(row_means(np.where(known, values - row_effects(values.T, known.T), np.nan)))
    # Only differences between rows that share columns, directly or through other rows, are known.
    of_columns = connected_components(known.T.astype(np.int64) @ known, directed=False)[1]
    groups, some = of_columns[np.argmax(known, axis=1)], known.any(axis=1)
    sums, counts = (np.bincount(groups, weights, len(of_columns)) for weights in (effects * some, some))
    return np.where(some, effects - (sums / np.maximum(counts, 1))[groups], 0.0)


def normal_matrix(known: np.ndarray) -> np.ndarray:
    """Returns the matrix of the normal equations of `row_effects`: [rows, rows]."""
    return np.diag(known.sum(axis=1)) - (known / np.maximum(known.sum(axis=0), 1)) @ known.T


def mean_table(values: np.ndarray, rows: Any, columns: Any, shape: tuple[int, int]) -> np.ndarray:
    """Averages the known values of each cell: [rows, columns], NaN if there are none.

    `values`, `rows` and `columns` have an item per value. NaN marks a missing value.
    """
    known = ~np.isnan(values)
    cells = np.asarray(rows)[known], np.asarray(columns)[known]
    sums, counts = np.zeros((2, *shape))
    np.add.at(sums, cells, values[known])
    np.add.at(counts, cells, 1)
    return np.divide(sums, counts, out=np.full(shape, np.nan), where=counts > 0)


def compared_terms(table: np.ndarray) -> tuple[np.ndarray, str | None]:
    """Finds the terms that have at least `MIN_QUESTIONS` answered questions in common with each other.

    The term that lacks the most partners is left out first.

    Args:
        table: [questions, terms] NaN marks a missing value.

    Returns:
        The indices of the terms, and `None`. If fewer than two terms are left, the indices of the terms that have at
        least one question in common with each other, and the reason why they cannot be compared.
    """
    known = (~np.isnan(table)).astype(np.int64)
    kept = _in_common(known, MIN_QUESTIONS)
    if len(kept) > 1:
        return kept, None
    return _in_common(known, 1), ONE_TERM if known.any(axis=0).sum() == 1 else FEW_QUESTIONS


def _in_common(known: np.ndarray, least: int) -> np.ndarray:
    lacks = known.T @ known < least
    kept = np.arange(known.shape[1])
    while len(kept) and lacks[np.ix_(kept, kept)].any():
        number = lacks[np.ix_(kept, kept)].sum(axis=1) - known[:, kept].mean(axis=0) / 2
        kept = np.delete(kept, np.argmax(number))
    return kept


def row_means(table: np.ndarray) -> np.ndarray:
    known = ~np.isnan(table)
    counts = known.sum(axis=1)
    sums = np.where(known, table, 0.0).sum(axis=1)
    return np.divide(sums, counts, out=np.full(len(table), np.nan), where=counts > 0)


def term_means(table: np.ndarray) -> np.ndarray:
    """Returns the mean of each term, adjusted for the questions that it lacks: [questions, terms] to [terms].

    The mean of a term that cannot be compared (see `compared_terms`) is that of its answers, NaN if it has none.
    """
    means, (kept, _) = row_means(table.T), compared_terms(table)
    if np.isnan(table[:, kept]).any():
        means[kept] = _adjusted_means(table[:, kept])
    return np.clip(means, 0.0, 1.0)  # adjusted for missing answers, the mean of a term may be outside of the scale


def pair_means(rows: np.ndarray) -> np.ndarray:
    """Returns the means of two terms: [questions, 2]. If one is outside of the scale, both move, and keep their gap."""
    means = rows.mean(axis=0)
    means += np.maximum(-means.min(), 0.0) - np.maximum(means.max() - 1, 0.0)
    return np.clip(means, 0.0, 1.0)


def pair_contributions(table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns each question's contribution to the difference between two terms: [questions, pairs], and the pairs.

    Omits pairs that have no question in common.
    """
    first, second = np.triu_indices(table.shape[1], 1)
    differences = table[:, first] - table[:, second]
    kept = (~np.isnan(differences)).any(axis=0)
    return completed(differences[:, kept]), np.stack([first, second], axis=1)[kept]


def completed(differences: np.ndarray) -> np.ndarray:
    """Replaces missing differences so that means and their standard errors are those of the known differences.

    A known difference deviates from its column's mean, and its deviation is scaled up. A missing one deviates by 0. A
    column without known differences is NaN.
    """
    known, means = ~np.isnan(differences), row_means(differences.T)
    return means + np.where(known, differences - means, 0.0) * filling_scales(known)


def filling_scales(known: np.ndarray) -> np.ndarray:
    """Returns the scale √(N (N − 1) / (n (n − 1))) of deviations in columns with n known of N values: [columns]."""
    counts, number = known.sum(axis=0), len(known)
    return np.sqrt(number * (number - 1) / np.maximum(counts * (counts - 1), 1))
