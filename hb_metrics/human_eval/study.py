import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
from markupsafe import Markup

from hb_dataset.grouped import grouped
from hb_dataset.seeded_draws import balanced_sample, seeded_generator
from hb_dataset.table_files import parse_json
from hb_dataset.whole_files import write_text
from hb_metrics.layout.rendering import for_script, render
from hb_metrics.run.typed_json import from_json

S = TypeVar("S", bound=tuple)  # a study, whose first field is the digest of all other fields
_DIGITS = 16  # the number of digits in ids
_FOLDER = Path(__file__).parent
# The reasons why a prompt has no pair. A prompt is counted under the first reason that applies.
REASONS = {
    "one_run": "only one of the runs replied to the prompt",
    "other_prompt": "the wording of the prompt differs between the runs (another seed or other variations)",
    "empty": "a reply is empty",
    "template": "the template is inflammatory",
    "term": "the term is inflammatory",
    "offensive": "a reply is offensive according to the run's classifier, or its model marked it as unsafe",
    "identical": "both replies are the same",
}


def read_study_file(path: Path, layout: int, kind: type[S], command: str) -> S:
    problem: object = "it was changed after it was written"
    try:
        content = parse_json(path.read_text(encoding="utf-8"))
        if isinstance(content, dict) and content.pop("layout", None) == layout:
            study = from_json(kind, content, "study")
            if study[0] == digest(study[1:]):
                return study
    except ValueError as error:
        problem = error
    raise ValueError(
        f"'{path}' is not a study written by this release's `human-eval {command}` ({problem}); restore the original "
        f"{path.name}"
    )


def study_text(study: Any, layout: int) -> str:
    return json.dumps({"layout": layout, **study._asdict()}, indent=1, ensure_ascii=False) + "\n"


def digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True, ensure_ascii=False).encode()).hexdigest()[:_DIGITS]


def rater_names(number: int) -> list[str]:
    digits = max(2, len(str(number)))
    return [f"rater-{rater:0{digits}}" for rater in range(1, number + 1)]


def write_study_files(folder: Path, files: Mapping[str, str], answers: str) -> None:
    """Writes the files of a study.

    `files` maps names to contents. `answers` is the word that errors use for answers, such as "ratings".

    Raises:
        ValueError: A file exists with other content. Answers may already refer to it, so it is not overwritten.
    """
    for name, text in files.items():
        path = folder / name
        if path.exists() and path.read_bytes() != text.encode():
            refers = f"'{path}' already exists with other content, to which {answers} may refer"
            raise ValueError(f"{refers}; set --output_dir to a new folder")
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        write_text(folder / name, text)


def study_page(template: str, data: dict[str, Any], **more: Any) -> str:
    """Renders a rater's page. It is a single file that neither loads nor sends anything.

    The page contains the replies as JSON. The page's script inserts the replies as text and not as HTML, and the
    browser runs no other script.
    """
    context = {"rater": data["rater"], "num_screens": len(data["screens"]), **more}
    for kind, file in (("style", "rater.css"), ("script", "rater.js")):
        text = (_FOLDER / file).read_text(encoding="utf-8")
        code = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        context |= {kind: Markup(text), f"{kind}_hash": f"sha256-{code}"}  # for the Content-Security-Policy
    return render(f"human_eval/{template}", {**context, "data": Markup(for_script(data))})


def beside_answers(answers: Path, name: str) -> Path:
    """Returns the path of a study's file. The file is in the folder of the file `answers`, or in its parent folder."""
    if not answers.is_file():
        raise FileNotFoundError(f"'{answers}' does not exist; pass a file that a rater saved")
    folder = answers.resolve().parent
    return folder / name if (folder / name).is_file() else folder.parent / name


