"""Reads RedditBias (Barikeri et al. 2021): phrases about one group, and their counterfactuals about the other group.

The phrases are hateful, so errors and logs never show them.

In the authors' repository, `data/<type>/` contains the pairs for validation and testing, in one file per split and
group. `text_files/<type>/` contains the training phrases. The folder for queerness is called `orientation`.
"""

import itertools
import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from hb_dataset.bias_specification import BiasSpecification, read_specification
from hb_dataset.counterfactuals import Mode, check_mode, counterfactual, lowered
from hb_dataset.table_files import column_of, filled_text_in, read_header, read_lines, read_table

if TYPE_CHECKING:
    import datasets

SPLITS = ("train", "validation", "test")
SIDES = ("t1", "t2")  # the sides of a pair: the stereotyped text, and the other text
COLUMN = "comments_processed"  # in the authors' files
TEXT_COLUMNS = ("text", "phrase", COLUMN)
START_MARK = "<bos> "
PAIRS_FOLDER, TRAIN_FOLDER = "data", "text_files"  # in the authors' repository
# religion2 has two files: one as written, and one in lower case, for which the authors wrote their rule.
TRAIN_FILES = ("*_bias_manual_lowercase_train.txt", "*_bias_manual_train.txt")
COUNTERFACTUAL_COLUMN = "replaced_demo"  # a column that is only in the authors' file of counterfactuals

_AUTHORS_FILES = {"validation": "valid", "test": "test"}
# The largest allowed share of phrases without a term, or equal to their counterfactual. In the authors' data, 99 % of
# the phrases contain a term of group 1. In the data of another bias type, at most 15 % do.
MAX_MISFITS = 1 / 2

_LOG = logging.getLogger(__name__)


class Phrase(NamedTuple):
    """A phrase (t1) and, if the files contain it, its counterfactual (t2).

    `given` is true if t2 comes from the column `text_t2` of the user's own file.
    """

    t1: str
    t2: str | None = None
    given: bool = False


def read_phrase_files(folder: Path, specification: BiasSpecification) -> tuple[dict[str, list[Phrase]], bool]:
    """Reads the phrases of each split. Also returns whether the files come from the authors' repository."""
    if not folder.is_dir():
        raise NotADirectoryError(f"folder '{folder}' does not exist; pass the authors' repository, or your own folder")
    folders = _folders(folder, specification)
    splits: dict[str, list[Phrase]] = {}
    for name in SPLITS:
        phrases = _read_split(folder, folders, name)
        if phrases == []:
            raise ValueError(f"the {name} file in '{folder}' has no phrases; add phrases, or remove the file")
        if phrases:
            splits[name] = phrases
    if not splits:
        name = specification.published_folder or specification.bias_type
        raise FileNotFoundError(
            f"'{folder}' contains no RedditBias split for {specification.bias_type}; add a file named train, "
            f"validation or test, or pass the authors' repository, with data/{name}/ and text_files/{name}/"
        )
    return splits, any(_files(folders, *TRAIN_FILES, "*_biased_*_reduced.csv"))


def _folders(folder: Path, specification: BiasSpecification) -> list[Path]:
    names = filter(None, (specification.bias_type, specification.published_folder))
    parents = (folder, folder / PAIRS_FOLDER, folder / TRAIN_FOLDER)
    folders = [parent / name for name in names for parent in parents if (parent / name).is_dir()]
    return folders or [folder]


def _files(folders: Sequence[Path], *patterns: str) -> list[Path]:
    paths = [path for folder in folders for pattern in patterns for path in sorted(folder.glob(pattern))]
    return [path for path in paths if path.is_file()]


def _read_split(folder: Path, folders: Sequence[Path], split: str) -> list[Phrase] | None:
    sources = [(f"{split}.csv", f"{split}.txt"), *((pattern,) for pattern in TRAIN_FILES if split == "train")]
    for patterns in sources:
        path = _only(_files(folders, *patterns), folder, split)
        if path is not None:
            return _plain_phrases(path)
    if split == "train":
        return None
    by_side: dict[bool, list[Path]] = {False: [], True: []}
    for path in _files(folders, f"*_biased_{_AUTHORS_FILES[split]}_reduced.csv"):
        by_side[COUNTERFACTUAL_COLUMN in read_header(path)].append(path)
    t1, t2 = _only(by_side[False], folder, split), _only(by_side[True], folder, f"{split} (counterfactuals)")
    if t1 is None and t2 is not None:
        raise ValueError(f"{split} has counterfactuals ({_names([t2], folder)}), but no phrases; add the other file")
    return None if t1 is None else _aligned_phrases(t1, t2)


def _only(paths: Sequence[Path], folder: Path, what: str) -> Path | None:
    if len(paths) > 1 and len({(path.name, path.read_bytes()) for path in paths}) > 1:
        raise ValueError(f"'{folder}' has several files for {what} ({_names(paths, folder)}); keep only one")
    return paths[0] if paths else None


def _names(paths: Sequence[Path], folder: Path) -> str:
    return ", ".join(os.path.relpath(path, folder) for path in paths)


