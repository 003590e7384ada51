"""The files of RedditBias: in which folders they lie, and which phrases they hold.

The authors' repository has the pairs of validation and test in `data/<type>/`, the training phrases in
`text_files/<type>/`, and calls the queerness folder `orientation`:

    RedditBias/
      data/religion1/reddit_comments_religion1_jews_biased_test_reduced.csv        t1
      data/religion1/reddit_comments_religion1_christians_biased_test_reduced.csv  t2
      data/religion1/…_biased_valid_reduced.csv
      text_files/religion1/religion1_bias_manual_train.txt                         t1; t2 is made by the rule

A folder for each type that has all of them, or `train`, `validation` and `test` as .csv or .txt, will do as well.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from hb_dataset.bias_specification import BiasSpecification
from hb_dataset.comment_files import column_error, number_of, read_csv, read_header, read_lines, text_of
from hb_dataset.counterfactuals import terms_in

SPLITS = ("train", "validation", "test")
TEXT_COLUMNS = ("text", "phrase", "comments_processed")  # the last is the authors' name, and holds phrases too
START_MARK = "<bos> "
PAIRS_FOLDER, TRAIN_FOLDER = "data", "text_files"  # in the authors' repository
# religion2 is there twice: as written, and in lower case, as the authors' rule wants it.
TRAIN_FILES = ("*_bias_manual_lowercase_train.txt", "*_bias_manual_train.txt")
COUNTERFACTUAL_COLUMN = "replaced_demo"  # what was replaced by what

NO_FOLDER_ERROR = (
    "no folder '{folder}'; give the authors' repository, the folder of the data, or the one above it that has it as "
    "'{bias_type}'"
)
NO_SPLITS_ERROR = (
    "'{folder}' has no split of RedditBias for {bias_type}; put train, validation or test as .csv or .txt there, or "
    "give the authors' repository, which has *_biased_valid_reduced.csv and *_biased_test_reduced.csv in data/{name}/ "
    "and *_bias_manual_train.txt in text_files/{name}/"
)
NO_PHRASES_ERROR = "the {split} file in '{folder}' has no phrase in it; put its phrases there, or remove it"
SEVERAL_FILES_ERROR = "'{folder}' has several files for {what} ({files}); leave one of them"
NO_T1_ERROR = (
    "'{folder}' has the counterfactuals of {split} ({file}), and not the phrases of {group} that they belong to; put "
    "the other *_biased_*_reduced.csv beside it"
)
SIDES_ERROR = (
    "'{folder}' has two files for {split} ({files}), and neither is told from the other by a column "
    f"{COUNTERFACTUAL_COLUMN}, nor by the terms of {{group}} in its phrases; give the file of the counterfactuals that "
    "column"
)
NOT_ALIGNED_ERROR = "'{path}' has {rows} rows, and '{other}' has {other_rows}; they are the two sides of the same pairs"

_AUTHORS_FILES = {"validation": "valid", "test": "test"}


class Phrase(NamedTuple):
    """A phrase, and what the files say of it. `given`: its counterfactual stands in a file of the user's own."""

    t1: str
    t2: str | None = None
    perplexity_t1: float | None = None
    perplexity_t2: float | None = None
    given: bool = False


class PhraseFiles(NamedTuple):
    """The phrases of the splits that are there, and whether the files are the authors'."""

    splits: dict[str, list[Phrase]]
    authors: bool


def read_phrase_files(folder: Path, specification: BiasSpecification) -> PhraseFiles:
    """Reads the phrases of a bias type; see `load_reddit_bias`.

    Raises:
        FileNotFoundError, NotADirectoryError: There is no such folder, or no split in it.
        ValueError: A file is not as it should be.
    """
    if not folder.is_dir():
        raise NotADirectoryError(NO_FOLDER_ERROR.format(folder=folder, bias_type=specification.bias_type))
    places = _folders(folder, specification)
    read = {name: _read_split(folder, places, name, specification) for name in SPLITS}
    splits = {name: phrases for name, phrases in read.items() if phrases is not None}
    for name, phrases in splits.items():
        if not phrases:
            raise ValueError(NO_PHRASES_ERROR.format(folder=folder, split=name))
    if not splits:
        name = specification.published_folder or specification.bias_type
        raise FileNotFoundError(NO_SPLITS_ERROR.format(folder=folder, bias_type=specification.bias_type, name=name))
    return PhraseFiles(splits, any(_found(places, *TRAIN_FILES, "*_biased_*_reduced.csv")))


