"""Reads figures that others published, defensively: evaluation results (`.eval_results/*.yaml`) and results.json.

Anybody may have written these files. Nothing in them is executed, and no address in them is opened. A file or a figure
that is not valid is refused with a reason, which is shown with the others. What a figure was measured with is read from
its notes, as run_figures.py writes them; a results.json is turned into evaluation results first, so that there is one
way of reading. A figure whose notes do not hold what somebody else needs to measure it again is kept, with the reasons.
"""

import json
import math
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import yaml

from hb_dataset.prompts import version_configs
from hb_dataset.versions import frozen_versions
from hb_metrics.display.parts import Form
from hub_scripts.addresses import check_address
from hub_scripts.hub_errors import HubError
from hub_scripts.leaderboard.notes import MODEL_LETTERS, MOST_LETTERS, Dialogue, Notes, Settings, cleaned, quoted
from hub_scripts.publish_results import check_settled
from hub_scripts.run_figures import evaluation_results, version_of

MOST_YAML_BYTES, MOST_JSON_BYTES = 64 << 10, 16 << 20
MOST_ENTRIES, MOST_DIGITS = 64, 30
NO_LINK = "its link is not the address of a web page; the figure is shown without it"


class Column(NamedTuple):
    """A figure of the leaderboard: its title, how it is written, and the values that it can have."""

    title: str
    form: Form
    lowest: float
    highest: float
    meaning: str


# The style probabilities of a reply sum to 1, so that the sum of their variances is below 1, which is written ×1000.
COLUMNS = {
    "full_gen_bias_debiased": Column(
        "Full Gen Bias, debiased",
        "bias",
        -1000,
        1000,
        "How much the style of replies varies with the term in the prompt (×1000), less the estimated sampling noise.",
    ),
    "full_gen_bias": Column(
        "Full Gen Bias, plain",
        "bias",
        0,
        1000,
        "The same by the paper's formula, with the sampling noise in it: compare it only between runs with as many "
        "replies a cell.",
    ),
    "offensive_replies": Column(
        "Offensive replies", "small_share", 0, 1, "How many replies the classifier takes for offensive."
    ),
    "likelihood_bias": Column(
        "Likelihood Bias",
        "share",
        0,
        1,
        "Of tests between two terms of one axis in one template, how many find the likelihood of the sentences to "
        "differ.",
    ),
}


class Published(NamedTuple):
    """A published figure.

    Attributes:
        where: The file it is from.
        repo_id: The model's repository that the file is in; `None`: a local file.
        task: A key of `COLUMNS`.
        value: As published.
        interval: Lowest and highest; `None`: none was published.
        level: The confidence level of the interval in percent, as published.
        model: What was measured, in the words of the notes.
        settings: What it compares by.
        run: The control tag and the seed of its replies; empty for likelihoods.
        details: Parts of the notes to show beside the value, such as the replies a cell.
        dialogue: Dialogue quality of the same run; `None`: not published.
        link: Where the run can be looked at, as published; `None`: nowhere.
        page: The page of the file, or of its run folder, on the Hub; `None`: a local file.
        faults: Why nobody else can measure the same again; empty if they can.
    """

    where: str
    repo_id: str | None
    task: str
    value: float
    interval: tuple[float, float] | None
    level: str
    model: str
    settings: Settings
    run: tuple[str, ...]
    details: tuple[str, ...]
    dialogue: Dialogue | None
    link: str | None
    page: str | None
    faults: tuple[str, ...]


class Refused(NamedTuple):
    """A file or an entry that is not shown, and why."""

    where: str
    reason: str


class Reading(NamedTuple):
    """What was read: figures, refusals, and how many entries were about other datasets or other figures."""

    figures: list[Published]
    refused: list[Refused]
    num_others: int


def read_files(paths: Iterable[Path], dataset_id: str) -> Reading:
    """Reads run folders, folders of such, and single files.

    Args:
        paths: Files that end in .yaml, .yml or .json, or folders, which are searched for `results.json` and
            `.eval_results/*.yaml`.
        dataset_id: The dataset's Hub id. Results for another one are counted and left out.

    Raises:
        ValueError: There is no such file or folder, or nothing to read in a folder.
    """
    readings = []
    for path in paths:
        if path.is_dir():
            found = sorted({*path.rglob("results.json"), *path.rglob(".eval_results/*.y*ml")})
            if not found:
                raise ValueError(f"'{path}' has no results.json and no .eval_results/*.yaml in it; name other results")
            # The folder's own name is enough: the path to it is private.
            named = [(file, f"{path.resolve().name}/{file.relative_to(path).as_posix()}") for file in found]
        elif path.exists():
            named = [(path, path.name)]
        else:
            raise ValueError(f"there is no file or folder '{path}'; name published results")
        for file, where in named:
            if not file.is_file():  # a pipe or a device would never end
                readings.append(Reading([], [Refused(cleaned(where), "it is no regular file")], 0))
                continue
            if (reason := size_fault(where, file.stat().st_size)) is not None:
                readings.append(Reading([], [Refused(cleaned(where), reason)], 0))
                continue
            readings.append(read_content(file.read_bytes(), where, None, dataset_id))
    return joined(readings)


