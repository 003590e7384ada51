"""A study: which pairs each rater is shown, in which order, and which run speaks first; and its file, `study.json`."""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from hb_dataset.balanced_sample import balanced_sample
from hb_dataset.seeded_draws import seeded_generator
from hb_metrics.human_eval.pairs import Pair
from hb_metrics.human_eval.questions import CHECK_REPLY, Question

STUDY_FILE = "study.json"
LAYOUT = 1
_STUDY_DIGITS, _TASK_DIGITS = 16, 16

NOT_A_STUDY_ERROR = "'{path}' is not the study of a human evaluation ({problem}); give the {file} that `export` wrote"
EDITED_ERROR = "'{path}' was changed after it was exported; give the {file} that `export` wrote"
LEAST_ERROR = "{name} is {number}; give at least {least}"
TOO_MANY_RATERS_ERROR = "raters_per_pair is {number}, and there are {num_raters} raters; give at most that many"
UNEVEN_ERROR = (
    "{num_raters} raters with {per_rater} pairs each are {slots:,} ratings, which is not a multiple of raters_per_pair "
    "{per_pair}; change one of them, such as --pairs_per_rater {other}"
)
FEW_PAIRS_ERROR = (
    "the study needs {number:,} pairs, and the runs have {there:,} that can be shown ({left_out}); give fewer raters "
    "or pairs, or runs with more replies in common"
)


class Design(NamedTuple):
    """How many pairs a study has, and who rates them.

    Attributes:
        num_raters: The number of raters.
        pairs_per_rater: The number of pairs that each rates.
        raters_per_pair: The number of raters of each pair.
        checks_per_rater: The number of attention checks of each rater.
        seed: Another seed, another study.
    """

    num_raters: int
    pairs_per_rater: int
    raters_per_pair: int
    checks_per_rater: int
    seed: int

    @property
    def num_pairs(self) -> int:
        """The number of pairs of the study."""
        return self.num_raters * self.pairs_per_rater // self.raters_per_pair


class Screen(NamedTuple):
    """What a rater sees at a time: two replies and the questions about them.

    Attributes:
        pair: The index of the pair.
        first: 0 if speaker 1 says the reply of the first run, 1 if that of the second.
        asked: Of an attention check, the speaker that is to be chosen, whose reply is replaced; `None`: it is none.
        tasks: Id of a question → the id of the task, which says nothing about what is shown.
    """

    pair: int
    first: int
    asked: int | None
    tasks: dict[str, str]


Shown = tuple[int, int, int | None]  # a screen before it has its tasks


class Study(NamedTuple):
    """All that was exported.

    Attributes:
        id: The digest of the rest.
        about: What the file says beside these: the runs, what was left out, what the paper does not print.
        design: The numbers of raters and pairs.
        questions: The questions.
        pairs: The pairs.
        sheets: Name of a rater → the screens, in their order.
    """

    id: str
    about: dict[str, Any]
    design: Design
    questions: list[Question]
    pairs: list[Pair]
    sheets: dict[str, list[Screen]]


def check_design(design: Design) -> None:
    """Raises a ValueError if no study can be made with these numbers."""
    least = {"num_raters": 1, "pairs_per_rater": 1, "raters_per_pair": 1, "checks_per_rater": 0}
    for name, number in least.items():
        if getattr(design, name) < number:
            raise ValueError(LEAST_ERROR.format(name=name, number=getattr(design, name), least=number))
    if design.raters_per_pair > design.num_raters:
        raise ValueError(TOO_MANY_RATERS_ERROR.format(number=design.raters_per_pair, num_raters=design.num_raters))
    slots = design.num_raters * design.pairs_per_rater
    if slots % design.raters_per_pair:
        other = design.pairs_per_rater
        while design.num_raters * other % design.raters_per_pair:
            other += 1
        raise ValueError(
            UNEVEN_ERROR.format(
                num_raters=design.num_raters,
                per_rater=design.pairs_per_rater,
                slots=slots,
                per_pair=design.raters_per_pair,
                other=other,
            )
        )


