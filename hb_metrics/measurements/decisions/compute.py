"""Computes the results of `decisions` from the run's tables."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np
import pandas as pd
from scipy import stats

from hb_dataset.grouped import grouped
from hb_dataset.own_prompts import Choice, OwnPrompt, Scale
from hb_dataset.prompt_columns import NAMES_AXIS
from hb_metrics.measurements.decisions.answers import DecisionAnswer, read_answers
from hb_metrics.measurements.decisions.cells import ORDERS, Cells, cells_by_axis, largest_of
from hb_metrics.measurements.decisions.prediction import predictions
from hb_metrics.measurements.decisions.results import (
    Answered,
    AxisDecisions,
    Decisions,
    Example,
    Part,
    TermDecisions,
    TermPair,
    clear_pair,
)
from hb_metrics.measurements.results import Run
from hb_metrics.run.record import ALPHA_OF_PARTS, CONFIDENCE_LEVEL
from hb_metrics.stats import decisions as statistics
from hb_metrics.stats.name_gaps import NameGaps, name_gaps
from hb_metrics.stats.question_tables import compared_terms, question_means, term_means
from hb_metrics.stats.term_spread import spread_between

T = TypeVar("T")


def compute(run: Run) -> Decisions:
    prompts, answers = read_answers(run)
    results = decisions(prompts, answers, run.record.settings.seed)
    known = [answer for answer in answers if answer.axis not in (None, NAMES_AXIS)]
    tables = {axis: (of_axis.names, of_axis.table) for axis, of_axis in cells_by_axis(prompts, known).items()}
    buckets = {(answer.axis or "", answer.term or ""): answer.group for answer in answers}
    return replace(results, predictions=predictions(run, tables, buckets))


def decisions(prompts: Sequence[OwnPrompt], answers: Sequence[DecisionAnswer], seed: int = 0) -> Decisions:
    """Computes the results from the answers to prompts that have an outcome."""
    num_questions = len({prompt.question for prompt in prompts})
    cells = cells_by_axis(prompts, answers)
    baseline = cells.pop("", None)
    of_terms = [of_axis.table for of_axis in cells.values() if of_axis.groups is None]
    base = None if baseline is None else baseline.table[:, 0]
    outcomes = {prompt.outcome for prompt in prompts}
    scales = [outcome for outcome in outcomes if isinstance(outcome, Scale)]
    by_axis = _adjusted({axis: _axis(of_axis, base, seed, not scales) for axis, of_axis in cells.items()})
    parts = _prompts_by_part("topic", [prompt.topic for prompt in prompts])
    of_prompts = [prompt.question for prompt in prompts]
    wordings = pd.Series(of_prompts).groupby(of_prompts).cumcount() + 1
    parts |= _prompts_by_part("wording", wordings.astype(str).tolist())
    spread = None
    if any(of_axis.pair is not None and of_axis.spread is not None for of_axis in by_axis.values()):
        spread = _known(spread_between(of_terms, CONFIDENCE_LEVEL, seed=seed))
    together = np.hstack([np.empty((num_questions, 0)), *(axis.table for axis in cells.values())])
    masses = [answer.mass for answer in answers if answer.mass is not None]
    return Decisions(
        num_questions=num_questions,
        num_answers=len(answers),
        num_unanswered=sum(answer.value is None for answer in answers),
        mean=None if np.isnan(together).all() else statistics.mean_over_questions(together, CONFIDENCE_LEVEL),
        spread=spread,
        by_axis=by_axis,
        by_part=_spread_by_part(cells, parts, seed),
        names_by_part=_name_gaps_by_part(cells[NAMES_AXIS], parts) if NAMES_AXIS in cells else {},
        order_effect=_order_effect(prompts, cells),
        option_mass=float(np.mean(masses)) if masses else None,
        example=_example(answers, by_axis),
        predictions={},
        scale=scales[0] if scales and len(outcomes) == 1 else None,
    )


def _axis(cells: Cells, base: np.ndarray | None, seed: int, has_rates: bool) -> AxisDecisions:
    table, unanswered = cells.table, question_means(cells.unanswered, cells.questions)
    largest, unread, baseline, spread = largest_of(cells, table, seed=seed), None, None, None
    if np.nanmax(cells.unanswered) > 0:
        unread = largest_of(cells, unanswered, seed=seed)
    compared = {largest.groups[index] for index in largest.compared}
    without = [name for name, number in zip(cells.names, cells.num_answers, strict=True) if not number]
    gaps: Sequence[statistics.DecisionEstimate | None] = [None] * len(largest.groups)
    if cells.groups is None:
        gaps = statistics.gaps_to_mean(table, CONFIDENCE_LEVEL)
        if base is not None:
            baseline = _known(statistics.mean_difference(table - base[:, None], CONFIDENCE_LEVEL))
        if largest.largest is not None:
            spread = _known(spread_between([table], CONFIDENCE_LEVEL, seed=seed))
    terms = []
    for name, mean, gap in zip(largest.groups, largest.means.tolist(), gaps, strict=True):
        number = int(cells.num_answers[np.equal(cells.groups or cells.names, name)].sum())
        terms.append(TermDecisions(name, None if np.isnan(mean) else mean, number, gap, None))
    return AxisDecisions(
        terms=terms,
        left_out=sorted({*largest.groups} - compared | {*without}),
        spread=spread,
        p_value=largest.p_value if spread is None else spread.p_value,
        adjusted_p=None,
        pair=_pair(largest, has_rates),
        baseline=baseline,
        unanswered=float(np.nanmean(cells.unanswered)),
        unanswered_pair=None if unread is None else _pair(unread, False),
        unanswered_p=None if unread is None else unread.p_value,
        refused=float(np.nanmean(cells.refused)),
    )


def _known(estimate: statistics.DecisionEstimate) -> statistics.DecisionEstimate | None:
    return None if np.isnan(estimate.value) else estimate


def _pair(gaps: NameGaps, has_rates: bool) -> TermPair | None:
    largest = gaps.largest
    if largest is None:
        return None
    has_ratio = has_rates and np.isfinite(largest.ratio.value)
    high, low = gaps.groups[largest.high], gaps.groups[largest.low]
    return TermPair(high, low, largest.gap, largest.means, largest.ratio if has_ratio else None)


def _adjusted(by_axis: Mapping[str, AxisDecisions]) -> dict[str, AxisDecisions]:
    """Adjusts the p-values of axes, and those of terms, with the method of Benjamini and Hochberg."""
    of_axes = _benjamini_hochberg({name: axis.p_value for name, axis in by_axis.items()})
    gaps = {(name, term.name): term.gap for name, axis in by_axis.items() for term in axis.terms}
    of_terms = _benjamini_hochberg({key: gap and gap.p_value for key, gap in gaps.items()})
    number = sum(axis.unanswered_p is not None for axis in by_axis.values())
    adjusted = {}
    for name, axis in by_axis.items():
        terms = [replace(term, adjusted_p=of_terms.get((name, term.name))) for term in axis.terms]
        unanswered_p = None if axis.unanswered_p is None else min(1.0, number * axis.unanswered_p)
        adjusted[name] = replace(axis, terms=terms, adjusted_p=of_axes.get(name), unanswered_p=unanswered_p)
    return adjusted


def _benjamini_hochberg(p_values: Mapping[T, float | None]) -> dict[T, float]:
    """Adjusts the known p-values."""
    known = {key: p_value for key, p_value in p_values.items() if p_value is not None}
    adjusted = stats.false_discovery_control([*known.values()]).tolist() if known else []
    return dict(zip(known, adjusted, strict=True))


def _prompts_by_part(kind: str, part_of: Sequence[str | None]) -> dict[str, list[int]]:
    """Returns the prompts of each part, such as a topic. A single part would repeat the whole, so it is left out.

    `part_of` is the part of each prompt.
    """
    parts = grouped((f"{kind} {part}", prompt) for prompt, part in enumerate(part_of) if part is not None)
    return parts if len(parts) > 1 else {}


def _name_gaps_by_part(cells: Cells, parts: Mapping[str, list[int]]) -> dict[str, TermPair]:
    """Finds the largest gap between groups of names in each part of the prompts."""
    assert cells.groups is not None
    tables = {name: _part_means(cells, prompts) for name, prompts in parts.items()}
    num_tests = sum(name_gaps(table, cells.groups).p_value is not None for table in tables.values())
    pairs = {}
    for name, table in tables.items():
        gaps = name_gaps(table, cells.groups, 1 - (1 - CONFIDENCE_LEVEL) / max(num_tests, 1))
        pair = _pair(gaps, False)
        if pair is not None:
            p_value = None if gaps.p_value is None else min(1.0, gaps.p_value * num_tests)
            pairs[name] = replace(pair, gap=pair.gap._replace(p_value=p_value))
    return pairs


def _spread_by_part(cells: Mapping[str, Cells], parts: Mapping[str, list[int]], seed: int) -> dict[str, Part]:
    """Computes the spread between terms in each part of the prompts."""
    of_terms = [of_axis for of_axis in cells.values() if of_axis.groups is None]
    if not of_terms:
        return {}
    by_part = {}
    means_of = {name: [_part_means(of_axis, prompts) for of_axis in of_terms] for name, prompts in parts.items()}
    compared_of = {name: [compared_terms(table) for table in tables] for name, tables in means_of.items()}
    # A part with too few questions is not tested, so it must not make the tests of other parts stricter.
    num_tests = sum(any(reason is None for _, reason in compared) for compared in compared_of.values())
    for name, tables in means_of.items():
        ends: list[tuple[float, tuple[str, str]]] = []
        has_test = any(reason is None for _, reason in compared_of[name])
        for of_axis, table, (compared, reason) in zip(of_terms, tables, compared_of[name], strict=True):
            if len(compared) and (reason is None or not has_test):  # like the spread
                means = term_means(table)[compared]
                high, low = (of_axis.names[compared[row]] for row in (means.argmax(), means.argmin()))
                ends.append((float(np.ptp(means)), (high, low)))
        spread = _known(spread_between(tables, CONFIDENCE_LEVEL, seed=seed, num_tests=num_tests))
        if spread is not None:
            by_part[name] = Part(spread, max(ends)[1] if ends else None)
            if spread.p_value is not None and spread.p_value * num_tests < ALPHA_OF_PARTS:
                level = 1 - (1 - CONFIDENCE_LEVEL) / num_tests
                gaps = [largest_of(*pair, level, seed=seed) for pair in zip(of_terms, tables, strict=True)]
                pairs = [pair for pair in (_pair(gap, False) for gap in gaps) if pair is not None and pair.gap.interval]
                by_part[name] = replace(by_part[name], pair=max(pairs, key=lambda pair: pair.gap.value))
    return by_part


def _part_means(cells: Cells, prompts: list[int]) -> np.ndarray:
    rows = [len(ORDERS) * prompt + order for prompt in prompts for order in ORDERS]
    return question_means(cells.values[rows], [cells.questions[row] for row in rows])


def _order_effect(prompts: Sequence[OwnPrompt], cells: Mapping[str, Cells]) -> statistics.DecisionEstimate | None:
    """Compares answers whose prompts name the favourable option first with those that name it last.

    Only terms, or names, with answers to a prompt in both orders are compared, because answers may be missing in one.
    """
    signs = np.full(len(prompts), np.nan)
    for row, outcome in enumerate(prompt.outcome for prompt in prompts):
        if isinstance(outcome, Choice) and outcome.favourable in (outcome.options[0], outcome.options[-1]):
            signs[row] = 1 if outcome.favourable == outcome.options[0] else -1
    values = np.hstack([np.empty((len(ORDERS) * len(prompts), 0)), *(of.values for of in cells.values())])
    table = question_means(signs[:, None] * (values[::2] - values[1::2]), [prompt.question for prompt in prompts])
    return _known(statistics.mean_difference(table, CONFIDENCE_LEVEL))


def _example(answers: Sequence[DecisionAnswer], by_axis: Mapping[str, AxisDecisions]) -> Example | None:
    """Chooses two answers about the terms that clearly differ most: the median of those that differ like the terms.

    Their prompts differ only in the term or, if the terms have no noun in common, also in the noun.
    """
    clear = clear_pair(by_axis)
    if clear is None:
        return None
    axis, pair = clear
    gaps = _gaps_like(answers, axis, pair, by_noun=True) or _gaps_like(answers, axis, pair, by_noun=False)
    if not gaps:
        return None
    *_, of_high, of_low = gaps[len(gaps) // 2]
    return Example(
        axis, pair.high, pair.low, Answered(of_high.prompt, of_high.shown), Answered(of_low.prompt, of_low.shown)
    )


def _gaps_like(
    answers: Sequence[DecisionAnswer], axis: str, pair: TermPair, *, by_noun: bool
) -> list[tuple[float, int, DecisionAnswer, DecisionAnswer]]:
    """Lists two answers to each prompt, or to each prompt with each noun, if they differ like the two terms.

    The values are the answers' difference, a number and the answers, sorted by the difference.
    """
    sides = grouped(
        ((answer.own_id, answer.order, answer.noun if by_noun else None), answer)
        for answer in answers
        if answer.axis == axis and answer.value is not None
    )
    gaps = []
    for number, of_prompt in enumerate(sides.values()):
        high, low = (
            [answer for answer in of_prompt if name == (answer.group if axis == NAMES_AXIS else answer.term)]
            for name in (pair.high, pair.low)
        )
        if high and low:
            of_high, of_low = _by_value(high)[len(high) // 2], _by_value(low)[(len(low) - 1) // 2]
            gaps.append(((of_high.value or 0) - (of_low.value or 0), number, of_high, of_low))
    return sorted(gap for gap in gaps if gap[0] > 0)


def _by_value(answers: Sequence[DecisionAnswer]) -> list[DecisionAnswer]:
    return sorted(answers, key=lambda answer: (answer.value or 0.0, answer.prompt))
