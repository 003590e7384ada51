from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from hb_dataset.table_files import json_lines
from hb_metrics.human_eval.study import Study

FIELDS = ("study", "rater", "task", "choice")  # pages also write `session`, `question` and `seconds`
_MOST_SECONDS = 10**9
_LONGEST_SHOWN = 60  # values in error messages are truncated to this number of characters


class Rating(NamedTuple):
    """A rater's answer to a question about a pair. `wins` states whether the rater chose the second run's reply."""

    rater: str
    question: str
    pair: int
    wins: bool
    seconds: float | None


class Ratings(NamedTuple):
    """All ratings of a study, in the order of the study.

    Attributes:
        ratings: The ratings, without attention checks.
        checks: For each attention check, the rater, and whether the rater chose the requested speaker every time.
        num_duplicates: The number of lines that repeat an earlier line with the same choice. They are ignored.
        num_repeated: The number of ratings that are left out because the rater answered the same question about the
            same pair in an earlier task.
    """

    ratings: list[Rating]
    checks: list[tuple[str, bool]]
    num_duplicates: int
    num_repeated: int


class Line(NamedTuple):
    rater: str
    session: str | None
    choice: int
    seconds: float | None
    place: str


def read_ratings(paths: Sequence[Path], study: Study) -> Ratings:
    questions: dict[str, str] = {}  # the questions of each task
    for sheet, screens in study.sheets.items():
        for place in range(len(screens)):
            questions.update({task: question for question, task in study.tasks(sheet, place).items()})
    return _in_order(*read_lines(paths, study.id, questions, num_choices=2), study)


def read_lines(
    paths: Sequence[Path], study: str, questions: dict[str, str], *, num_choices: int
) -> tuple[dict[tuple[str, str], Line], int]:
    """Reads files of answers. Returns the lines by rater and task, and the number of repeated lines.

    `questions` contains the question of each task. An invalid or contradictory line raises `ValueError`.
    """
    chosen: dict[tuple[str, str], Line] = {}
    people: dict[tuple[str, str], str] = {}
    num_duplicates = 0
    for path in paths:
        number = 0
        for number, row in json_lines(path):
            place = f"'{path}', line {number}"
            problem = _problem(row, study, questions, num_choices)
            if problem is None:
                line = Line(row["rater"], row.get("session"), int(row["choice"]), row.get("seconds"), place)
                earlier = chosen.setdefault((line.rater, row["task"]), line)
                num_duplicates += earlier is not line
                problem = _contradiction(line, earlier, people)
            if problem is not None:
                raise ValueError(f"{place}: {problem}")
        if not number:
            raise ValueError(f"'{path}' has no ratings; omit this file, or save it again from the rater's page")
    return chosen, num_duplicates


def _in_order(chosen: dict[tuple[str, str], Line], num_duplicates: int, study: Study) -> Ratings:
    ratings: dict[tuple[str, str, int], Rating] = {}
    checks = []
    num_repeated = 0
    shown = []
    for sheet, screens in study.sheets.items():
        for place, screen in enumerate(screens):
            shown.append((screen, study.tasks(sheet, place)))
    for rater in sorted({rater for rater, _ in chosen}):
        for screen, tasks in shown:
            passed = None
            for question, task in tasks.items():
                line = chosen.get((rater, task))
                if line is None:
                    continue
                if screen.asked is not None:
                    passed = passed is not False and line.choice == screen.asked
                    continue
                wins = (line.choice == 1) == (screen.first == 1)
                rating = Rating(rater, question, screen.pair, wins, line.seconds)
                num_repeated += ratings.setdefault((rater, question, screen.pair), rating) is not rating
            if passed is not None:
                checks.append((rater, passed))
    return Ratings(list(ratings.values()), checks, num_duplicates, num_repeated)


def _problem(row: dict[str, Any], study: str, questions: dict[str, str], num_choices: int) -> str | None:
    if missing := [field for field in FIELDS if field not in row]:
        return f"{', '.join(missing)} is missing; write a JSON object with {', '.join(FIELDS)} on each line"
    if row["study"] != study:
        return f"study is {_shown(row['study'])}, but the study's id is '{study}'; pass only files of one study"
    for field in ("rater", "task", "session"):
        value = row.get(field, "none given")
        if not isinstance(value, str) or not value.strip() or any("\ud800" <= letter <= "\udfff" for letter in value):
            return f"{field} is {_shown(value)}; write a string that is not blank and is valid Unicode"
    if row["task"] not in questions:
        return f"task is {_shown(row['task'])}, which is not in the study; write an id from the exported tasks"
    choice, seconds, asked = row["choice"], row.get("seconds"), questions[row["task"]]
    numbers = [str(number) for number in range(1, num_choices + 1)]
    if type(choice) not in (int, str) or str(choice) not in numbers:  # crowdsourcing platforms return strings
        return f"choice is {_shown(choice)}; write {' or '.join(numbers)}, the number of the chosen button"
    if row.get("question", asked) != asked:
        return f"question is {_shown(row['question'])}, but the task's question is '{asked}'; write '{asked}'"
    if seconds is not None and not (type(seconds) in (int, float) and 0 <= seconds <= _MOST_SECONDS):
        return f"seconds is {_shown(seconds)}; write a number from 0 to {_MOST_SECONDS:,}, or omit the field"
    return None


def _contradiction(line: Line, earlier: Line, people: dict[tuple[str, str], str]) -> str | None:
    """Returns a contradiction between a line and earlier lines, or `None`.

    `people` records the raters' browsers and the spellings of their names. This record ensures that two people never
    count as one rater. It also ensures that one person never counts as two raters, because intervals would then be too
    narrow.
    """
    rater = line.rater
    if line.session is not None:
        session = people.setdefault(("browser of", rater), line.session)
        if session != line.session:
            return (
                f"rater {_shown(rater)} used two browsers, so either two people shared a page or one person started "
                "twice; keep only one of the files"
            )
        other = people.setdefault(("rater with browser", session), rater)
        if other != rater:
            return (
                f"rater {_shown(rater)} used the same browser as rater {_shown(other)}, so a name was changed; pass "
                "the files as they were saved"
            )
    other = people.setdefault(("spelling of", " ".join(rater.casefold().split())), rater)
    if other != rater:
        return f"rater {_shown(rater)} is also spelled {_shown(other)}; use only one spelling in all files"
    if line.choice != earlier.choice:
        return f"rater {_shown(rater)} made a different choice in {earlier.place}; keep the file that was saved last"
    return None


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + "…"
