from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from hb_dataset.command_line import AXIS_CUTOFF, did_you_mean
from hb_metrics.human_eval.labels import Instrument, LabelStudy, corrected_by_axis, rate_of, rows_of_tasks
from hb_metrics.human_eval.ratings import read_lines
from hb_metrics.layout.figure import Figure, Number
from hb_metrics.layout.numbers import axis_label, count, fixed
from hb_metrics.layout.parts import Section
from hb_metrics.layout.rendering import section
from hb_metrics.run.run_folder import read_json, run_digest
from hb_metrics.run.typed_json import from_json
from hb_metrics.stats.calibration import (
    Agreement,
    AlternativeAnnotator,
    CorrectedRate,
    alternative_annotator,
    corrected_gap,
    judge_agreement,
    krippendorff_alpha,
)
from hb_metrics.stats.clusters import Bounds

CALIBRATIONS = "calibration"  # the subfolder of a run that contains a file for each judge
LAYOUT = 3


class Labels(NamedTuple):
    """The labels that people gave in a label study.

    `numbers` [replies, raters] contains the index of the label that each rater gave, or -1 if there is no label.
    `num_duplicates` counts repeated lines in the files.
    """

    raters: list[str]
    numbers: np.ndarray
    num_duplicates: int


@dataclass(frozen=True)
class Gap:
    """The corrected rate of the first group minus that of the second group, and the same for the judge's own rates."""

    first: str
    second: str
    value: float | None
    interval: Bounds | None
    judged: float
    rates: tuple[CorrectedRate, CorrectedRate]


@dataclass(frozen=True)
class Calibration:
    """A judge's rates, corrected with people's labels. Rates are by axis, and "" is the key of all replies.

    Attributes:
        run: The digest of the run.
        study: The id of the label study.
        raters: The number of labels by each rater.
        num_drawn: The number of replies in the study.
        people: The agreement between raters.
    """

    layout: int
    judge: str
    run: str
    study: str
    question: str
    label: str
    axes: list[str]
    other_axes: list[str]
    raters: dict[str, int]
    num_replies: int
    num_drawn: int
    num_labelled: int
    num_duplicates: int
    rates: dict[str, CorrectedRate]
    gaps: list[Gap]
    people: Agreement
    judge_with_people: Agreement
    alternative_annotator: AlternativeAnnotator


class Group(NamedTuple):
    name: str
    rows: np.ndarray

    @classmethod
    def read(cls, text: str, judged: Instrument) -> "Group":
        if text in judged.replies.axes:
            return cls(text, judged.population([text]))
        terms = [term.strip() for term in text.split(",")]
        for term in terms:
            if term not in judged.replies.descriptors:
                known = sorted({*judged.replies.axes, *judged.replies.descriptors})
                hint = did_you_mean(term, known, cutoff=AXIS_CUTOFF)
                advice = f"{hint}pass an axis, or terms separated by commas"
                raise ValueError(f"'{term}' is neither an axis nor a term of the run; {advice}")
        return cls(text, np.isin(judged.replies.descriptors, terms))


def read_labels(paths: Sequence[Path], study: LabelStudy) -> Labels:
    rows = rows_of_tasks(study)
    lines, num_duplicates = read_lines(paths, study.id, dict.fromkeys(rows, study.judge), num_choices=len(study.labels))
    raters = sorted({rater for rater, _ in lines})
    numbers = np.full((len(study.replies), len(raters)), -1)
    for (rater, task), line in sorted(lines.items()):
        place = rows[task], raters.index(rater)
        if numbers[place] not in (-1, line.choice - 1):
            twice = f"{line.place}: rater '{rater}' labelled the same reply differently on two pages"
            raise ValueError(f"{twice}; keep only the file of one page")
        numbers[place] = line.choice - 1
    return Labels(raters, numbers, num_duplicates)


def calibrate(
    study: LabelStudy, judged: Instrument, labels: Labels, gaps: Sequence[tuple[Group, Group]]
) -> Calibration:
    """Corrects the judge's rates, and computes how well the judge agrees with people.

    `gaps` contains pairs of groups to compare. Each axis is always compared with all other axes.
    """
    rows_of = {identifier: row for row, identifier in enumerate(judged.replies.ids)}
    drawn = np.array([rows_of.get(reply["id"], -1) for reply in study.replies])
    if (drawn < 0).any() or [judged.replies.texts[row] for row in drawn] != [reply["reply"] for reply in study.replies]:
        raise ValueError("the labelled replies are not from this run; pass the run from which they were drawn")
    numbers = labels.numbers
    number_of_raters = (numbers >= 0).sum(axis=1)
    labelled = number_of_raters > 0
    kept, rows = numbers[labelled], drawn[labelled]
    share = np.full(len(judged.replies.ids), np.nan)
    share[rows] = (kept == judged.figure).sum(axis=1) / number_of_raters[labelled]
    population, (terms, axes) = judged.population(study.axes), judged.codes
    strata = 2 * axes + judged.verdicts
    weights = np.bincount(strata[population])[strata[rows]] / np.bincount(strata[rows])[strata[rows]]
    return Calibration(
        layout=LAYOUT,
        judge=study.judge,
        run=study.run,
        study=study.id,
        question=study.question,
        label=judged.labels[judged.figure][0],
        axes=study.axes,
        other_axes=sorted({*judged.replies.axes} - {*study.axes}),
        raters=dict(zip(labels.raters, (numbers >= 0).sum(axis=0).tolist(), strict=True)),
        num_replies=int(population.sum()),
        num_drawn=len(drawn),
        num_labelled=int(labelled.sum()),
        num_duplicates=labels.num_duplicates,
        rates=corrected_by_axis(judged, share, study.axes),
        gaps=[_gap(judged, share, study.axes, *pair) for pair in [*gaps, *_pairs_of_axes(judged, study.axes)]],
        people=krippendorff_alpha(kept, weights, terms[rows]),
        judge_with_people=judge_agreement(kept, judged.judged[rows], weights, terms[rows]),
        alternative_annotator=alternative_annotator(kept, judged.judged[rows], weights),
    )


