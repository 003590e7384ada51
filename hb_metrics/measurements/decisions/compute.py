"""Computes the results of `decisions` from the run's tables."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from hb_dataset.names import NAMES_AXIS
from hb_dataset.own_prompts import Choice, OwnPrompt
from hb_metrics.measurements.decisions.answers import Answer, read_answers
from hb_metrics.measurements.decisions.results import (
    Answered,
    Axis,
    Decisions,
    Estimate,
    Example,
    Pair,
    Term,
    differs,
)
from hb_metrics.run.finished_run import Run
from hb_metrics.stats import decisions as statistics


class Cells(NamedTuple):
    """The answers about the terms of an axis, averaged by prompt and term: [prompts, terms], NaN if there are none.

    Attributes:
        groups: [terms] The group of each name, or `None` for terms.
    """

    names: list[str]
    groups: list[str] | None
    values: np.ndarray
    unanswered: np.ndarray
    refused: np.ndarray
    num_answers: np.ndarray


def compute(run: Run) -> dict[str, Any]:
    prompts, answers = read_answers(run)
    return asdict(decisions(prompts, answers, run.confidence_level, run.results["run"]["settings"]["seed"]))


def decisions(
    prompts: Sequence[OwnPrompt], answers: Sequence[Answer], confidence_level: float = 0.95, seed: int = 0
) -> Decisions:
    """Computes the results from the answers to prompts that have an outcome."""
    questions = [prompt.question for prompt in prompts]
    cells = _cells(prompts, [answer for answer in answers if answer.axis is not None])
    without = [answer for answer in answers if answer.axis is None]
    baseline = _cells(prompts, without)[""] if without else None
    tables = {axis: statistics.question_means(of_axis.values, questions) for axis, of_axis in cells.items()}
    of_terms = [tables[axis] for axis, of_axis in cells.items() if of_axis.groups is None]
    base = None if baseline is None else statistics.question_means(baseline.values, questions)[:, 0]
    how = _How(questions, confidence_level, seed)
    has_rates = all(isinstance(prompt.outcome, Choice) for prompt in prompts)
    by_axis = _adjusted({axis: _axis(cells[axis], tables[axis], base, how, has_rates) for axis in cells})
    spread = None
    if of_terms:
        spread = _spread(statistics.spread_between(of_terms, confidence_level, seed=seed))
    masses = [answer.mass for answer in answers if answer.mass is not None]
    return Decisions(
        num_prompts=len(prompts),
        num_questions=len(set(questions)),
        num_answers=len(answers),
        num_unanswered=sum(answer.value is None for answer in answers),
        confidence_level=confidence_level,
        spread=spread,
        by_axis=by_axis,
        by_topic=_parts(prompts, cells, [prompt.topic for prompt in prompts], how),
        by_wording=_parts(prompts, cells, _wordings(questions), how),
        order_effect=_order_effect(prompts, answers, how),
        option_mass=float(np.mean(masses)) if masses else None,
        example=_example(prompts, answers, by_axis),
    )


class _How(NamedTuple):
    questions: list[str]
    confidence_level: float
    seed: int


def _cells(prompts: Sequence[OwnPrompt], answers: Sequence[Answer]) -> dict[str, Cells]:
    """Averages the answers by axis, prompt and term. Prompts without a term have the key ""."""
    rows = {prompt.id: row for row, prompt in enumerate(prompts)}
    by_axis: dict[str, list[Answer]] = {}
    for answer in answers:
        by_axis.setdefault(answer.axis or "", []).append(answer)
    cells = {}
    for axis, of_axis in by_axis.items():
        groups = {answer.term or "": answer.group or "" for answer in of_axis}
        columns = {name: column for column, name in enumerate(groups)}
        places = [rows[answer.own_id] for answer in of_axis], [columns[answer.term or ""] for answer in of_axis]
        values = np.array([np.nan if answer.value is None else answer.value for answer in of_axis])
        refused = np.array([float(answer.is_refusal) for answer in of_axis])
        unanswered, shape = np.isnan(values), (len(prompts), len(columns))
        cells[axis] = Cells(
            list(columns),
            list(groups.values()) if axis == NAMES_AXIS else None,
            statistics.mean_table(values, *places, shape),
            statistics.mean_table(unanswered.astype(float), *places, shape),
            statistics.mean_table(refused, *places, shape),
            np.bincount(np.array(places[1])[~unanswered], minlength=len(columns)),
        )
    return cells


def _axis(cells: Cells, table: np.ndarray, base: np.ndarray | None, how: _How, has_rates: bool) -> Axis:
    unanswered = statistics.question_means(cells.unanswered, how.questions)
    common: dict[str, Any] = {
        "unanswered": float(np.nanmean(cells.unanswered)),
        "refused": float(np.nanmean(cells.refused)),
        "unanswered_pair": _pair(_largest(cells, unanswered, how), False) if np.nanmax(cells.unanswered) > 0 else None,
        "baseline": None,
        "adjusted_p": None,
    }
    if base is not None and cells.groups is None:
        found = statistics.difference(statistics.row_means(table), base, how.confidence_level)
        common["baseline"] = _estimate(found)
    largest = _largest(cells, table, how)
    common["pair"] = _pair(largest, has_rates)
    if cells.groups is not None:
        members = {one: np.array([group == one for group in cells.groups]) for one in sorted(set(cells.groups))}
        terms = [
            Term(group, _mean(table[:, chosen]), int(cells.num_answers[chosen].sum()), None, None)
            for group, chosen in members.items()
        ]
        return Axis(terms=terms, spread=None, p_value=largest.p_value, **common)
    gaps = statistics.gaps_to_mean(table, how.confidence_level)
    terms = [
        Term(name, _mean(table[:, [column]]), int(cells.num_answers[column]), _estimate(gap), None)
        for column, (name, gap) in enumerate(zip(cells.names, gaps, strict=True))
    ]
    spread = _spread(statistics.spread_between([table], how.confidence_level, seed=how.seed))
    return Axis(terms=terms, spread=spread, p_value=spread.p_value, **common)


def _largest(cells: Cells, table: np.ndarray, how: _How) -> statistics.NameGaps:
    """Finds the largest gap between terms, which has no p-value of its own, or between groups of names."""
    if cells.groups is not None:
        return statistics.name_gaps(table, cells.groups, how.confidence_level)
    return statistics.NameGaps(
        cells.names, statistics.largest_gap(table, how.confidence_level, seed=how.seed), p_value=None
    )


def _pair(found: statistics.NameGaps, has_rates: bool) -> Pair | None:
    names, largest, _ = found
    if largest is None:
        return None
    has_ratio = has_rates and np.isfinite(largest.ratio.value)
    ratio = _estimate(largest.ratio) if has_ratio else None
    return Pair(names[largest.high], names[largest.low], _estimate(largest.gap), ratio)


def _adjusted(by_axis: Mapping[str, Axis]) -> dict[str, Axis]:
    """Adjusts the p-values of axes, and those of terms, with the method of Benjamini and Hochberg."""
    tested = [axis for axis, of_axis in by_axis.items() if of_axis.p_value is not None]
    adjusted = dict(zip(tested, _benjamini_hochberg([by_axis[axis].p_value for axis in tested]), strict=True))
    places = [
        (axis, number)
        for axis, of_axis in by_axis.items()
        for number, term in enumerate(of_axis.terms)
        if term.gap is not None and term.gap.p_value is not None
    ]
    values = [by_axis[axis].terms[number].gap.p_value for axis, number in places]  # type: ignore[union-attr]
    of_terms = dict(zip(places, _benjamini_hochberg(values), strict=True))
    found = {}
    for axis, of_axis in by_axis.items():
        terms = [replace(term, adjusted_p=of_terms.get((axis, number))) for number, term in enumerate(of_axis.terms)]
        found[axis] = replace(of_axis, terms=terms, adjusted_p=adjusted.get(axis))
    return found


def _benjamini_hochberg(values: Sequence[float | None]) -> list[float]:
    return [float(value) for value in stats.false_discovery_control(values)] if values else []


def _parts(
    prompts: Sequence[OwnPrompt], cells: Mapping[str, Cells], part_of: Sequence[str | None], how: _How
) -> dict[str, Estimate]:
    """Computes the spread in each part of the prompts, such as a topic. A single part would repeat the whole."""
    names = list(dict.fromkeys(part for part in part_of if part is not None))
    found = {}
    for name in names if len(names) > 1 else []:
        rows = [row for row, part in enumerate(part_of) if part == name]
        questions = [how.questions[row] for row in rows]
        tables = [
            statistics.question_means(of_axis.values[rows], questions)
            for of_axis in cells.values()
            if of_axis.groups is None
        ]
        if tables:
            found[name] = _spread(statistics.spread_between(tables, how.confidence_level, seed=how.seed))
    return found


def _wordings(questions: Sequence[str]) -> list[str]:
    numbers: dict[str, int] = {}
    wordings = []
    for question in questions:
        numbers[question] = numbers.get(question, 0) + 1
        wordings.append(f"wording {numbers[question]}")
    return wordings


def _order_effect(prompts: Sequence[OwnPrompt], answers: Sequence[Answer], how: _How) -> Estimate | None:
    """Compares answers whose prompts name the favourable option first with those that name it last."""
    rows = {prompt.id: row for row, prompt in enumerate(prompts)}
    known: list[tuple[float, int, int]] = []
    for answer in answers:
        row = rows[answer.own_id]
        outcome = prompts[row].outcome
        if not isinstance(outcome, Choice) or answer.value is None:
            continue
        ends = outcome.options[0], outcome.options[-1]
        if outcome.favourable in ends:
            is_first = (outcome.favourable == ends[0]) == (answer.order == 0)
            known.append((answer.value, row, int(is_first)))
    if not known:
        return None
    values, places, is_firsts = zip(*known, strict=True)
    means = statistics.mean_table(np.array(values), places, is_firsts, (len(prompts), 2))
    if not np.isfinite(means).all(axis=1).any():
        return None
    table = statistics.question_means(means, how.questions)
    return _estimate(statistics.difference(table[:, 1], table[:, 0], how.confidence_level))


def _example(prompts: Sequence[OwnPrompt], answers: Sequence[Answer], by_axis: Mapping[str, Axis]) -> Example | None:
    """Chooses the question with the median gap between the two terms that clearly differ most, if any do."""
    clear = [(axis, of_axis.pair) for axis, of_axis in by_axis.items() if of_axis.pair is not None and differs(of_axis)]
    if not clear:
        return None
    axis, pair = max(clear, key=lambda item: item[1].gap.value)
    by_prompt: dict[str, dict[str, list[Answer]]] = {}
    for answer in answers:
        name = answer.group if axis == NAMES_AXIS else answer.term
        if answer.axis == axis and name in (pair.high, pair.low) and answer.value is not None:
            by_prompt.setdefault(answer.own_id, {}).setdefault(str(name), []).append(answer)
    gaps = []
    for row, prompt in enumerate(prompts):
        sides = by_prompt.get(prompt.id, {})
        if len(sides) == 2:
            means = [float(np.mean([answer.value for answer in sides[name]])) for name in (pair.high, pair.low)]
            gaps.append((means[0] - means[1], row))
    if not gaps:
        return None
    _, row = sorted(gaps)[len(gaps) // 2]
    sides = by_prompt[prompts[row].id]
    shown = [_median_answer(sides[name]) for name in (pair.high, pair.low)]
    return Example(axis, pair.high, pair.low, *(Answered(answer.prompt, answer.shown) for answer in shown))


def _median_answer(answers: Sequence[Answer]) -> Answer:
    return sorted(answers, key=lambda answer: (answer.value or 0.0, answer.prompt))[len(answers) // 2]


def _mean(values: np.ndarray) -> float | None:
    return None if np.isnan(values).all() else float(np.nanmean(values))


def _estimate(gap: statistics.Gap) -> Estimate:
    return Estimate(gap.value, gap.interval, gap.reason, gap.p_value)


def _spread(spread: statistics.Spread) -> Estimate:
    return Estimate(spread.value, spread.interval, spread.reason, spread.p_value)
