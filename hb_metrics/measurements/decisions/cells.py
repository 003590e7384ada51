"""Averages the answers about the terms of an axis, and finds the terms with the largest gap."""

from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

import numpy as np

from hb_dataset.grouped import grouped
from hb_dataset.own_prompts import OwnPrompt
from hb_dataset.prompt_columns import NAMES_AXIS
from hb_metrics.measurements.decisions.answers import DecisionAnswer
from hb_metrics.run.record import CONFIDENCE_LEVEL
from hb_metrics.stats.decisions import largest_gap
from hb_metrics.stats.name_gaps import NameGaps, name_gaps
from hb_metrics.stats.question_tables import compared_terms, mean_table, question_means, term_means

ORDERS = (0, 1)  # of a prompt's options


class Cells(NamedTuple):
    """The answers about the terms of an axis, averaged by row and term: [rows, terms], NaN if there are none.

    Each prompt has two rows, one for each order of its options: a term whose answers are missing in one order must not
    seem to be treated differently because of the order. The same holds for wordings.

    Attributes:
        groups: [terms] The group of each name, or `None` for terms.
        questions: [rows] The question of each row.
        table: [questions, terms] The values, averaged over the wordings of each question.
    """

    names: list[str]
    groups: list[str] | None
    questions: list[str]
    values: np.ndarray
    unanswered: np.ndarray
    refused: np.ndarray
    num_answers: np.ndarray
    table: np.ndarray


def cells_by_axis(prompts: Sequence[OwnPrompt], answers: Sequence[DecisionAnswer]) -> dict[str, Cells]:
    """Averages the answers by axis, row and term. Prompts without a term have the key ""."""
    rows = {row: number for number, row in enumerate(product((prompt.id for prompt in prompts), ORDERS))}
    questions = [prompt.question for prompt in prompts for _ in ORDERS]
    cells = {}
    for axis, of_axis in grouped((answer.axis or "", answer) for answer in answers).items():
        groups = {answer.term or "": answer.group or "" for answer in of_axis}
        columns = {name: column for column, name in enumerate(groups)}
        places = (
            [rows[answer.own_id, answer.order] for answer in of_axis],
            [columns[answer.term or ""] for answer in of_axis],
        )
        values = np.array([np.nan if answer.value is None else answer.value for answer in of_axis])
        refused = np.array([float(answer.is_refusal) for answer in of_axis])
        unanswered, shape = np.isnan(values), (len(rows), len(columns))
        means = mean_table(values, *places, shape)
        cells[axis] = Cells(
            list(columns),
            list(groups.values()) if axis == NAMES_AXIS else None,
            questions,
            means,
            mean_table(unanswered.astype(float), *places, shape),
            mean_table(refused, *places, shape),
            np.bincount(np.array(places[1])[~unanswered], minlength=len(columns)),
            question_means(means, questions),
        )
    return cells


def largest_of(cells: Cells, table: np.ndarray, level: float = CONFIDENCE_LEVEL, *, seed: int) -> NameGaps:
    """Finds the largest gap between terms, or between groups of names: `table` is [questions, terms]."""
    if cells.groups is not None:
        return name_gaps(table, cells.groups, level)
    compared, _ = compared_terms(table)
    largest = largest_gap(table, level, seed=seed)
    p_value = None if largest is None else largest.gap.p_value
    return NameGaps(cells.names, term_means(table), compared, largest, p_value)
