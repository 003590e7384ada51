"""Corrects a judge's rates with the labels that people gave in a label study."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from hb_dataset.command_line import AXIS_CUTOFF, did_you_mean
from hb_metrics.human_eval.calibration_results import LAYOUT, Calibration, RateGap
from hb_metrics.human_eval.labels import (
    Instrument,
    LabelStudy,
    corrected_by_axis,
    drawn_replies,
    rate_of,
    rows_of_tasks,
)
from hb_metrics.human_eval.ratings import read_lines
from hb_metrics.stats.calibration import (
    alternative_annotator,
    corrected_gap,
    judge_agreement,
    krippendorff_alpha,
)


class Labels(NamedTuple):
    """The labels that people gave in a label study.

    `numbers` [replies, raters] contains the index of the label that each rater gave, or -1 if there is no label.
    `num_duplicates` counts repeated lines in the files.
    """

    raters: list[str]
    numbers: np.ndarray
    num_duplicates: int


class ComparedGroup(NamedTuple):
    name: str
    rows: np.ndarray

    @classmethod
    def read(cls, text: str, judged: Instrument) -> "ComparedGroup":
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
    study: LabelStudy, judged: Instrument, labels: Labels, gaps: Sequence[tuple[ComparedGroup, ComparedGroup]]
) -> Calibration:
    """Corrects the judge's rates, and computes how well the judge agrees with people.

    `gaps` contains pairs of groups to compare. Each axis is always compared with all other axes.
    """
    # If the judge's labels have changed since the draw, the labelled replies are no random sample of today's strata.
    if drawn_replies(judged, study.axes, len(study.replies), study.seed) != study.replies:
        raise ValueError(
            f"the labelled replies were not drawn from this run's replies with their present labels by {study.judge}; "
            "pass the run from which they were drawn, or analyse it with the release with which they were drawn"
        )
    rows_of = {identifier: row for row, identifier in enumerate(judged.replies.ids)}
    drawn = np.array([rows_of[reply["id"]] for reply in study.replies])
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


def _pairs_of_axes(judged: Instrument, axes: Sequence[str]) -> list[tuple[ComparedGroup, ComparedGroup]]:
    """Pairs each axis with all other axes. Two axes are one pair."""
    groups = [ComparedGroup(axis, judged.population([axis])) for axis in axes]
    if len(groups) < 2:
        return []
    if len(groups) == 2:
        return [(groups[0], groups[1])]
    population = judged.population(axes)
    return [(group, ComparedGroup("the other axes", population & ~group.rows)) for group in groups]


def _gap(
    judged: Instrument, labels: np.ndarray, axes: Sequence[str], first: ComparedGroup, second: ComparedGroup
) -> RateGap:
    terms, outside = judged.codes[0], ~judged.population(axes)
    if set(terms[first.rows]) & set(terms[second.rows]) or ((first.rows | second.rows) & outside).any():
        names = f"the groups '{first.name}' and '{second.name}'"
        raise ValueError(f"{names} share terms, or contain terms from axes other than {', '.join(axes)}")
    one, other = (rate_of(judged, labels, group.rows) for group in (first, second))
    value = None if one.value is None or other.value is None else one.value - other.value
    interval, judges = corrected_gap(one, other), one.judged - other.judged
    return RateGap(first.name, second.name, value, interval, judges, (one, other))