def size_fault(path: str, size: int) -> str | None:
    """Why a file is too large to be read; `None`: it is not."""
    most = MOST_JSON_BYTES if path.endswith(".json") else MOST_YAML_BYTES
    return f"{size:,} bytes; at most {most:,} are read" if size > most else None


def read_content(content: bytes, where: str, repo_id: str | None, dataset_id: str) -> Reading:
    """Reads the content of a file.

    Args:
        content: Its bytes.
        where: Its path, to show; it ends in .json if it is a results.json.
        repo_id: The model's repository that it is in; `None`: a local file.
        dataset_id: The dataset's Hub id.
    """
    shown, page = cleaned(where), None if repo_id is None else _page(where, repo_id)
    if (reason := size_fault(where, len(content))) is not None:
        return Reading([], [Refused(shown, reason)], 0)
    try:
        text = content.decode()
        listed = _entries_of_run(text, dataset_id) if where.endswith(".json") else _entries(text)
    except UnicodeDecodeError:
        return Reading([], [Refused(shown, "it is not UTF-8")], 0)
    except ValueError as error:
        return Reading([], [Refused(shown, cleaned(_PATH.sub("", str(error))))], 0)
    figures, refused, num_others = [], [], 0
    for number, entry in enumerate(listed, start=1):
        try:
            figure = _published(entry, shown, repo_id, dataset_id, page)
        except ValueError as error:
            refused.append(Refused(f"{shown}, entry {number}", cleaned(str(error))))
        else:
            num_others += figure is None
            figures += [] if figure is None else [figure]
            if figure is not None and figure.link is None and isinstance(entry.get("source"), dict):
                refused.append(Refused(f"{shown}, entry {number}", NO_LINK))
    return Reading(figures, refused, num_others)


def joined(readings: Iterable[Reading]) -> Reading:
    """Several readings as one; of figures that are given twice for the same run, the second is refused."""
    figures: dict[tuple[Any, ...], Published] = {}
    refused, num_others = [], 0
    for reading in readings:
        refused += reading.refused
        num_others += reading.num_others
        for figure in reading.figures:
            first = figures.setdefault((figure.repo_id, figure.model, figure.task, figure.settings, figure.run), figure)
            if first is not figure:
                same = "with the same value" if first.value == figure.value else "with another value"
                title = COLUMNS[figure.task].title
                reason = f"{title} of the same model and settings is also in {first.where}, {same}"
                refused.append(Refused(figure.where, reason))
    return Reading(list(figures.values()), refused, num_others)


# The path to a file, which is private, unlike its name.
_PATH = re.compile(r"(?<![\w.:/\\])(?:~|[A-Za-z]:)?[/\\](?:[^\s'\"()]*[/\\])?")


