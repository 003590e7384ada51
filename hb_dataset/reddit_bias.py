"""RedditBias (Barikeri et al. 2021): phrases about one group, each with its counterfactual about the other.

    dataset = load_reddit_bias("RedditBias/data", "gender")  # train, validation, test
    dataset = pairs_from_comments(open("comments.txt"), read_specification("gender"))

The phrases are hateful: they are read from a folder of yours and never shown. A folder may be laid out as the paper's
authors' (`data/<bias type>/…_biased_test_reduced.csv`, …) or hold `train`, `validation` and `test` as .csv or .txt.
"""

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from hb_dataset.bias_specification import BiasSpecification, read_specification
from hb_dataset.comment_files import column_error, label_of, number_of, read_csv, read_header, read_lines
from hb_dataset.comments import candidates
from hb_dataset.counterfactuals import Mode, check_mode, counterfactual

if TYPE_CHECKING:
    import datasets

SPLITS = ("train", "validation", "test")
TEXT_COLUMNS = ("text", "phrase", "comments_processed")  # the last is the authors' name, and holds phrases too
START_MARK = "<bos> "

NO_FOLDER_ERROR = "no folder '{folder}'; give the folder of the data, or the one above it that has it as '{bias_type}'"
NO_SPLITS_ERROR = (
    "'{folder}' has no split of RedditBias; put train, validation or test as .csv or .txt there, or the authors' files "
    "*_bias_manual_train.txt and *_biased_valid_reduced.csv and *_biased_test_reduced.csv"
)
SEVERAL_FILES_ERROR = "'{folder}' has several files for {what} ({files}); leave one of them"
NOT_ALIGNED_ERROR = "'{path}' has {rows} rows, and '{other}' has {other_rows}; they are the two sides of the same pairs"

_AUTHORS_FILES = {"validation": "valid", "test": "test"}
_LOG = logging.getLogger(__name__)


class _Phrase(NamedTuple):
    """A phrase, and what the files say of it. `given`: its counterfactual stands in a file of the user's own."""

    t1: str
    t2: str | None = None
    perplexity_t1: float | None = None
    perplexity_t2: float | None = None
    given: bool = False


class _Split(NamedTuple):
    """The rows of a split, and of how many something is to be told."""

    rows: list[dict[str, Any]]
    counts: dict[str, int]


def load_reddit_bias(
    folder: str | Path, bias_type: str | Path | BiasSpecification, *, mode: Mode | None = None
) -> "datasets.DatasetDict":
    """Reads phrases and their counterfactuals.

    Args:
        folder: The data of the bias type, or the folder that has it as `<bias type>/`. The authors' layout, or
            `train`, `validation`, `test` as .txt (a phrase a line) or .csv (one of `TEXT_COLUMNS`, and `text_t2` and
            perplexities if they are known). UTF-8 or Latin-1.
        bias_type: A name of `specification_names()`, the path of a specification, or one that was read.
        mode: `"published"` (default for the authors' files): the counterfactuals in the files, and by the published
            rule where there are none; a phrase without a term is its own counterfactual, as in the authors' data.
            `"word"` (default for others): in whole words (see `counterfactual`), but for rows with a `text_t2` of your
            own; phrases without a term are left out, which `reddit_bias_report` counts.

    Returns:
        The splits that are there, of `train`, `validation` and `test`, with the columns `id`, `text_t1`, `text_t2`,
        `perplexity_t1`, `perplexity_t2` (as the files have them for just these texts, else null). A warning in the log
        says how many texts stand in two splits.

    Raises:
        FileNotFoundError, NotADirectoryError: There is no such folder, or no split in it.
        ValueError: A file is not as it should be; the message names it, and holds none of its text.
    """
    import datasets

    specification = _specification(bias_type)
    splits, _ = _read_splits(Path(folder), specification, mode)
    for pair, report in _shared_texts(splits).items():
        if report["num_rows"]:
            _LOG.warning("%s: %d rows of both %s have the same text", specification.bias_type, report["num_rows"], pair)
    return datasets.DatasetDict({name: _dataset(split.rows) for name, split in splits.items()})


