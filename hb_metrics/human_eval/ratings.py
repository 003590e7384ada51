"""Reads what raters chose, from the files that pages save or from those of a crowd platform, and checks it."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from hb_metrics.human_eval.study import Study

FIELDS = ("study", "rater", "task", "choice")  # in every line; pages also write session, question and seconds
_MOST_SECONDS = 10**9
_LONGEST_SHOWN = 60  # letters of a value in an error
SPEAKERS = {1: 1, 2: 2, "1": 1, "2": 2}  # crowd platforms give back strings

LINE_ERROR = "'{path}', line {line}: {problem}"
NOT_JSON = "it is not JSON ({error}); the file may be half-written: save it again"
NOT_AN_OBJECT = "it is no object of JSON with the fields {fields}"
MISSING_FIELDS = "it has no {missing}; each line has {fields}"
OTHER_STUDY = "it is of study {other}, and this is study '{study}'; give the ratings of one study"
NO_TEXT = "{field} is {value}; give a text that is not empty, in valid Unicode"
NO_TASK = "task {task} is none of the study's; give the ids as they were exported"
NO_CHOICE = "choice is {choice}; allowed: 1 or 2, the number of the speaker chosen"
OTHER_QUESTION = "question is {question}, and task {task} asks about '{asked}'; give the ids as they were exported"
NO_SECONDS = "seconds is {seconds}; give a number from 0 to {most:,}, or leave it out"
CONFLICT = (
    "rater {rater} chose {choice} for task {task}, and {other} in '{path}', line {line}; give the file that was "
    "saved last, alone"
)
SESSIONS = (
    "rater {rater} used two browsers, this one and that of '{path}': two people with one page, or one who began "
    "twice; give one of the two files"
)
OTHER_SPELLING = (
    "rater {rater} is also written {other}: one person counted as two would make intervals too narrow; write the name "
    "in one way"
)
OTHER_RATER = (
    "rater {rater} has the browser of rater {other}, and each page has one rater; give the file as it was saved"
)
NOT_TEXT_ERROR = "'{path}' is no text in UTF-8; give a file that a page saved, or JSON lines"
FOLDER_ERROR = "'{path}' is a folder; give the files with ratings in it, such as {path}/*.jsonl"
NO_RATINGS_ERROR = (
    "there are no ratings in '{path}': it may be half-written; save it again, or leave it out if nothing was rated"
)


class Rating(NamedTuple):
    """What a rater chose for a question about a pair.

    Attributes:
        rater: The rater.
        question: The id of the question.
        pair: The index of the pair.
        speaker: The speaker chosen, 1 or 2.
        first: Which run speaker 1 was: 0 for the first, 1 for the second.
        seconds: How long it took; `None`: not recorded.
    """

    rater: str
    question: str
    pair: int
    speaker: int
    first: int
    seconds: float | None

    @property
    def wins(self) -> bool:
        """Whether the second run was chosen."""
        return (self.speaker == 1) == (self.first == 1)


class Check(NamedTuple):
    """An attention check that a rater met.

    Attributes:
        rater: The rater.
        passed: Whether the speaker asked for was chosen for every question that was answered.
    """

    rater: str
    passed: bool


class Ratings(NamedTuple):
    """All ratings of a study.

    Attributes:
        ratings: Those of pairs, in the order of the study.
        checks: The attention checks.
        num_duplicates: Lines that are there more than once, with the same choice; each is counted once.
        num_repeated: Ratings of a pair and a question that the rater had rated before in another task; left out.
    """

    ratings: list[Rating]
    checks: list[Check]
    num_duplicates: int
    num_repeated: int


class _Line(NamedTuple):
    """A checked line, and where it is."""

    choice: int
    seconds: float | None
    path: Path
    number: int


def read_ratings(paths: Sequence[Path], study: Study) -> Ratings:
    """Reads files of ratings.

    Args:
        paths: The files, in any order.
        study: The study that they are of.

    Returns:
        The ratings: the same in whatever order the files and lines are.

    Raises:
        ValueError: A line is not a rating of this study, lines contradict each other, or a file has none.
        OSError: A file cannot be read.
    """
    asked_of = {
        task: question
        for screens in study.sheets.values()
        for screen in screens
        for question, task in screen.tasks.items()
    }
    chosen: dict[tuple[str, str], _Line] = {}
    sessions: dict[str, tuple[str, Path]] = {}
    raters: dict[str, str] = {}  # by session, and by the name whatever its case and spaces
    num_duplicates = 0
    for path in paths:
        for number, row in _lines(path):

            def refused(problem: str, path: Path = path, number: int = number) -> ValueError:
                return ValueError(LINE_ERROR.format(path=path, line=number, problem=problem))

            problem = _problem(row, study.id, asked_of)
            if problem is not None:
                raise refused(problem)
            rater, task, session = row["rater"], row["task"], row.get("session")
            line = _Line(SPEAKERS[row["choice"]], row.get("seconds"), path, number)
            earlier = chosen.setdefault((rater, task), line)
            if session is not None and sessions.setdefault(rater, (session, path))[0] != session:
                raise refused(SESSIONS.format(rater=_shown(rater), path=sessions[rater][1]))
            if session is not None and raters.setdefault(f"session {session}", rater) != rater:
                other = _shown(raters[f"session {session}"])
                raise refused(OTHER_RATER.format(rater=_shown(rater), other=other))
            if (other := raters.setdefault(f"name {' '.join(rater.casefold().split())}", rater)) != rater:
                raise refused(OTHER_SPELLING.format(rater=_shown(rater), other=_shown(other)))
            if earlier.choice != line.choice:
                about = {"rater": _shown(rater), "task": _shown(task), "choice": line.choice, "other": earlier.choice}
                raise refused(CONFLICT.format(**about, path=earlier.path, line=earlier.number))
            num_duplicates += earlier is not line
    return _in_order(chosen, study, num_duplicates)


def _in_order(chosen: dict[tuple[str, str], _Line], study: Study, num_duplicates: int) -> Ratings:
    """The ratings by rater, in the order of the study's tasks."""
    ratings: dict[tuple[str, str, int], Rating] = {}
    checks = []
    num_repeated = 0
    for rater in sorted({rater for rater, _ in chosen}):
        for screens in study.sheets.values():
            for screen in screens:
                lines = {name: chosen.get((rater, task)) for name, task in screen.tasks.items()}
                answered = {name: line for name, line in lines.items() if line is not None}
                if screen.asked is not None:
                    if answered:
                        checks.append(Check(rater, all(line.choice == screen.asked for line in answered.values())))
                    continue
                for question, line in answered.items():
                    rating = Rating(rater, question, screen.pair, line.choice, screen.first, line.seconds)
                    kept = ratings.setdefault((rater, question, screen.pair), rating)
                    num_repeated += kept is not rating
    return Ratings(list(ratings.values()), checks, num_duplicates, num_repeated)