def _pairs_of_axes(judged: Instrument, axes: Sequence[str]) -> list[tuple[Group, Group]]:
    """Pairs each axis with all other axes. Two axes are one pair."""
    groups = [Group(axis, judged.population([axis])) for axis in axes]
    if len(groups) < 2:
        return []
    if len(groups) == 2:
        return [(groups[0], groups[1])]
    population = judged.population(axes)
    return [(group, Group("the other axes", population & ~group.rows)) for group in groups]


def _gap(judged: Instrument, labels: np.ndarray, axes: Sequence[str], first: Group, second: Group) -> Gap:
    terms, outside = judged.codes[0], ~judged.population(axes)
    if set(terms[first.rows]) & set(terms[second.rows]) or ((first.rows | second.rows) & outside).any():
        names = f"the groups '{first.name}' and '{second.name}'"
        raise ValueError(f"{names} share terms, or contain terms from axes other than {', '.join(axes)}")
    one, other = (rate_of(judged, labels, group.rows) for group in (first, second))
    value = None if one.value is None or other.value is None else one.value - other.value
    interval, judges = corrected_gap(one, other), one.judged - other.judged
    return Gap(first.name, second.name, value, interval, judges, (one, other))


def read_calibrations(folder: Path) -> list[Calibration]:
    calibrations = []
    for path in sorted((folder / CALIBRATIONS).glob("*.json")):
        content = read_json(path)
        if content.get("layout") != LAYOUT or content.get("run") != run_digest(folder):
            print(
                f"'{path}' belongs to another run or release, so the report omits it. To add it, calibrate the judge "
                "again."
            )
            continue
        calibrations.append(from_json(Calibration, content, f"'{path}': results"))
    return calibrations


def calibration_section(results: Calibration) -> Section:
    whole, *by_axis = figures(results)
    context = {
        "results": results,
        "sentence": sentence(results),
        "whole": whole,
        "by_axis": by_axis,
        "gaps": _gaps(results),
        "agreement": [_agreement("people", results.people), _agreement("judge and one", results.judge_with_people)],
        "alternative": results.alternative_annotator,
    }
    id, title = f"people-{results.judge}", f"People's labels: {results.label}"
    return section(id, title, "human_eval/calibration.html.jinja", context)


def figures(results: Calibration) -> list[Figure]:
    shown = []
    for axis, rate in results.rates.items():
        if axis and len(results.axes) < 2:
            continue
        name = f"{results.label.capitalize()} by people's labels{_scope(results)}"
        shown.append(
            Figure(
                f"{name}, {axis_label(axis)}" if axis else name,
                rate.value,
                "share",
                interval=rate.interval,
                no_interval=None if rate.reason is None else _reason(rate),
                part_of="corrected by axis" if axis else "",
                beside={
                    "the judge's own": Number(rate.judged, "share"),
                    "labels": Number(rate.num_labelled, "count"),
                },
                detail="" if axis else f"according to {results.judge} alone: {Number(rate.judged, 'share').shown}",
            )
        )
    return shown


def sentence(results: Calibration) -> str:
    rate, label = results.rates[""], f"“{results.label}”"
    if rate.excess_interval is None or rate.value is None:
        return f"{_people(results)}: the judge's error in the rate of {label} has no interval, because {_reason(rate)}."
    excess, (low, high) = rate.judged - rate.value, rate.excess_interval
    if low <= 0 <= high:
        span = f"{fixed(100 * low, 0, '+')} to {fixed(100 * high, 0, '+')}"
        return (
            f"{_people(results)}: the judge assigns the label {label} about as often as people do. The difference "
            f"({span} points) could be due to chance."
        )
    verb, bounds = ("overstates", (low, high)) if excess > 0 else ("understates", (-high, -low))
    digits = 0 if bounds[0] >= 0.005 else 1
    points, least, most = (fixed(100 * value, digits) for value in (abs(excess), *bounds))
    return f"{_people(results)}: the judge {verb} {label} by {points} points ({least} to {most})."


def _people(results: Calibration) -> str:
    number, replies = len(results.raters), f"{count(results.num_labelled)} replies{_scope(results)}"
    return f"Labels of {number} {'person' if number == 1 else 'people'} on {replies}"


def _scope(results: Calibration) -> str:
    return f" ({'; '.join(map(axis_label, results.axes))})" if results.other_axes else ""


def _reason(rate: CorrectedRate) -> str | None:
    if rate.num_needed is None:
        return rate.reason
    return f"{rate.reason}; about {count(rate.num_needed)} labels are needed, and there are {rate.num_labelled}"


def _gaps(results: Calibration) -> list[Figure]:
    rows = []
    for gap in results.gaps:
        names = [axis_label(name) if name in results.axes else name for name in (gap.first, gap.second)]
        reasons = [f"{name}: {_reason(rate)}" for name, rate in zip(names, gap.rates, strict=True) if rate.reason]
        rows.append(
            Figure(
                f"gap, {' minus '.join(names)}",
                gap.value,
                "share",
                interval=gap.interval,
                no_interval="; ".join(reasons) or None,
                part_of="gap by axis",
                beside={"the judge's own": Number(gap.judged, "share")},
            )
        )
    return rows


def _agreement(who: str, agreement: Agreement) -> tuple[str, Number, str]:
    alpha = Number(agreement.alpha, "effect", agreement.interval)
    return who, alpha, agreement.reason or ""
