"""Predicts how precise decisions would be with another number of questions."""

from collections.abc import Sequence

import numpy as np

from hb_metrics.layout.numbers import axis_label
from hb_metrics.measurements.decisions.answers import read_answers
from hb_metrics.measurements.decisions.compute import cells_by_axis, largest_of
from hb_metrics.measurements.decisions.figures import GAP, MEAN, SPREAD
from hb_metrics.measurements.results import Run
from hb_metrics.stats import decisions as statistics

_NUM_DRAWS = 9


def planned_decisions(run: Run, numbers: Sequence[int]) -> dict[str, list[float | None]]:
    """Returns the half-width of each figure with each number of questions, or `None` without an interval.

    It is the median half-width of sets of questions, which are drawn from those of the run with replacement.
    """
    prompts, answers = read_answers(run)
    questions, level = [prompt.question for prompt in prompts], run.confidence_level
    cells = cells_by_axis(prompts, [answer for answer in answers if answer.axis is not None])
    tables = {axis: statistics.question_means(of_axis.values, questions) for axis, of_axis in cells.items()}
    of_terms = [axis for axis, of_axis in cells.items() if of_axis.groups is None]
    draws, found = np.random.default_rng(0), dict[str, list[float | None]]()
    for number in numbers:
        intervals: dict[str, list[statistics.Bounds | None]] = {}
        for _ in range(_NUM_DRAWS):
            rows = draws.integers(0, len(set(questions)), number)
            drawn = {axis: table[rows] for axis, table in tables.items()}
            mean = statistics.mean_over_questions(np.concatenate(list(drawn.values()), axis=1), level)
            intervals.setdefault(MEAN, []).append(mean.interval)
            if of_terms:
                spread = statistics.spread_between([drawn[axis] for axis in of_terms], level, seed=0)
                intervals.setdefault(SPREAD, []).append(spread.interval)
            for axis, table in drawn.items():
                largest = largest_of(cells[axis], table, level, seed=0).largest
                intervals.setdefault(f"{GAP}, {axis_label(axis)}", []).append(largest and largest.gap.interval)
        for name, of_figure in intervals.items():
            halves = [(bounds[1] - bounds[0]) / 2 for bounds in of_figure if bounds is not None]
            found.setdefault(name, []).append(float(np.median(halves)) if halves else None)
    return found
