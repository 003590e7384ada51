"""Draws, writes and reads `labels.json`, a study in which people label replies that a judge has already labelled.

A stratum contains the replies with the same axis and the same verdict from the judge. At least two replies are drawn
from each stratum. The rest of the sample is divided among the strata in proportion to √N, where N is the number of
replies in a stratum. If a verdict is rare, people therefore label a larger share of its replies.
"""

from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

import numpy as np

from hb_dataset.seeded_draws import seeded_generator
from hb_metrics.human_eval.instruments import Instrument
from hb_metrics.human_eval.study_files import digest, rater_names, read_study_file

LABELS_FILE = "labels.json"
LAYOUT = 2
MIN_PER_STRATUM = 2


class LabelStudy(NamedTuple):
    """A study in which people label replies.

    `id` is the digest of all other fields, and `run` is the digest of the run. `labels` contains names and definitions.
    `sheets` contains the rows of `replies` for each rater, in the rater's order.
    """

    id: str
    judge: str
    run: str
    axes: list[str]
    seed: int
    question: str
    labels: list[list[str]]
    replies: list[dict[str, str]]
    sheets: dict[str, list[int]]

    def tasks(self, rater: str) -> list[str]:
        """Returns the ids of a rater's tasks, in the rater's order. The ids do not reveal the judge's labels."""
        return [digest([self.id, rater, place]) for place in range(len(self.sheets[rater]))]


def draw_labels(
    judged: Instrument, *, axes: Collection[str], number: int, num_raters: int, seed: int, run: str
) -> LabelStudy:
    by_stratum: dict[tuple[str, bool], list[int]] = {}
    for row, verdict in enumerate(judged.verdicts.tolist()):
        if judged.replies.axes[row] in axes:
            by_stratum.setdefault((judged.replies.axes[row], verdict), []).append(row)
    strata = sorted(by_stratum)
    sizes = np.array([len(by_stratum[stratum]) for stratum in strata], np.int64)
    least = int(np.minimum(sizes, MIN_PER_STRATUM).sum())
    if not least <= number <= sizes.sum():
        raise ValueError(
            f"num is {number:,}; set --num to a number from {least:,} (two replies per axis and verdict) to "
            f"{sizes.sum():,} (all replies)"
        )
    replies = []
    for stratum, drawn in zip(strata, allocate(sizes, number, np.sqrt(sizes)).tolist(), strict=True):
        rows = sorted(by_stratum[stratum], key=lambda row: judged.replies.ids[row])
        order = seeded_generator(seed, "labels", repr(stratum)).permutation(len(rows))
        for place in order[:drawn].tolist():
            id, *_, prompt, text = (column[rows[place]] for column in judged.replies)
            replies.append({"id": id, "prompt": prompt, "reply": text})
    replies.sort(key=lambda reply: reply["id"])
    sheets = {}
    for name in rater_names(num_raters):
        sheets[name] = seeded_generator(seed, "order of labels", name).permutation(number).tolist()
    labels = [list(label) for label in judged.labels]
    study = LabelStudy("", judged.name, run, sorted(axes), seed, judged.question, labels, replies, sheets)
    return study._replace(id=digest(study[1:]))


def allocate(sizes: np.ndarray, number: int, wanted: np.ndarray) -> np.ndarray:
    """Divides `number` labels among strata with `sizes` replies, in proportion to `wanted`.

    Each stratum gets at least two labels, and at most one label per reply. `number` must be large enough for two labels
    per stratum.
    """
    stratum = np.repeat(np.arange(len(sizes)), sizes)
    place = np.arange(len(stratum)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    urgency = np.where(place < MIN_PER_STRATUM, np.inf, wanted[stratum] / (place + 1))
    chosen = np.argsort(-urgency, kind="stable")[:number]
    return np.bincount(stratum[chosen], minlength=len(sizes))


def read_label_study(path: Path) -> LabelStudy:
    return read_study_file(path, LAYOUT, lambda content: LabelStudy(**content), "labels")


def rows_of_tasks(study: LabelStudy) -> dict[str, int]:
    rows: dict[str, int] = {}
    for rater in study.sheets:
        rows.update(zip(study.tasks(rater), study.sheets[rater], strict=True))
    return rows
