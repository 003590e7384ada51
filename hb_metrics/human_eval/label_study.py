"""Draws, writes and reads `labels.json`, a study in which people label replies that a judge has already labelled.

A stratum contains the replies with the same axis and the same verdict from the judge. At least two replies are drawn
from each stratum. The rest of the sample is divided among the strata in proportion to √N, where N is the number of
replies in a stratum. If a verdict is rare, people therefore label a larger share of its replies.
"""

from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

import numpy as np

from hb_dataset.command_line import did_you_mean
from hb_dataset.seeded_draws import seeded_generator
from hb_metrics.collect.judges.rubric import OFFENSIVENESS, REFUSALS, read_rubric, recorded_rubric
from hb_metrics.human_eval.study import digest, rater_names, read_study_file
from hb_metrics.measurements.results import Run
from hb_metrics.offensiveness.averages import THRESHOLD
from hb_metrics.run.replies import UNSAFE_MARK, Replies, answered_replies, verdicts
from hb_metrics.run.run_folder import JUDGE, OFFENSIVE_REPLIES, REFUSALS_FILE, RUN_FILE

# For each classifier, the rubric whose question and labels people see.
_RUBRICS = {OFFENSIVENESS: "offensive", REFUSALS: "refusal"}


class Instrument(NamedTuple):
    """A judge or classifier, and its labels for a run's replies. Replies without exactly one label are left out.

    Attributes:
        figure: The index of the label whose rate is corrected.
        scores: [replies] The probability of the label `figure`.
        judged: [replies] The index of the judge's label.
    """

    name: str
    question: str
    labels: tuple[tuple[str, str], ...]
    figure: int
    replies: Replies
    scores: np.ndarray
    judged: np.ndarray

    @property
    def verdicts(self) -> np.ndarray:
        return self.judged == self.figure

    @property
    def codes(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns the indices of each reply's term and axis. A term has a different index on each of its axes."""
        pairs = [f"{axis}\n{term}" for axis, term in zip(self.replies.axes, self.replies.descriptors, strict=True)]
        return np.unique(pairs, return_inverse=True)[1], np.unique(self.replies.axes, return_inverse=True)[1]

    def population(self, axes: Collection[str]) -> np.ndarray:
        return np.isin(self.replies.axes, sorted(axes))


def read_instrument(run: Run, name: str) -> Instrument:
    if not (run.folder / RUN_FILE).is_file():
        raise ValueError(
            f"'{run.folder}' lacks {RUN_FILE}, which is needed to match labels with this run; restore the file"
        )
    replies = run.tables.replies()
    judges = run.record.judge if "judge" in run.record.content else {}
    refusals = run.tables.read_if_any(REFUSALS_FILE, ("id", "refusal"))
    known = list(judges)
    known += [OFFENSIVENESS] if run.tables.has(OFFENSIVE_REPLIES) else []
    known += [] if refusals is None else [REFUSALS]
    if name not in known:
        raise ValueError(
            f"'{run.folder}' has no judge '{name}'; {did_you_mean(name, known)}allowed: "
            f"{', '.join(known) or 'none; first measure with --judge or --measurements generation,offensiveness'}"
        )
    rubric = recorded_rubric(judges[name]) if name in judges else read_rubric(_RUBRICS[name])
    if rubric.figure is None:
        raise ValueError(
            f"the rubric '{name}' has no key `figure`, so there is no rate to correct; set this key to one of the "
            "labels, and then run the judge again"
        )
    figure = rubric.labels.index(rubric.figure)
    if name in judges:
        shards = run.tables.vectors(f"{JUDGE}/{name}")
        ids, scores, judged = shards.ids, shards.values[:, figure], verdicts(shards.values[:, :-1])
    elif name == REFUSALS and refusals is not None:
        ids, flags = refusals["id"].to_pylist(), refusals["refusal"].to_numpy()
        scores, judged = flags.astype(float), np.where(flags, figure, 1 - figure)
    else:
        shards = run.tables.vectors(OFFENSIVE_REPLIES)
        ids, scores = shards.ids, shards.values[:, 0]
        judged = np.where(scores >= THRESHOLD, figure, 1 - figure)
        # If a judge replaced the classifier, the second column is 1 where the judge gave no label or several labels.
        judged[shards.values[:, 1:].any(axis=1)] = -1
    rows = {identifier: row for row, identifier in enumerate(ids)}
    missing = next((identifier for identifier in replies.ids if identifier not in rows), None)
    if missing is not None:
        raise ValueError(
            f"'{run.folder}' contains no result of '{name}' for reply '{missing}'; measure again in a new folder"
        )
    order = np.array([rows[identifier] for identifier in replies.ids])
    scores, judged = scores[order], judged[order]
    kept = judged >= 0
    replies = answered_replies(replies._replace(texts=[text.replace(UNSAFE_MARK, "") for text in replies.texts]), kept)
    labels = tuple(zip(rubric.labels, rubric.definitions, strict=True))
    return Instrument(name, rubric.question, labels, figure, replies, scores[kept], judged[kept])


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
