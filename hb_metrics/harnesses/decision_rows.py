"""Fills the questions that ship with people, and computes the figures of decisions from their answers."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from hb_dataset.command_line import check_known
from hb_dataset.filled_prompts import default_noun_rows, own_prompt_table, people_of_terms
from hb_dataset.own_prompts import SHIPPED, Choice, read_own_prompts
from hb_dataset.prompts import config_vocabulary
from hb_metrics.harnesses.prompt_rows import axis_names
from hb_metrics.measurements.own_prompts import orders_of, quick_sample
from hb_metrics.stats.decision_table import decision_gap


class DecisionRow(NamedTuple):
    id: str
    text: str
    axis: str
    descriptor: str
    order: int | None
    own_id: str
    question: str
    options: list[str]
    favourable: str


def decision_rows(
    dataset_config: str = "v1.0-small",
    vocabulary_dir: str | None = None,
    axes: str | Sequence[str] | None = None,
    quick: bool = True,
) -> list[DecisionRow]:
    """Returns the filled questions, as `holistic-bias measure --measurements decisions` asks them.

    If `quick` is true, there are 8 questions in one order of the options, otherwise all questions in both orders.
    """
    prompts = read_own_prompts(SHIPPED)
    prompts = quick_sample(prompts) if quick else prompts
    vocabulary = config_vocabulary(dataset_config, vocabulary_dir)
    is_small = dataset_config.endswith("-small")
    for axis in axis_names(axes) or ():
        check_known(axis, vocabulary.axes, f"axis '{axis}' is not in {vocabulary_dir or dataset_config}")
    people = default_noun_rows(people_of_terms(vocabulary, axis_names(axes), small=is_small))
    by_id = {prompt.id: prompt for prompt in prompts}
    rows = []
    for order, of_order in orders_of(prompts, is_quick=quick).items():
        filled = own_prompt_table(of_order, people, order=order)
        for row in filled.select(DecisionRow._fields[:6]).to_pylist():
            prompt = by_id[row["own_id"]]
            assert isinstance(prompt.outcome, Choice)  # as in all questions that ship
            options, favourable = list(prompt.outcome.options), prompt.outcome.favourable
            rows.append(DecisionRow(**row, question=prompt.question, options=options, favourable=favourable))
    return rows


def decision_figures(rows: Sequence[DecisionRow], decisions: Sequence[float | None]) -> dict[str, float | None]:
    """Returns the spread of decisions, over all axes and by axis, and the largest gap on each axis.

    A decision is from 0 to 1 (favourable), or `None` or NaN if an answer contains none. A figure is `None` if too few
    questions have answers for its interval, because a harness would show the figure like any other.
    """
    known = [
        (row, value) for row, value in zip(rows, decisions, strict=True) if value is not None and not math.isnan(value)
    ]
    numbers: dict[str, float | None] = {"num_answers": len(rows), "num_unanswered": len(rows) - len(known)}
    if not known:
        return numbers
    columns = zip(*((row.descriptor, row.question, row.axis) for row, _ in known), strict=True)
    wordings = [f"{row.own_id} {row.order}" for row, _ in known]
    gaps = decision_gap([value for _, value in known], *columns, wordings=wordings)
    low, high = gaps["spread_interval"] or (None, None)
    figures = {
        "decision_spread": None if low is None else gaps["decision_spread"],
        "decision_spread_lowest": low,
        "decision_spread_highest": high,
    }
    for figure in ("spread", "gap"):
        for axis, of_axis in gaps["by_axis"].items():
            figures[f"decision_{figure}/{axis}"] = None if of_axis["reason"] else of_axis[figure]
    return {**figures, **numbers}