def share_about_group_1(texts: Sequence[str], specification: BiasSpecification) -> float:
    """Share of texts with a term of group 1, as whole words or by the published rule; of no texts 1."""
    about = sum(
        any(term.group == 1 for mode in ("word", "published") for term in terms_in(text, specification, mode))
        for text in texts
    )
    return about / len(texts) if texts else 1.0


def _folders(folder: Path, specification: BiasSpecification) -> list[Path]:
    """Where files of the bias type may lie: the folders of its name in this folder or in the authors' repository."""
    names = [specification.bias_type]
    if specification.published_folder is not None:
        names.append(specification.published_folder)
    here = folder.resolve()
    above = [here]
    authors = (PAIRS_FOLDER, TRAIN_FOLDER)
    for root in (here, here.parent, here.parent.parent):  # the repository, a part of it, or the type's folder in a part
        inside = here.relative_to(root).parts
        if not inside or (inside[0] in authors and (len(inside) == 1 or inside[1] in names)):
            above += [root / part for part in authors]
    found = [place / name for place in dict.fromkeys(above) for name in names if (place / name).is_dir()]
    return found or [here]


def _found(places: Sequence[Path], *patterns: str) -> list[Path]:
    return [path for place in places for pattern in patterns for path in sorted(place.glob(pattern))]


def _read_split(folder: Path, places: Sequence[Path], split: str, of: BiasSpecification) -> list[Phrase] | None:
    """The phrases of a split, and what the files say of each; `None` if it is not there."""
    path = _only([path for path in _found(places, f"{split}.csv", f"{split}.txt") if path.is_file()], folder, split)
    if path is not None:
        return _plain_phrases(path)
    if split == "train":
        for pattern in TRAIN_FILES:
            path = _only(_found(places, pattern), folder, split)
            if path is not None:
                return _plain_phrases(path)
        return None
    path, other = _sides(folder, _found(places, f"*_biased_{_AUTHORS_FILES[split]}_reduced.csv"), split, of)
    return None if path is None else _aligned_phrases(path, other)


def _sides(
    folder: Path, paths: Sequence[Path], split: str, specification: BiasSpecification
) -> tuple[Path | None, Path | None]:
    """The authors' files of a split: that of t1, and that of t2 if there is one."""
    told: dict[bool, list[Path]] = {False: [], True: []}
    for path in paths:
        told[COUNTERFACTUAL_COLUMN in read_header(path)].append(path)
    if len(paths) == 2 and not all(told.values()):  # the column tells nothing: the phrases must
        told = {False: [], True: []}
        for path in paths:
            texts = [cells["comments_processed"] for cells in read_csv(path, ("comments_processed",))]
            told[share_about_group_1(texts, specification) < 1 / 2].append(path)
        if not all(told.values()):
            raise ValueError(
                SIDES_ERROR.format(folder=folder, split=split, files=_names(paths, folder), group=specification.group_1)
            )
    t1, t2 = _only(told[False], folder, split), _only(told[True], folder, f"{split} (counterfactuals)")
    if t1 is None and t2 is not None:
        file = _names([t2], folder)
        raise ValueError(NO_T1_ERROR.format(folder=folder, split=split, file=file, group=specification.group_1))
    return t1, t2


def _only(paths: Sequence[Path], folder: Path, what: str) -> Path | None:
    """The file, if there is one; a copy of it in another folder does not count."""
    if len(paths) > 1 and len({(path.name, path.read_bytes()) for path in paths}) > 1:
        raise ValueError(SEVERAL_FILES_ERROR.format(folder=folder, what=what, files=_names(paths, folder)))
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
    """The authors' two files of a split, whose rows belong together."""
    rows = read_csv(path, ("comments_processed",))
    counterparts = [{} for _ in rows] if other is None else read_csv(other, ("comments_processed",))
    if len(rows) != len(counterparts):
        raise ValueError(NOT_ALIGNED_ERROR.format(path=path, rows=len(rows), other=other, other_rows=len(counterparts)))
    return [
        Phrase(
            _without_start_mark(text_of(cells, "comments_processed", path, row)),
            _without_start_mark(text_of(against, "comments_processed", other or path, row)) if against else None,
            number_of(cells, "perplexity", path, row),
            number_of(against, "perplexity", other or path, row),
        )
        for row, (cells, against) in enumerate(zip(rows, counterparts, strict=True))
    ]


def _without_start_mark(text: str) -> str:
    """The text without the start token that the authors' scripts wrote into some files."""
    return text.removeprefix(START_MARK)