def _problem(row: Any, study: str, asked_of: dict[str, str]) -> str | None:
    """What is wrong with a line of a file; `None`: nothing."""
    fields = ", ".join(FIELDS)
    if not isinstance(row, dict):
        return NOT_AN_OBJECT.format(fields=fields)
    if missing := [name for name in FIELDS if name not in row]:
        return MISSING_FIELDS.format(missing=", ".join(missing), fields=fields)
    if row["study"] != study:
        return OTHER_STUDY.format(other=_shown(row["study"]), study=study)
    for field in ("rater", "task", "session"):
        value = row.get(field, "none given")
        if not isinstance(value, str) or not value.strip() or any("\ud800" <= letter <= "\udfff" for letter in value):
            return NO_TEXT.format(field=field, value=_shown(value))
    if row["task"] not in asked_of:
        return NO_TASK.format(task=_shown(row["task"]))
    choice, seconds = row["choice"], row.get("seconds")
    if isinstance(choice, bool) or not isinstance(choice, int | str) or choice not in SPEAKERS:
        return NO_CHOICE.format(choice=_shown(choice))
    if row.get("question", asked_of[row["task"]]) != asked_of[row["task"]]:
        question, asked = _shown(row["question"]), asked_of[row["task"]]
        return OTHER_QUESTION.format(question=question, task=_shown(row["task"]), asked=asked)
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if seconds is not None and not (is_number and 0 <= seconds <= _MOST_SECONDS):
        return NO_SECONDS.format(seconds=_shown(seconds), most=_MOST_SECONDS)
    return None


def _lines(path: Path) -> list[tuple[int, Any]]:
    """The lines of a file that are not blank, parsed, with their numbers."""
    if path.is_dir():
        raise ValueError(FOLDER_ERROR.format(path=path))
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(NOT_TEXT_ERROR.format(path=path)) from error
    rows = []
    # At line feeds alone: a reply or a rater's name may have other separators in it.
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            try:
                rows.append((number, json.loads(line)))
            except (ValueError, RecursionError) as error:
                raise ValueError(
                    LINE_ERROR.format(path=path, line=number, problem=NOT_JSON.format(error=error))
                ) from error
    if not rows:
        raise ValueError(NO_RATINGS_ERROR.format(path=path))
    return rows


def _shown(value: Any) -> str:
    """A value of a file that anybody may have written, for an error in a terminal."""
    text = repr(value)
    return text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + "…"