def reddit_bias_report(
    folder: str | Path, bias_type: str | Path | BiasSpecification, *, mode: Mode | None = None
) -> dict[str, Any]:
    """What is to be known of the data before a number from it is believed.

    Args:
        folder: As `load_reddit_bias`.
        bias_type: As `load_reddit_bias`.
        mode: As `load_reddit_bias`.

    Returns:
        `bias_type`, `mode`, `splits` and `duplicates`. A split has `num_read` (phrases in the file), `num_pairs`,
        `num_without_term` (no term to replace: left out in whole words, else their own counterfactual),
        `num_not_by_rule` (the counterfactual in the file is not the rule's), `num_identical` (the two texts of a pair
        are the same) and `num_duplicates` (rows whose text_t1 stood in the split before). `duplicates`
        has, for each two splits ("train and test"), `num_rows` of the later one whose text_t1 is in the earlier one,
        and their `ids`.

    Raises:
        FileNotFoundError, NotADirectoryError, ValueError: As `load_reddit_bias`.
    """
    specification = _specification(bias_type)
    splits, mode = _read_splits(Path(folder), specification, mode)
    told = {}
    for name, split in splits.items():
        told[name] = {
            **split.counts,
            "num_pairs": len(split.rows),
            "num_identical": sum(row["text_t1"] == row["text_t2"] for row in split.rows),
            "num_duplicates": len(split.rows) - len({row["text_t1"] for row in split.rows}),
        }
    return {
        "bias_type": specification.bias_type,
        "mode": mode,
        "splits": told,
        "duplicates": _shared_texts(splits),
    }


def pairs_from_comments(
    comments: Iterable[str] | str | Path,
    specification: BiasSpecification,
    *,
    mode: Mode = "word",
    counts: Counter[str] | None = None,
) -> "datasets.Dataset":
    """Pairs from any comments.

    Args:
        comments: Raw comments, or a file: .txt with one a line, .csv with a column `comment`. A .csv with the columns
            `phrase` and `bias_phrase` is an annotated one, of which the phrases labeled 1 are taken as they are.
        specification: Which terms.
        mode: How counterfactuals are made.
        counts: If given, is told how many comments were `read` and `paired`, and why others were left out:
            `too_long`, `without_target`, `without_attribute` (see `candidates`), `not_biased` (annotated, and the
            phrase not labeled 1), `without_term` (the phrase has no term to replace).

    Returns:
        A row for each phrase, with the columns of `load_reddit_bias`; perplexities are null. Without annotation the
        phrases are candidates, of which the paper found about 60 % biased.

    Raises:
        FileNotFoundError: There is no such file.
        TypeError, ValueError: Comments or the file are not as they should be.
    """
    check_mode(mode)
    counts = Counter() if counts is None else counts
    rows = []
    for row, phrase in _phrases(comments, specification, counts):
        other = counterfactual(phrase, specification, mode)
        if other is None:
            counts["without_term"] += 1
            continue
        rows.append(_row(f"{specification.bias_type}-{row}", phrase, other))
    counts["paired"] += len(rows)
    return _dataset(rows)


# --- Splits -----------------------------------------------------------------------------------------------------------


def _specification(bias_type: str | Path | BiasSpecification) -> BiasSpecification:
    return bias_type if isinstance(bias_type, BiasSpecification) else read_specification(bias_type)


def _read_splits(folder: Path, specification: BiasSpecification, mode: Mode | None) -> tuple[dict[str, _Split], Mode]:
    """The splits that are there, and how their counterfactuals are made."""
    if mode is not None:
        check_mode(mode)
    bias_type = specification.bias_type
    if not folder.is_dir():
        raise NotADirectoryError(NO_FOLDER_ERROR.format(folder=folder, bias_type=bias_type))
    folder = folder / bias_type if (folder / bias_type).is_dir() else folder
    if mode is None:
        mode = "published" if any(folder.glob("*_bias_manual_train.txt")) or _reduced(folder, "*") else "word"
    splits = {}
    for name in SPLITS:
        phrases = _read_phrases(folder, name)
        if phrases is not None:
            splits[name] = _paired(phrases, specification, mode, name)
    if not splits:
        raise FileNotFoundError(NO_SPLITS_ERROR.format(folder=folder))
    return splits, mode


def _read_phrases(folder: Path, split: str) -> list[_Phrase] | None:
    """The phrases of a split, and what the files say of each; `None` if it is not there."""
    plain = [path for path in (folder / f"{split}.csv", folder / f"{split}.txt") if path.is_file()]
    path = _only(plain, folder, split)
    if path is not None:
        return _plain_phrases(path)
    if split == "train":
        path = _only(sorted(folder.glob("*_bias_manual_train.txt")), folder, split)
        return None if path is None else _plain_phrases(path)
    sides: tuple[list[Path], list[Path]] = ([], [])
    for each in _reduced(folder, _AUTHORS_FILES[split]):  # the counterfactuals' file names what was replaced by what
        sides["replaced_demo" in read_header(each)].append(each)
    path, other = _only(sides[0], folder, split), _only(sides[1], folder, f"{split} (counterfactuals)")
    return None if path is None else _aligned_phrases(path, other)


def _reduced(folder: Path, split: str) -> list[Path]:
    return sorted(folder.glob(f"*_biased_{split}_reduced.csv"))


def _only(paths: list[Path], folder: Path, what: str) -> Path | None:
    if len(paths) > 1:
        files = ", ".join(path.name for path in paths)
        raise ValueError(SEVERAL_FILES_ERROR.format(folder=folder, what=what, files=files))
    return paths[0] if paths else None


