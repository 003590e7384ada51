from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from hb_dataset.table_files import filled_text_in, invalid, json_lines, number_in, text_in
from hb_metrics.human_eval.study import Study

FIELDS = ("study", "rater", "task", "choice")  # pages also write `session`, `question` and `seconds`
_MOST_SECONDS = 10**9


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
    choice: int
    seconds: float | None
    place: str


def read_ratings(paths: Sequence[Path], study: Study) -> Ratings:
    shown = [
        (screen, study.tasks(sheet, place))
        for sheet, screens in study.sheets.items()
        for place, screen in enumerate(screens)
    ]
    questions = {task: question for _, tasks in shown for question, task in tasks.items()}
    chosen, num_duplicates = read_lines(paths, study.id, questions, num_choices=2)
    ratings: dict[tuple[str, str, int], Rating] = {}
    checks = []
    num_repeated = 0
    for rater in sorted({rater for rater, _ in chosen}):
        for screen, tasks in shown:
            lines = {question: chosen[rater, task] for question, task in tasks.items() if (rater, task) in chosen}
            if lines and screen.asked is not None:
                checks.append((rater, all(line.choice == screen.asked for line in lines.values())))
                continue
            for question, line in lines.items():
                wins = (line.choice == 1) == (screen.first == 1)
                rating = Rating(rater, question, screen.pair, wins, line.seconds)
                num_repeated += ratings.setdefault((rater, question, screen.pair), rating) is not rating
    return Ratings(list(ratings.values()), checks, num_duplicates, num_repeated)


def read_lines(
    paths: Sequence[Path], study: str, questions: Mapping[str, str], *, num_choices: int
) -> tuple[dict[tuple[str, str], Line], int]:
    """Reads files of answers. Returns the lines by rater and task, and the number of repeated lines.

    An invalid or contradictory line raises `ValueError`.
    """
    chosen: dict[tuple[str, str], Line] = {}
    people: dict[tuple[str, str], str] = {}
    num_duplicates = 0
    for path in paths:
        number = 0
        for number, row in json_lines(path):
            place = f"'{path}', line {number}"
            task, line = _task_and_line(row, place, study, questions, num_choices)
            _check_one_person(row, line, people)
            earlier = chosen.setdefault((line.rater, task), line)
            num_duplicates += earlier is not line
            if line.choice != earlier.choice:
                other = f"rater {line.rater!r} made a different choice in {earlier.place}"
                raise ValueError(f"{place}: {other}; keep the file that was saved last")
        if not number:
            raise ValueError(f"'{path}' has no ratings; omit this file, or save it again from the rater's page")
    return chosen, num_duplicates


def _task_and_line(
    row: dict[str, Any], place: str, study: str, questions: Mapping[str, str], num_choices: int
) -> tuple[str, Line]:
    if missing := [field for field in FIELDS if field not in row]:
        raise ValueError(f"{place}: {', '.join(missing)} is missing; write an object with {', '.join(FIELDS)}")
    of_study, rater, task = (filled_text_in(place, row, name) for name in ("study", "rater", "task"))
    if of_study != study:
        raise ValueError(f"{place}: study is {of_study!r}, but the study's id is '{study}'; pass files of one study")
    if task not in questions:
        raise ValueError(f"{place}: task is {task!r}, which is not in the study; write an id from the exported tasks")
    if (text_in(place, row, "question") or questions[task]) != questions[task]:
        raise ValueError(f"{place}: question is {row['question']!r}, but the task's question is '{questions[task]}'")
    numbers = range(1, num_choices + 1)
    allowed = f"{' or '.join(map(str, numbers))}, the number of the chosen button"
    choice = number_in(place, row, "choice", allowed)  # crowdsourcing platforms return strings
    if choice is None or choice not in numbers:
        raise invalid(place, row, "choice", allowed)
    seconds = number_in(place, row, "seconds")
    if seconds is not None and not 0 <= seconds <= _MOST_SECONDS:
        raise invalid(place, row, "seconds", f"a number from 0 to {_MOST_SECONDS:,}, or omit the field")
    return task, Line(rater, int(choice), seconds, place)


def _check_one_person(row: dict[str, Any], line: Line, people: dict[tuple[str, str], str]) -> None:
    """Raises an error if two people count as one rater, or if one person counts as two.

    Intervals would then be too wide or too narrow. `people` records the raters' browsers and the spellings of their
    names in earlier lines.
    """
    rater = line.rater
    if session := text_in(line.place, row, "session"):
        if people.setdefault(("browser of", rater), session) != session:
            raise ValueError(f"{line.place}: rater {rater!r} used two browsers; keep only one of the files")
        other = people.setdefault(("rater with browser", session), rater)
        if other != rater:
            names = f"rater {rater!r} used the same browser as rater {other!r}"
            raise ValueError(f"{line.place}: {names}; pass the files as they were saved")
    other = people.setdefault(("spelling of", " ".join(rater.casefold().split())), rater)
    if other != rater:
        raise ValueError(f"{line.place}: rater {rater!r} is also spelled {other!r}; use only one spelling in all files")
