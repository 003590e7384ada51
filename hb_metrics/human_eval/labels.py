"""Draws replies of a run for people to label, and writes a page for each rater.

holistic-bias human-eval labels runs/gpt2 --judge offensiveness --num 200 --raters 3

A stratum contains the replies with the same axis and the same verdict from the judge. At least two replies are drawn
from each stratum. The rest of the sample is divided among the strata in proportion to √N, where N is the number of
replies in a stratum. If a verdict is rare, people therefore label a larger share of its replies.
"""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from hb_dataset.command_line import AXIS_CUTOFF, CommandParser, check_known, did_you_mean
from hb_dataset.grouped import grouped
from hb_dataset.seeded_draws import seeded_generator
from hb_metrics.collect.judges.rubric import (
    OFFENSIVENESS_CLASSIFIER,
    REFUSALS_CLASSIFIER,
    Rubric,
    read_rubric,
)
from hb_metrics.human_eval.study import (
    allocate,
    digest,
    rater_names,
    read_study_file,
    study_page,
    study_text,
    write_study_files,
)
from hb_metrics.measurements.generation.results import refusal_flags
from hb_metrics.measurements.results import Run, read_run
from hb_metrics.offensiveness.averages import THRESHOLD
from hb_metrics.run.record import Judge
from hb_metrics.run.replies import UNSAFE_MARK, Replies, answered_replies, verdicts
from hb_metrics.run.run_folder import JUDGE_FOLDER, OFFENSIVE_REPLIES, RUN_FILE, run_digest
from hb_metrics.run.tables import PAIRS_REASON, has_pairs_of_terms
from hb_metrics.stats.calibration import CorrectedRate, corrected_rate

LABELS_FILE = "labels.json"
LAYOUT = 2
MIN_PER_STRATUM = 2  # as many labels as a variance needs
_NUMBERS = (  # the option, its default and its help
    ("num", 200, "The number of replies to label"),
    ("raters", 3, "The number of raters. Each rater labels all replies"),
    ("seed", 0, "The random seed for choosing and ordering the replies"),
)
# For each classifier that is no judge, the rubric whose question and labels people see.
_RUBRICS = {OFFENSIVENESS_CLASSIFIER: "offensive", REFUSALS_CLASSIFIER: "refusal"}


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


def main(argv: Sequence[str] | None = None) -> None:
    parser = CommandParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("run", type=Path, metavar="RUN", help="The folder of a finished run with replies.")
    parser.add_argument(
        "--judge",
        required=True,
        help="The judge whose rates will be corrected: one of the run's rubrics, or a classifier (offensiveness or "
        "refusals).",
    )
    for name, default, words in _NUMBERS:
        parser.add_argument(f"--{name}", type=int, default=default, help=f"{words}. Default: %(default)s.")
    parser.add_argument("--axes", nargs="+", help="The axes from which replies are drawn. Default: all.")
    parser.add_argument("--output_dir", type=Path, help="The folder for the pages. Default: RUN/labels-JUDGE.")
    arguments = parser.parse_args(argv)
    if arguments.raters < 1:
        parser.error(f"--raters is {arguments.raters}; set it to at least 1")
    output = arguments.output_dir or arguments.run / f"labels-{arguments.judge}"
    judged = read_instrument(read_run(arguments.run), arguments.judge)
    known = sorted(set(judged.replies.axes))
    for axis in arguments.axes or ():
        check_known(axis, known, f"axis '{axis}' has no replies", cutoff=AXIS_CUTOFF)
    study = draw_labels(
        judged,
        axes=arguments.axes or known,
        number=arguments.num,
        num_raters=arguments.raters,
        seed=arguments.seed,
        run=run_digest(arguments.run),
    )
    files = {LABELS_FILE: study_text(study, LAYOUT)}
    files |= {f"{rater}.html": label_page(study, rater) for rater in study.sheets}
    write_study_files(output, files, "labels")
    print(
        f"Wrote one page for each of {arguments.raters} raters, each with {len(study.replies):,} replies: "
        f"{output.resolve()}"
    )
    print("\n".join(expectations(judged, study)))


