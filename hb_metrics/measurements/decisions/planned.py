"""Computes the precision that decisions would have with more questions."""

import math
from collections.abc import Sequence

import numpy as np

from hb_metrics.layout.numbers import axis_label
from hb_metrics.measurements.decisions.answers import read_answers
from hb_metrics.measurements.decisions.cells import cells_by_axis, largest_of
from hb_metrics.measurements.decisions.figures import GAP, MEAN, SPREAD
from hb_metrics.measurements.results import Run
from hb_metrics.run.record import CONFIDENCE_LEVEL
from hb_metrics.stats.clusters import Bounds
from hb_metrics.stats.decisions import mean_over_questions
from hb_metrics.stats.name_gaps import more_questions
from hb_metrics.stats.term_spread import spread_between

_NUM_DRAWS = 9  # of sets of questions


def planned_decisions(run: Run, numbers: Sequence[int]) -> dict[str, list[float | None]]:
    """Returns the half-width of each figure with each number of questions, or `None` without an interval.

    It is the median half-width of sets of questions, which are drawn from those of the run with replacement (names: see
    `more_questions`). Such sets have (n − 1) / n of the variance, where n is the run's number of questions.
    """
    prompts, answers = read_answers(run)
    num_questions = len({prompt.question for prompt in prompts})
    scale = math.sqrt(num_questions / max(num_questions - 1, 1))
    cells = cells_by_axis(prompts, [answer for answer in answers if answer.axis is not None])
    of_terms = [axis for axis, of_axis in cells.items() if of_axis.groups is None]
    draws, half_widths = np.random.default_rng(0), dict[str, list[float | None]]()
    for number in numbers:
        intervals: dict[str, list[Bounds | None]] = {}
        for _ in range(_NUM_DRAWS):
            rows = draws.integers(0, num_questions, number)
            drawn = {
                axis: of_axis.table[rows]
                if of_axis.groups is None
                else more_questions(of_axis.table, of_axis.groups, rows, scale, draws)
                for axis, of_axis in cells.items()
            }
            mean = mean_over_questions(np.concatenate(list(drawn.values()), axis=1), CONFIDENCE_LEVEL)
            intervals.setdefault(MEAN, []).append(mean.interval)
            if of_terms:
                spread = spread_between([drawn[axis] for axis in of_terms], CONFIDENCE_LEVEL, seed=0)
                intervals.setdefault(SPREAD, []).append(spread.interval)
            for axis, table in drawn.items():
                largest = largest_of(cells[axis], table, seed=0).largest
                intervals.setdefault(f"{GAP}, {axis_label(axis)}", []).append(largest and largest.gap.interval)
        for name, of_figure in intervals.items():
            halves = [(bounds[1] - bounds[0]) / 2 for bounds in of_figure if bounds is not None]
            half_widths.setdefault(name, []).append(scale * float(np.median(halves)) if halves else None)
    return half_widths
