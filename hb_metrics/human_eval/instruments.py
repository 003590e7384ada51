from collections.abc import Collection
from typing import NamedTuple

import numpy as np

from hb_dataset.hints import did_you_mean
from hb_metrics.collect.judges.rubric import OFFENSIVENESS, REFUSALS, read_rubric, recorded_rubric
from hb_metrics.measurements.results import Run
from hb_metrics.offensiveness.averages import THRESHOLD
from hb_metrics.run.finished_run import read_run_table, read_stored_replies, read_vectors
from hb_metrics.run.replies import UNSAFE_MARK, Replies, answered_replies, verdicts
from hb_metrics.run.run_folder import JUDGE, REFUSALS_FILE, RUN_FILE

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
    replies = read_stored_replies(run.folder)
    if replies is None:
        raise ValueError(f"'{run.folder}' has no replies; pass the folder of a run with --measurements generation")
    judges = run.record.judge if "judge" in run.record.content else {}
    refusals = read_run_table(run.folder / REFUSALS_FILE, ("id", "refusal"))
    offensive = run.folder / OFFENSIVENESS / "replies"
    known = list(judges)
    known += [OFFENSIVENESS] if any(offensive.glob("*.parquet")) else []
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
        shards = read_vectors(run.folder / JUDGE / name)
        ids, scores, judged = shards.ids, shards.values[:, figure], verdicts(shards.values[:, :-1])
    elif name == REFUSALS and refusals is not None:
        ids, flags = refusals["id"].to_pylist(), refusals["refusal"].to_numpy()
        scores, judged = flags.astype(float), np.where(flags, figure, 1 - figure)
    else:
        shards = read_vectors(offensive)
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