def expectations(judged: Instrument, study: LabelStudy) -> list[str]:
    """States which rates are expected to have intervals.

    The sentences assume that people agree with the judge. People's answers do not affect whether a rate gets an
    interval.
    """
    seen = np.isin(judged.replies.ids, [reply["id"] for reply in study.replies])
    sentences = []
    for name, rate in corrected_by_axis(judged, np.where(seen, judged.verdicts, np.nan), study.axes).items():
        verdict = "yes" if rate.interval else f"no, because {rate.reason}"
        if rate.num_needed is not None:
            verdict += f"; about {rate.num_needed:,} labels would be enough"
        asked = f"Is an interval expected for {name or 'all replies'} ({rate.num_labelled:,} labels)?"
        sentences.append(f"{asked} {verdict}")
    return sentences


def label_page(study: LabelStudy, rater: str) -> str:
    screens = []
    for row, task in zip(study.sheets[rater], study.tasks(rater), strict=True):
        shown = study.replies[row]
        screens.append({"prompt": shown["prompt"], "replies": [shown["reply"]], "tasks": [task]})
    questions = [{"id": study.judge, "text": study.question}]
    data = {"study": study.id, "rater": rater, "questions": questions, "screens": screens}
    return study_page("labels.html.jinja", data, question=study.question, labels=study.labels)


def read_instrument(run: Run, name: str) -> Instrument:
    if not (run.folder / RUN_FILE).is_file():
        raise ValueError(
            f"'{run.folder}' lacks {RUN_FILE}, which is needed to match labels with this run; restore the file"
        )
    if has_pairs_of_terms(run.tables.prompts()):
        raise ValueError(
            f"in '{run.folder}', {PAIRS_REASON}, so intervals of corrected rates would be too narrow; let people label "
            "the replies of a run with single terms"
        )
    replies = run.tables.replies()
    judges = run.record.judge if "judge" in run.record.content else {}
    flagged = refusal_flags(run.tables, replies)
    known = list(judges)
    known += [OFFENSIVENESS_CLASSIFIER] if run.tables.has(OFFENSIVE_REPLIES) else []
    known += [REFUSALS_CLASSIFIER] if flagged else []
    if name not in known:
        raise ValueError(
            f"'{run.folder}' has no judge '{name}'; {did_you_mean(name, known)}allowed: "
            f"{', '.join(known) or 'none; first measure with --judge or --measurements generation,offensiveness'}"
        )
    rubric = _rubric(run, name, judges)
    figure = rubric.labels.index(str(rubric.figure))
    if name in judges:
        values = run.tables.vectors_of(f"{JUDGE_FOLDER}/{name}", replies.ids)
        scores, judged = values[:, figure], verdicts(values[:, :-1])
    elif name == REFUSALS_CLASSIFIER:
        flags = flagged["Refusals"].values
        scores, judged = flags.astype(float), np.where(flags, figure, 1 - figure)
    else:
        values = run.tables.vectors_of(OFFENSIVE_REPLIES, replies.ids)
        scores = values[:, 0]
        judged = np.where(scores >= THRESHOLD, figure, 1 - figure)
        # If a judge replaced the classifier, the second column is 1 where the judge gave no label or several labels.
        judged[values[:, 1:].any(axis=1)] = -1
    kept = judged >= 0
    replies = answered_replies(replies._replace(texts=[text.replace(UNSAFE_MARK, "") for text in replies.texts]), kept)
    labels = tuple(zip(rubric.labels, rubric.definitions, strict=True))
    return Instrument(name, rubric.question, labels, figure, replies, scores[kept], judged[kept])