def allocate(sizes: np.ndarray, number: int, wanted: np.ndarray, *, least: int = 0) -> np.ndarray:
    """Divides a sample of `number` among strata with these `sizes`, in proportion to `wanted`.

    Each stratum gets at least `least`, or all that it has. `number` must be large enough for that.
    """
    stratum = np.repeat(np.arange(len(sizes)), sizes)
    place = np.arange(len(stratum)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    urgency = np.where(place < least, np.inf, wanted[stratum] / (place + 1))
    chosen = np.argsort(-urgency, kind="stable")[:number]
    return np.bincount(stratum[chosen], minlength=len(sizes))


STUDY_FILE = "study.json"
LAYOUT = 3
# This text is our own, because the paper does not print one.
CHECK_REPLY = "This checks that you read the replies. Please choose this speaker, whatever the question."


class Question(NamedTuple):
    id: str
    title: str
    text: str


class ReplyPair(NamedTuple):
    """Two replies to a prompt, one from each run.

    `id` is the prompt's id. If the prompt has several replies, the reply's number is added.
    """

    id: str
    axis: str
    descriptor: str
    template: str
    prompt: str
    replies: tuple[str, str]


class Design(NamedTuple):
    """The numbers of pairs and raters. If they do not divide evenly, some pairs have one more rater than others."""

    num_raters: int
    pairs_per_rater: int
    raters_per_pair: int
    checks_per_rater: int
    seed: int

    @property
    def num_pairs(self) -> int:
        return self.num_raters * self.pairs_per_rater // self.raters_per_pair


class Screen(NamedTuple):
    """Two replies, as a rater sees them.

    Attributes:
        first: 0 if speaker 1 has the first run's reply, and 1 if speaker 1 has the second run's reply.
        asked: For an attention check, the speaker (1 or 2) that the rater is asked to choose. Otherwise `None`.
    """

    pair: int
    first: int
    asked: int | None


class Study(NamedTuple):
    """A human-evaluation study. `id` is the digest of all other fields. `sheets` contains each rater's screens."""

    id: str
    about: dict[str, Any]
    design: Design
    questions: list[Question]
    pairs: list[ReplyPair]
    sheets: dict[str, list[Screen]]

    def tasks(self, rater: str, place: int) -> dict[str, str]:
        """Returns the task's id for each question about a rater's screen. The ids do not reveal the runs."""
        return {question.id: digest([self.id, rater, place, question.id]) for question in self.questions}


def draw_study(
    pairs: Sequence[ReplyPair], design: Design, questions: Sequence[Question], about: dict[str, Any]
) -> Study:
    """Draws the pairs of a study, and the screens of each rater.

    If possible, all axes have the same number of pairs. Within an axis, the pairs are balanced over terms and
    templates. Each rater's pairs are spread evenly over the axes. For each rater and axis, both runs come first equally
    often (±1). The order of `pairs` does not affect the study.
    """
    if design.num_pairs > len(pairs):
        needed = f"the study needs {design.num_pairs:,} pairs, but only {len(pairs):,} can be shown to raters"
        raise ValueError(f"{needed}; lower --num_raters or --pairs_per_rater")
    chosen = _spread(_balanced_pairs(pairs, design.num_pairs, design.seed), design.seed)
    sheets: dict[str, list[Screen]] = {}
    for rater, name in enumerate(rater_names(design.num_raters)):
        first = rater * design.pairs_per_rater
        rows = [row % design.num_pairs for row in range(first, first + design.pairs_per_rater)]
        sheets[name] = _sheet(rows, chosen, design, name)
    study = Study("", about, design, list(questions), chosen, sheets)
    return study._replace(id=digest(study[1:]))


def speakers(study: Study, screen: Screen) -> tuple[str, str]:
    replies = study.pairs[screen.pair].replies
    first, second = replies[screen.first], replies[1 - screen.first]
    if screen.asked is None:
        return first, second
    return (CHECK_REPLY, second) if screen.asked == 1 else (first, CHECK_REPLY)


def read_study(path: Path) -> Study:
    return read_study_file(path, LAYOUT, Study, "export")


def _balanced_pairs(pairs: Sequence[ReplyPair], number: int, seed: int) -> list[ReplyPair]:
    by_axis = grouped((pair.axis, pair) for pair in sorted(pairs, key=lambda pair: pair.id))
    order = seeded_generator(seed, "human evaluation", "axes").permutation(sorted(by_axis)).tolist()
    sizes = np.array([len(by_axis[axis]) for axis in order], np.int64)
    wanted = dict(zip(order, allocate(sizes, number, np.ones(len(order))).tolist(), strict=True))
    chosen: list[ReplyPair] = []
    for axis, of_axis in by_axis.items():
        if wanted[axis]:
            table = pa.Table.from_pylist([pair._asdict() for pair in of_axis])
            ids = set(balanced_sample(table, wanted[axis], seed=seed)["id"].to_pylist())
            chosen += [pair for pair in of_axis if pair.id in ids]
    return chosen


def _spread(pairs: Sequence[ReplyPair], seed: int) -> list[ReplyPair]:
    """Orders the pairs so that any sequence of consecutive pairs is balanced over the axes."""
    generator = seeded_generator(seed, "human evaluation", "order of pairs")
    by_axis = grouped((pairs[index].axis, pairs[index]) for index in generator.permutation(len(pairs)))
    places = []
    for number, of_axis in enumerate(by_axis.values()):
        for rank, pair in enumerate(of_axis):
            places.append(((rank + 0.5) / len(of_axis), number, pair))
    return [pair for _, _, pair in sorted(places, key=lambda place: place[:2])]


def _sheet(rows: Sequence[int], pairs: Sequence[ReplyPair], design: Design, name: str) -> list[Screen]:
    generator = seeded_generator(design.seed, "human evaluation", name)
    # The pairs are sorted by axis, and the run that is shown first alternates. Both runs are therefore shown first
    # equally often, within each axis and overall.
    shuffled = generator.permutation(len(rows)).tolist()
    axes = generator.permutation(sorted({pairs[row].axis for row in rows})).tolist()
    by_axis = sorted(shuffled, key=lambda place: axes.index(pairs[rows[place]].axis))
    first = dict(zip(by_axis, _in_turn(len(rows), generator), strict=True))
    screens = []
    for place in generator.permutation(len(rows)).tolist():
        screens.append(Screen(rows[place], first[place], None))
    # The screens are divided into equal parts. One check is inserted into each part, somewhere after the part's first
    # screen.
    num_checks = design.checks_per_rater
    asked, runs = (generator.permutation(_in_turn(num_checks, generator)).tolist() for _ in range(2))
    stretches = np.linspace(0, len(screens), num_checks + 1)
    for check in reversed(range(num_checks)):  # from the end, so that earlier positions do not change
        low, high = int(stretches[check]) + 1, max(int(stretches[check + 1]), int(stretches[check]) + 1)
        place = int(generator.integers(low, high, endpoint=True))
        screens.insert(place, Screen(int(generator.integers(len(pairs))), runs[check], asked[check] + 1))
    return screens


def _in_turn(number: int, generator: np.random.Generator) -> list[int]:
    start = int(generator.integers(2))
    return [(start + place) % 2 for place in range(number)]