class _PlainLoader(yaml.BaseLoader):
    """YAML of which all scalars are text, and without aliases: a few of them can stand for billions of entries."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise ValueError("it has YAML aliases, which evaluation results do not need")
        return super().compose_node(parent, index)


def _entries(text: str) -> list[Any]:
    """The entries of a file of evaluation results."""
    try:
        listed = yaml.load(text, _PlainLoader)
    except yaml.MarkedYAMLError as error:
        line = "" if error.problem_mark is None else f", line {error.problem_mark.line + 1}"
        raise ValueError(f"it is not YAML ({error.problem}{line})") from error
    except (yaml.YAMLError, TypeError, RecursionError) as error:  # such as a list as a key, or too deep
        raise ValueError(f"it is not YAML ({type(error).__name__})") from error
    if not isinstance(listed, list):
        raise ValueError("it is not a list of evaluation results")
    if len(listed) > MOST_ENTRIES:
        raise ValueError(f"{len(listed):,} entries; at most {MOST_ENTRIES} are read")
    return listed


def _entries_of_run(text: str, dataset_id: str) -> list[Any]:
    """The entries that publish_results.py would write for a results.json."""
    try:
        results = json.loads(text, parse_constant=_no_constant)
    except RecursionError as error:
        raise ValueError("it is not JSON (too deep)") from error
    except json.JSONDecodeError as error:
        raise ValueError(f"it is not JSON ({error.msg}, line {error.lineno})") from error
    try:
        check_settled(results)
        return [entry for file in evaluation_results(results, dataset_id).values() for entry in _entries(file)]
    except (LookupError, TypeError, AttributeError, ArithmeticError, RecursionError, yaml.YAMLError) as error:
        raise ValueError(f"it does not hold the results of a run ({type(error).__name__}: {error})") from error


def _no_constant(name: str) -> None:
    raise ValueError(f"it has {name}, which no results.json has")


def _published(entry: Any, where: str, repo_id: str | None, dataset_id: str, page: str | None) -> Published | None:
    """An entry as a figure; `None`: it is about another dataset, or another figure.

    Raises:
        ValueError: It is not valid.
    """
    dataset = _part(entry, "dataset")
    if _text(dataset, "id") != dataset_id:
        return None
    task_id = _text(dataset, "task_id")
    task = next((name for name in sorted(COLUMNS, key=len, reverse=True) if task_id.startswith(f"{name}_")), None)
    if task is None:
        return None
    config = task_id.removeprefix(f"{task}_")
    version = version_of(config)
    if version not in frozen_versions() or config not in version_configs(version):
        raise ValueError(f"'{config}' is no config of a published version")
    column = COLUMNS[task]
    value = _number(_text(entry, "value"), column, "value")
    notes = Notes(_text(entry, "notes", required=False), config, task)
    interval = None
    if notes.interval is not None:
        if not 0 < float(notes.interval[0]) < 100:
            raise ValueError(f"its interval is of {quoted(notes.interval[0])}%")
        low, high = (_number(bound, column, "bound of the interval") for bound in notes.interval[1:])
        if low > high:
            raise ValueError(f"the interval is from {low:g} to {high:g}")
        interval = low, high
    revision = _text(dataset, "revision", required=False)
    faults = [*notes.faults(repo_id)]
    if interval is not None and not interval[0] <= value <= interval[1]:
        faults.append("its value is outside its interval")
    if revision != version:
        faults.append(f"the dataset's revision is {quoted(revision)}, not {version}")
    return Published(
        where,
        repo_id,
        task,
        value,
        interval,
        "" if notes.interval is None else notes.interval[0],
        cleaned(notes.model, MODEL_LETTERS),
        notes.settings(),
        notes.run,
        tuple(notes.details),
        notes.dialogue,
        _link(entry),
        page,
        tuple(faults),
    )


def _page(where: str, repo_id: str) -> str:
    """The page of a file on the Hub; of a results.json that of its run folder, in which the report is."""
    path = where.removeprefix(f"{repo_id}/")
    folder = path.rpartition("/")[0]
    kind, shown = ("tree", folder) if path.endswith(".json") else ("blob", path)
    return f"https://huggingface.co/{repo_id}/{kind}/main/{quote(shown)}".rstrip("/")


def _part(entry: Any, name: str) -> Mapping[str, Any]:
    part = entry.get(name) if isinstance(entry, dict) else None
    if not isinstance(part, dict):
        raise ValueError(f"it has no {name}")
    return part


def _text(part: Any, name: str, required: bool = True) -> str:
    """A text of an entry; empty if there is none and it is not required."""
    text = part.get(name) if isinstance(part, dict) else None
    if text in (None, "") and not required:
        return ""
    if not isinstance(text, str):
        raise ValueError(f"its {name} is {'missing' if text is None else 'a list or a mapping'}")
    if len(text) > MOST_LETTERS:
        raise ValueError(f"its {name} has {len(text):,} characters; at most {MOST_LETTERS:,} are read")
    return text


def _number(text: str, column: Column, what: str) -> float:
    if len(text) > MOST_DIGITS or re.fullmatch(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?", text, re.ASCII) is None:
        raise ValueError(f"its {what} {quoted(text)} is not a number")
    number = float(text)
    if not math.isfinite(number) or not column.lowest <= number <= column.highest:
        raise ValueError(
            f"its {what} {quoted(text)} cannot be: {column.title} is from {column.lowest:g} to {column.highest:g}"
        )
    return number


def _link(entry: Mapping[str, Any]) -> str | None:
    """The address of the run; `None`: there is none, or it is not one of a web page."""
    source = entry.get("source")
    address = source.get("url") if isinstance(source, dict) else None
    if not isinstance(address, str) or len(address) > MOST_LETTERS:
        return None
    try:
        check_address(address, "source")
    except HubError:
        return None
    return address