def _rubric(run: Run, name: str, judges: Mapping[str, Judge]) -> Rubric:
    """Returns the rubric with the question that a judge answered, or that people answer about a classifier's labels."""
    if name in judges:
        rubric = Rubric(**judges[name].rubric)
    elif name == OFFENSIVENESS_CLASSIFIER and (in_place := run.record.offensiveness_classifier.judge) is not None:
        rubric = Rubric(**in_place["rubric"])
        if len(rubric.labels) > 2:
            raise ValueError(
                f"the run stores only how likely '{rubric.figure}' is, and not which other label of the rubric "
                f"'{rubric.name}' the judge chose; measure with --judge and this rubric, and let people label that"
            )
    else:
        rubric = read_rubric(_RUBRICS[name])
    if rubric.figure is None:
        advice = "set it to one of the labels, and then run the judge again"
        raise ValueError(f"the rubric '{name}' has no key `figure`, the label whose rate is corrected; {advice}")
    return rubric


def draw_labels(
    judged: Instrument, *, axes: Collection[str], number: int, num_raters: int, seed: int, run: str
) -> LabelStudy:
    sizes = np.array(list(map(len, _rows_by_stratum(judged, axes).values())))
    least = int(np.minimum(sizes, MIN_PER_STRATUM).sum())
    if not least <= number <= sizes.sum():
        allowed = f"{least:,} (two replies per axis and verdict) to {sizes.sum():,} (all replies)"
        raise ValueError(f"num is {number:,}; set --num to a number from {allowed}")
    replies = drawn_replies(judged, axes, number, seed)
    sheets = {}
    for name in rater_names(num_raters):
        sheets[name] = seeded_generator(seed, "order of labels", name).permutation(number).tolist()
    labels = [list(label) for label in judged.labels]
    study = LabelStudy("", judged.name, run, sorted({*axes}), seed, judged.question, labels, replies, sheets)
    return study._replace(id=digest(study[1:]))


def drawn_replies(judged: Instrument, axes: Collection[str], number: int, seed: int) -> list[dict[str, str]]:
    by_stratum = _rows_by_stratum(judged, axes)
    sizes = np.array(list(map(len, by_stratum.values())), np.int64)
    replies = []
    numbers = allocate(sizes, number, np.sqrt(sizes), least=MIN_PER_STRATUM).tolist()
    for (stratum, of_stratum), drawn in zip(by_stratum.items(), numbers, strict=True):
        rows = sorted(of_stratum, key=lambda row: judged.replies.ids[row])
        order = seeded_generator(seed, "labels", repr(stratum)).permutation(len(rows))
        for place in order[:drawn].tolist():
            id, *_, prompt, text = (column[rows[place]] for column in judged.replies)
            replies.append({"id": id, "prompt": prompt, "reply": text})
    return sorted(replies, key=lambda reply: reply["id"])


def _rows_by_stratum(judged: Instrument, axes: Collection[str]) -> dict[tuple[str, bool], list[int]]:
    pairs = enumerate(zip(judged.replies.axes, judged.verdicts.tolist(), strict=True))
    return dict(sorted(grouped((stratum, row) for row, stratum in pairs if stratum[0] in axes).items()))


def read_label_study(path: Path) -> LabelStudy:
    return read_study_file(path, LAYOUT, LabelStudy, "labels")


def rows_of_tasks(study: LabelStudy) -> dict[str, int]:
    rows: dict[str, int] = {}
    for rater in study.sheets:
        rows.update(zip(study.tasks(rater), study.sheets[rater], strict=True))
    return rows


def corrected_by_axis(judged: Instrument, labels: np.ndarray, axes: Sequence[str]) -> dict[str, CorrectedRate]:
    """Computes the corrected rate of all replies (key "") and of each axis.

    `labels` [replies] contains the share of raters who gave the label, or NaN if nobody labelled the reply.
    """
    return {name: rate_of(judged, labels, judged.population([name] if name else axes)) for name in ("", *axes)}


def rate_of(judged: Instrument, labels: np.ndarray, rows: np.ndarray) -> CorrectedRate:
    columns = (labels, judged.scores, judged.verdicts, *judged.codes)
    return corrected_rate(*(column[rows] for column in columns))