def draw_study(
    pairs: Sequence[Pair],
    design: Design,
    questions: Sequence[Question],
    about: dict[str, Any],
    left_out: str = "",
) -> Study:
    """Draws a study.

    Every axis has as many pairs as every other, as far as its pairs go; within an axis, terms and templates take turns.
    All that a rater is shown in a row of the pairs is spread evenly over the axes. For each rater, either run speaks
    first as often as the other, give or take one; so it is within each axis.

    Args:
        pairs: The pairs that can be shown.
        design: The numbers of raters and pairs.
        questions: The questions, in the order in which they are asked about a pair.
        about: What the study is to say of itself; plain values.
        left_out: In words, why other prompts have no pair: for the error that there are too few.

    Returns:
        The study: the same for the same arguments, whatever the order of `pairs`.

    Raises:
        ValueError: The numbers do not go together, or there are too few pairs.
    """
    check_design(design)
    number, seed = design.num_pairs, design.seed
    if number > len(pairs):
        raise ValueError(FEW_PAIRS_ERROR.format(number=number, there=len(pairs), left_out=left_out))
    chosen = _spread(_balanced_pairs(pairs, number, seed), seed)
    shown: dict[str, list[Shown]] = {}
    digits = max(2, len(str(design.num_raters)))
    for rater in range(design.num_raters):
        name = f"rater-{rater + 1:0{digits}}"
        rows = [(rater * design.pairs_per_rater + place) % number for place in range(design.pairs_per_rater)]
        shown[name] = _sheet(rows, [chosen[row].axis for row in rows], number, design.checks_per_rater, seed, name)
    id = _study_id(about, design, questions, chosen, shown)
    sheets = {
        name: [
            Screen(pair, first, asked, {question.id: _task_id(id, name, place, question.id) for question in questions})
            for place, (pair, first, asked) in enumerate(screens)
        ]
        for name, screens in shown.items()
    }
    return Study(id, about, design, list(questions), chosen, sheets)


def speakers(study: Study, screen: Screen) -> tuple[str, str]:
    """What speakers 1 and 2 of a screen say."""
    replies = study.pairs[screen.pair].replies
    first, second = replies[screen.first], replies[1 - screen.first]
    if screen.asked is None:
        return first, second
    return (CHECK_REPLY, second) if screen.asked == 1 else (first, CHECK_REPLY)


def study_text(study: Study) -> str:
    """The content of a study's file."""
    content = {
        "layout": LAYOUT,
        "study": study.id,
        **study.about,
        "design": study.design._asdict(),
        "questions": [question._asdict() for question in study.questions],
        "pairs": [pair._asdict() for pair in study.pairs],
        "sheets": {name: [screen._asdict() for screen in screens] for name, screens in study.sheets.items()},
    }
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def read_study(path: Path) -> Study:
    """Reads a study.

    Raises:
        ValueError: The file is not the study of a human evaluation, or was changed.
        OSError: It cannot be read.
    """

    def refused(problem: object) -> ValueError:
        return ValueError(NOT_A_STUDY_ERROR.format(path=path, problem=problem, file=STUDY_FILE))

    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise refused(error) from error
    if not isinstance(content, dict) or content.get("layout") != LAYOUT:
        raise refused(f"it has no layout {LAYOUT}")
    try:
        id = content["study"]
        parts = {"layout", "study", "design", "questions", "pairs", "sheets"}
        about = {name: value for name, value in content.items() if name not in parts}
        design = Design(**content["design"])
        questions = [Question(**question) for question in content["questions"]]
        pairs = [Pair(**{**pair, "replies": tuple(pair["replies"])}) for pair in content["pairs"]]
        sheets = {name: [Screen(**screen) for screen in screens] for name, screens in content["sheets"].items()}
    except (KeyError, TypeError, AttributeError) as error:
        raise refused(error) from error
    shown = {name: [(screen.pair, screen.first, screen.asked) for screen in of] for name, of in sheets.items()}
    tasks = [
        task == _task_id(id, name, place, question)
        for name, of in sheets.items()
        for place, screen in enumerate(of)
        for question, task in screen.tasks.items()
    ]
    if id != _study_id(about, design, questions, pairs, shown) or not all(tasks):
        raise ValueError(EDITED_ERROR.format(path=path, file=STUDY_FILE))
    return Study(id, about, design, questions, pairs, sheets)


