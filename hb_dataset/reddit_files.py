"""Finds and reads the files of RedditBias in all layouts that `load_reddit_bias` accepts.

In the authors' repository, `data/<type>/` contains the pairs for validation and testing, in one file per split and
group. `text_files/<type>/` contains the training phrases. The folder for queerness is called `orientation`.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from hb_dataset.bias_specification import BiasSpecification
from hb_dataset.table_files import column_of, filled_text_in, number_in, read_header, read_lines, read_table

SPLITS = ("train", "validation", "test")
TEXT_COLUMNS = ("text", "phrase", "comments_processed")  # the authors' files use "comments_processed"
START_MARK = "<bos> "
PAIRS_FOLDER, TRAIN_FOLDER = "data", "text_files"  # in the authors' repository
# religion2 has two files: one as written, and one in lower case, for which the authors wrote their rule.
TRAIN_FILES = ("*_bias_manual_lowercase_train.txt", "*_bias_manual_train.txt")
COUNTERFACTUAL_COLUMN = "replaced_demo"  # a column that is only in the authors' file of counterfactuals

_AUTHORS_FILES = {"validation": "valid", "test": "test"}


class Phrase(NamedTuple):
    """A phrase (t1), its counterfactual (t2) and their perplexities, if the files contain them.

    `given` is true if t2 comes from the column `text_t2` of the user's own file.
    """

    t1: str
    t2: str | None = None
    perplexity_t1: float | None = None
    perplexity_t2: float | None = None
    given: bool = False


def read_phrase_files(folder: Path, specification: BiasSpecification) -> tuple[dict[str, list[Phrase]], bool]:
    """Reads the phrases of each split. Also returns whether the files come from the authors' repository."""
    if not folder.is_dir():
        raise NotADirectoryError(
            f"folder '{folder}' does not exist; pass the authors' repository, the folder with the data, or a folder "
            f"that contains the data in a subfolder '{specification.bias_type}'"
        )
    folders = _folders(folder, specification)
    splits: dict[str, list[Phrase]] = {}
    for name in SPLITS:
        phrases = _read_split(folder, folders, name, specification)
        if phrases is not None:
            splits[name] = phrases
    for name, phrases in splits.items():
        if not phrases:
            raise ValueError(f"the {name} file in '{folder}' has no phrases; add phrases, or remove the file")
    if not splits:
        name = specification.published_folder or specification.bias_type
        raise FileNotFoundError(
            f"'{folder}' contains no RedditBias split for {specification.bias_type}; add a file named train, "
            "validation or test (.csv or .txt), or pass the authors' repository, which contains "
            f"*_biased_valid_reduced.csv and *_biased_test_reduced.csv in data/{name}/ and *_bias_manual_train.txt in "
            f"text_files/{name}/"
        )
    return splits, any(_files(folders, *TRAIN_FILES, "*_biased_*_reduced.csv"))


def _folders(folder: Path, specification: BiasSpecification) -> list[Path]:
    names = filter(None, (specification.bias_type, specification.published_folder))
    parents = (folder, folder / PAIRS_FOLDER, folder / TRAIN_FOLDER)
    folders = [parent / name for name in names for parent in parents if (parent / name).is_dir()]
    return folders or [folder]


def _files(folders: Sequence[Path], *patterns: str) -> list[Path]:
    return [path for folder in folders for pattern in patterns for path in sorted(folder.glob(pattern))]


def _read_split(
    folder: Path, folders: Sequence[Path], split: str, specification: BiasSpecification
) -> list[Phrase] | None:
    path = _only([path for path in _files(folders, f"{split}.csv", f"{split}.txt") if path.is_file()], folder, split)
    if path is not None:
        return _plain_phrases(path)
    if split == "train":
        for pattern in TRAIN_FILES:
            path = _only(_files(folders, pattern), folder, split)
            if path is not None:
                return _plain_phrases(path)
        return None
    by_side: dict[bool, list[Path]] = {False: [], True: []}
    for path in _files(folders, f"*_biased_{_AUTHORS_FILES[split]}_reduced.csv"):
        by_side[COUNTERFACTUAL_COLUMN in read_header(path)].append(path)
    t1, t2 = _only(by_side[False], folder, split), _only(by_side[True], folder, f"{split} (counterfactuals)")
    if t1 is None and t2 is not None:
        raise ValueError(
            f"'{folder}' contains the counterfactuals for {split} ({_names([t2], folder)}), but not the original "
            f"phrases about {specification.group_1}; add the other *_biased_*_reduced.csv to the folder"
        )
    return None if t1 is None else _aligned_phrases(t1, t2)


def _only(paths: Sequence[Path], folder: Path, what: str) -> Path | None:
    if len(paths) > 1 and len({(path.name, path.read_bytes()) for path in paths}) > 1:
        raise ValueError(f"'{folder}' has several files for {what} ({_names(paths, folder)}); keep only one")
    return paths[0] if paths else None


def _names(paths: Sequence[Path], folder: Path) -> str:
    return ", ".join(os.path.relpath(path, folder) for path in paths)


def _plain_phrases(path: Path) -> list[Phrase]:
    if path.suffix == ".txt":
        return [Phrase(_without_start_mark(line)) for line in read_lines(path)]
    texts = ("text_t1", *TEXT_COLUMNS)
    return [
        Phrase(
            _without_start_mark(filled_text_in(place, cells, column_of(texts, cells) or "")),
            _without_start_mark(cells["text_t2"]) if cells.get("text_t2", "").strip() else None,
            number_in(place, cells, "perplexity_t1"),
            number_in(place, cells, "perplexity_t2"),
            given=bool(cells.get("text_t2", "").strip()),
        )
        for place, cells in read_table(path, texts, strict=False)
    ]


def _aligned_phrases(path: Path, other: Path | None) -> list[Phrase]:
    column = ("comments_processed",)
    rows = read_table(path, column, strict=False)
    others: list[tuple[str, dict[str, Any]]] = [("", {}) for _ in rows]
    if other is not None:
        others = read_table(other, column, strict=False)
    if len(rows) != len(others):
        raise ValueError(
            f"'{path}' has {len(rows)} rows, but '{other}' has {len(others)}; a row in one file forms a pair with the "
            "same row in the other file, so pass files with the same number of rows"
        )
    phrases = []
    for (place, row), (other_place, other_row) in zip(rows, others, strict=True):
        t1 = _without_start_mark(filled_text_in(place, row, *column))
        t2 = _without_start_mark(filled_text_in(other_place, other_row, *column)) if other_row else None
        numbers = number_in(place, row, "perplexity"), number_in(other_place, other_row, "perplexity")
        phrases.append(Phrase(t1, t2, *numbers))
    return phrases


def _without_start_mark(text: str) -> str:
    return text.removeprefix(START_MARK)