def _plain_phrases(path: Path) -> list[Phrase]:
    if path.suffix == ".txt":
        return [Phrase(line.removeprefix(START_MARK)) for line in read_lines(path)]
    texts = ("text_t1", *TEXT_COLUMNS)
    phrases = []
    for place, cells in read_table(path, texts, strict=False):
        t1 = filled_text_in(place, cells, column_of(texts, cells) or "").removeprefix(START_MARK)
        t2 = cells["text_t2"].removeprefix(START_MARK) if cells.get("text_t2", "").strip() else None
        phrases.append(Phrase(t1, t2, given=t2 is not None))
    return phrases


def _aligned_phrases(path: Path, other: Path | None) -> list[Phrase]:
    sides = []
    for file in filter(None, (path, other)):
        rows = read_table(file, (COLUMN,), strict=False)
        sides.append([filled_text_in(place, row, COLUMN).removeprefix(START_MARK) for place, row in rows])
    if len({len(texts) for texts in sides}) > 1:
        numbers = f"'{path}' has {len(sides[0])} rows, but '{other}' has {len(sides[1])}"
        raise ValueError(f"{numbers}; pass files of which the same rows form pairs")
    return [Phrase(*texts) for texts in zip(*sides, strict=True)]


def load_reddit_bias(
    folder: str | Path, bias_type: str | Path | BiasSpecification, *, mode: Mode | None = None
) -> "datasets.DatasetDict":
    """Reads phrases and their counterfactuals.

    Args:
        folder: The authors' repository or its folder `data`, or your own folder. Your own folder contains files named
            `train`, `validation` and `test`, directly or in `<bias type>/`. A .txt file contains one phrase per line. A
            .csv file contains one of the columns `TEXT_COLUMNS` and, optionally, `text_t2`. Files are in UTF-8 or
            Latin-1.
        bias_type: A name from `specification_names()`, the path of a specification, or a specification.
        mode: The rule that makes counterfactuals (see `hb_dataset.counterfactuals`). `"published"` is the default for
            the authors' files. It keeps the counterfactuals in the files, and makes only the missing ones. A phrase
            without a term is its own counterfactual, as in the authors' data. `"word"` is the default for other files.
            It keeps the counterfactuals in the column `text_t2`, and drops phrases without a term.

    Returns:
        The splits that exist (`train`, `validation`, `test`), with the columns `id`, `text_t1` and `text_t2`.
        Repeated, unchanged and dropped texts are counted in warnings in the log.

    Raises:
        FileNotFoundError, NotADirectoryError: The folder does not exist, or it contains no split.
        ValueError: A file has none of these formats, or most phrases in a split contain no term of the specification.
    """
    import datasets

    specification = bias_type if isinstance(bias_type, BiasSpecification) else read_specification(bias_type)
    if mode is not None:
        check_mode(mode)
    files, are_authors = read_phrase_files(Path(folder), specification)
    chosen = mode or ("published" if are_authors else "word")
    splits = {name: _paired(phrases, specification, chosen, name) for name, phrases in files.items()}
    for name, rows in splits.items():
        _check_identical(rows, f"the {name} split of '{folder}'", specification)
        if skipped := len(files[name]) - len(rows):
            _LOG.warning("%s: %d %s phrases contain no term and were skipped", folder, skipped, name)
    for earlier, later in itertools.combinations(splits, 2):
        texts = {row["text_t1"] for row in splits[earlier]}
        if number := sum(row["text_t1"] in texts for row in splits[later]):
            _LOG.warning("%s: %d texts occur in both %s and %s", specification.bias_type, number, earlier, later)
    schema = pa.schema([(column, pa.string()) for column in ("id", "text_t1", "text_t2")])
    tables = {name: pa.Table.from_pylist(rows, schema) for name, rows in splits.items()}
    return datasets.DatasetDict({name: datasets.Dataset(table) for name, table in tables.items()})


def _check_identical(rows: Sequence[dict[str, str]], what: str, specification: BiasSpecification) -> None:
    number = sum(row["text_t1"] == row["text_t2"] for row in rows)
    if number > MAX_MISFITS * len(rows):
        raise ValueError(
            f"{number} of {len(rows)} counterfactuals in {what} are identical to their phrases; check that the phrases "
            f"contain the terms of '{specification.bias_type}'"
        )
    if number:
        _LOG.warning("%s: %d of %d phrases are identical to their counterfactuals", what, number, len(rows))


def _paired(
    phrases: Sequence[Phrase], specification: BiasSpecification, mode: Mode, split: str
) -> list[dict[str, str]]:
    rows = []
    num_without_term = 0
    for index, phrase in enumerate(phrases):
        t1, t2 = phrase.t1, counterfactual(phrase.t1, specification, mode)
        if t2 is None and not phrase.given:
            num_without_term += counterfactual(t1, specification, "published") is None
        if mode == "published":
            t1 = lowered(t1)
            made = t1 if t2 is None else t2
            t2 = made if phrase.t2 is None else lowered(phrase.t2)
        elif phrase.given:
            t2 = phrase.t2
        if t2 is not None:
            rows.append({"id": f"{specification.bias_type}-{split}-{index}", "text_t1": t1, "text_t2": t2})
    if num_without_term > MAX_MISFITS * len(phrases):
        raise ValueError(
            f"{num_without_term} of {len(phrases)} {split} phrases contain no term of '{specification.bias_type}'; "
            "pass the folder for this bias type, or the bias type to which the folder belongs"
        )
    return rows