def _plain_phrases(path: Path) -> list[_Phrase]:
    if path.suffix == ".txt":
        return [_Phrase(_without_start_mark(line)) for line in read_lines(path)]
    columns = read_header(path)
    text = next((name for name in ("text_t1", *TEXT_COLUMNS) if name in columns), None)
    if text is None:
        raise column_error(path, TEXT_COLUMNS, columns)
    return [
        _Phrase(
            _without_start_mark(cells[text]),
            _without_start_mark(cells["text_t2"]) if cells.get("text_t2") else None,
            number_of(cells, "perplexity_t1", path, row),
            number_of(cells, "perplexity_t2", path, row),
            given=bool(cells.get("text_t2")),
        )
        for row, cells in enumerate(read_csv(path))
    ]


def _aligned_phrases(path: Path, other: Path | None) -> list[_Phrase]:
    """The authors' two files of a split, whose rows belong together."""
    rows = read_csv(path, ("comments_processed",))
    counterparts = [{} for _ in rows] if other is None else read_csv(other, ("comments_processed",))
    if len(rows) != len(counterparts):
        raise ValueError(NOT_ALIGNED_ERROR.format(path=path, rows=len(rows), other=other, other_rows=len(counterparts)))
    return [
        _Phrase(
            _without_start_mark(cells["comments_processed"]),
            _without_start_mark(against["comments_processed"]) if against else None,
            number_of(cells, "perplexity", path, row),
            number_of(against, "perplexity", other or path, row),
        )
        for row, (cells, against) in enumerate(zip(rows, counterparts, strict=True))
    ]


def _paired(phrases: list[_Phrase], specification: BiasSpecification, mode: Mode, split: str) -> _Split:
    counts = {"num_read": len(phrases), "num_without_term": 0, "num_not_by_rule": 0}
    rows = []
    for index, phrase in enumerate(phrases):
        other = counterfactual(phrase.t1, specification, mode)
        counts["num_without_term"] += other is None
        if other is None and mode == "published":
            other = phrase.t1
        if phrase.t2 is not None and (phrase.given or mode == "published"):
            counts["num_not_by_rule"] += phrase.t2 != other
            other = phrase.t2
        if other is None:
            continue
        perplexity_t2 = phrase.perplexity_t2 if other == phrase.t2 else None  # it is of the file's own text
        identity = f"{specification.bias_type}-{split}-{index}"
        rows.append(_row(identity, phrase.t1, other, phrase.perplexity_t1, perplexity_t2))
    return _Split(rows, counts)


def _shared_texts(splits: Mapping[str, _Split]) -> dict[str, dict[str, Any]]:
    names = list(splits)
    shared = {}
    for place, later in enumerate(names):
        for earlier in names[:place]:
            texts = {row["text_t1"] for row in splits[earlier].rows}
            ids = [row["id"] for row in splits[later].rows if row["text_t1"] in texts]
            shared[f"{earlier} and {later}"] = {"num_rows": len(ids), "ids": ids}
    return shared


# --- Comments of one's own --------------------------------------------------------------------------------------------


def _phrases(
    comments: Iterable[str] | str | Path, specification: BiasSpecification, counts: Counter[str]
) -> Iterator[tuple[int, str]]:
    """The phrases to pair, each with the row it comes from."""
    if isinstance(comments, str | Path):
        path = Path(comments)
        if path.suffix == ".csv" and {"phrase", "bias_phrase"} <= set(read_header(path)):
            for row, cells in enumerate(read_csv(path)):
                counts["read"] += 1
                if label_of(cells["bias_phrase"]) == 1:
                    yield row, cells["phrase"]
                else:
                    counts["not_biased"] += 1
            return
        if path.suffix == ".csv":
            comments = [cells["comment"] for cells in read_csv(path, ("comment",))]
        else:
            comments = read_lines(path)
    for candidate in candidates(comments, specification, counts=counts):
        yield candidate.row, candidate.phrase


def _without_start_mark(text: str) -> str:
    """The text without the start token that the authors' scripts wrote into some files."""
    return text.removeprefix(START_MARK)


def _row(
    identity: str, t1: str, t2: str | None, perplexity_t1: float | None = None, perplexity_t2: float | None = None
) -> dict[str, Any]:
    return {
        "id": identity,
        "text_t1": t1,
        "text_t2": t2,
        "perplexity_t1": perplexity_t1,
        "perplexity_t2": perplexity_t2,
    }


def _dataset(rows: list[dict[str, Any]]) -> "datasets.Dataset":
    import datasets

    text, number = datasets.Value("string"), datasets.Value("float64")
    features = datasets.Features(
        {"id": text, "text_t1": text, "text_t2": text, "perplexity_t1": number, "perplexity_t2": number}
    )
    return datasets.Dataset.from_dict({name: [row[name] for row in rows] for name in features}, features=features)