def _balanced_pairs(pairs: Sequence[Pair], number: int, seed: int) -> list[Pair]:
    """As many pairs of each axis as of every other; those that axes with few pairs lack are given to the others."""
    by_axis: dict[str, list[Pair]] = {}
    for pair in sorted(pairs, key=lambda pair: pair.id):
        by_axis.setdefault(pair.axis, []).append(pair)
    order = seeded_generator(seed, "human evaluation", "axes").permutation(sorted(by_axis)).tolist()
    wanted = dict.fromkeys(order, 0)
    while sum(wanted.values()) < number:
        for axis in order:
            if wanted[axis] < len(by_axis[axis]) and sum(wanted.values()) < number:
                wanted[axis] += 1
    chosen = []
    for axis, of_axis in by_axis.items():
        if wanted[axis]:
            names = ("id", "axis", "descriptor", "template")
            table = pa.table({name: [getattr(pair, name) for pair in of_axis] for name in names})
            ids = set(balanced_sample(table, wanted[axis], seed=seed)["id"].to_pylist())
            chosen += [pair for pair in of_axis if pair.id in ids]
    return chosen


def _spread(pairs: Sequence[Pair], seed: int) -> list[Pair]:
    """The pairs in an order in which each axis is spread evenly, so that any run of them is balanced over axes."""
    generator = seeded_generator(seed, "human evaluation", "order of pairs")
    by_axis: dict[str, list[Pair]] = {}
    for index in generator.permutation(len(pairs)):
        by_axis.setdefault(pairs[index].axis, []).append(pairs[index])
    places = [
        ((rank + 0.5) / len(of_axis), number, pair)
        for number, of_axis in enumerate(by_axis.values())
        for rank, pair in enumerate(of_axis)
    ]
    return [pair for _, _, pair in sorted(places, key=lambda place: place[:2])]


def _sheet(
    rows: Sequence[int], axes: Sequence[str], num_pairs: int, num_checks: int, seed: int, name: str
) -> list[Shown]:
    """What a rater is shown, in order: the pair, which run speaks first, of a check the speaker to choose."""
    generator = seeded_generator(seed, "human evaluation", name)
    # Runs take turns to speak first along pairs sorted by axis, which balances the sides within each axis and in all.
    shuffled = generator.permutation(len(rows)).tolist()
    axis_order = {axis: rank for rank, axis in enumerate(generator.permutation(sorted(set(axes))).tolist())}
    sides = _in_turn(len(rows), generator)
    first = dict(zip(sorted(shuffled, key=lambda place: axis_order[axes[place]]), sides, strict=True))
    screens: list[Shown] = [(rows[place], first[place], None) for place in generator.permutation(len(rows)).tolist()]
    # One check in each stretch of as many screens: between the first screen of a stretch and the end of it.
    asked, runs = (generator.permutation(_in_turn(num_checks, generator)).tolist() for _ in range(2))
    stretches = np.linspace(0, len(screens), num_checks + 1)
    for check in reversed(range(num_checks)):  # from the end: so that places before stay what they are
        low, high = int(stretches[check]) + 1, max(int(stretches[check + 1]), int(stretches[check]) + 1)
        place = int(generator.integers(low, high, endpoint=True))
        screens.insert(place, (int(generator.integers(num_pairs)), runs[check], asked[check] + 1))
    return screens


def _in_turn(number: int, generator: np.random.Generator) -> list[int]:
    """0 and 1 in turn, beginning with either."""
    start = int(generator.integers(2))
    return [(start + place) % 2 for place in range(number)]


def _study_id(
    about: dict[str, Any],
    design: Design,
    questions: Sequence[Question],
    pairs: Sequence[Pair],
    shown: dict[str, list[Shown]],
) -> str:
    return _digest([about, design, questions, pairs, shown])[:_STUDY_DIGITS]


def _task_id(study: str, rater: str, place: int, question: str) -> str:
    return _digest([study, rater, place, question])[:_TASK_DIGITS]


def _digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True, ensure_ascii=False).encode()).hexdigest()
