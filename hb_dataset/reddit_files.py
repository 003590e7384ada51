"""Finds and reads the files of RedditBias in all layouts that `load_reddit_bias` accepts.

In the authors' repository, `data/<type>/` contains the pairs for validation and testing, in one file per split and
group. `text_files/<type>/` contains the training phrases. The folder for queerness is called `orientation`.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from hb_dataset.bias_specification import BiasSpecification
from hb_dataset.comment_files import column_error, number_of, read_csv, read_header, read_lines, text_of

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
    columns = read_header(path)
    text = next((name for name in ("text_t1", *TEXT_COLUMNS) if name in columns), None)
    if text is None:
        raise column_error(path, TEXT_COLUMNS, columns)
    return [
        Phrase(
            _without_start_mark(text_of(cells, text, path, row)),
            _without_start_mark(cells["text_t2"]) if cells.get("text_t2", "").strip() else None,
            number_of(cells, "perplexity_t1", path, row),
            number_of(cells, "perplexity_t2", path, row),
            given=bool(cells.get("text_t2", "").strip()),
        )
        for row, cells in enumerate(read_csv(path))
    ]


def _aligned_phrases(path: Path, other: Path | None) -> list[Phrase]:
    rows = read_csv(path, ("comments_processed",))
    others = [{} for _ in rows] if other is None else read_csv(other, ("comments_processed",))
    if len(rows) != len(others):
        raise ValueError(
            f"'{path}' has {len(rows)} rows, but '{other}' has {len(others)}; a row in one file forms a pair with the "
            "same row in the other file, so pass files with the same number of rows"
        )
    return [
        Phrase(
            _without_start_mark(text_of(cells, "comments_processed", path, row)),
            _without_start_mark(text_of(other_cells, "comments_processed", other or path, row))
            if other_cells
            else None,
            number_of(cells, "perplexity", path, row),
            number_of(other_cells, "perplexity", other or path, row),
        )
        for row, (cells, other_cells) in enumerate(zip(rows, others, strict=True))
    ]


def _without_start_mark(text: str) -> str:
    return text.removeprefix(START_MARK)
