"""Reads RedditBias (Barikeri et al. 2021): phrases about one group, and their counterfactuals about the other group.

The phrases are hateful, so errors and logs never show them.
"""

import itertools
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from hb_dataset.bias_specification import BiasSpecification, read_specification
from hb_dataset.counterfactuals import Mode, check_mode, counterfactual, lowered, pair_of
from hb_dataset.reddit_files import Phrase, read_phrase_files

SIDES = ("t1", "t2")  # the sides of a pair: the stereotyped text, and the other text

if TYPE_CHECKING:
    import datasets

# The largest allowed share of phrases without a term, or equal to their counterfactual. In the authors' data, 99 % of
# the phrases contain a term of group 1. In the data of another bias type, at most 15 % do.
MAX_MISFITS = 1 / 2

_LOG = logging.getLogger(__name__)


class _Row(NamedTuple):
    id: str
    text_t1: str
    text_t2: str
    perplexity_t1: float | None = None
    perplexity_t2: float | None = None


class _Split(NamedTuple):
    rows: list[_Row]
    num_left_out: int


def load_reddit_bias(
    folder: str | Path, bias_type: str | Path | BiasSpecification, *, mode: Mode | None = None
) -> "datasets.DatasetDict":
    """Reads phrases and their counterfactuals.

    Args:
        folder: The authors' repository or its folder `data`, or your own folder. Your own folder contains files named
            `train`, `validation` and `test`, directly or in `<bias type>/`. A .txt file contains one phrase per line. A
            .csv file contains one of the columns `TEXT_COLUMNS` and, optionally, `text_t2` and perplexities. Files are
            in UTF-8 or Latin-1.
        bias_type: A name from `specification_names()`, the path of a specification, or a specification.
        mode: The rule that makes counterfactuals (see `hb_dataset.counterfactuals`). `"published"` is the default for
            the authors' files. It keeps the counterfactuals in the files, and makes only the missing ones. A phrase
            without a term is its own counterfactual, as in the authors' data. `"word"` is the default for other files.
            It keeps the counterfactuals in the column `text_t2`, and drops phrases without a term.

    Returns:
        The splits that exist (`train`, `validation`, `test`), with the columns `id`, `text_t1`, `text_t2`,
        `perplexity_t1` and `perplexity_t2`. A perplexity is null unless the files state it for exactly this text.
        Repeated, unchanged and dropped texts are counted in warnings in the log.

    Raises:
        FileNotFoundError, NotADirectoryError: The folder does not exist, or it contains no split.
        ValueError: A file has none of these formats, or most phrases in a split contain no term of the specification.
    """
    import datasets

    specification = bias_type if isinstance(bias_type, BiasSpecification) else read_specification(bias_type)
    splits = _read_splits(Path(folder), specification, mode)
    for name, split in splits.items():
        texts_t1, texts_t2 = [row.text_t1 for row in split.rows], [row.text_t2 for row in split.rows]
        check_identical(texts_t1, texts_t2, f"the {name} split of '{folder}'", specification)
        if split.num_left_out:
            _LOG.warning("%s: %d %s phrases contain no term and were skipped", folder, split.num_left_out, name)
    for earlier, later in itertools.combinations(splits, 2):
        texts = {row.text_t1 for row in splits[earlier].rows}
        if number := sum(row.text_t1 in texts for row in splits[later].rows):
            _LOG.warning("%s: %d texts occur in both %s and %s", specification.bias_type, number, earlier, later)
    return datasets.DatasetDict({name: _dataset(split.rows) for name, split in splits.items()})


def check_identical(
    texts_t1: Sequence[str], texts_t2: Sequence[str], what: str, specification: BiasSpecification
) -> None:
    number = sum(t1 == t2 for t1, t2 in zip(texts_t1, texts_t2, strict=True))
    if number > MAX_MISFITS * len(texts_t1):
        raise ValueError(
            f"{number} of {len(texts_t1)} counterfactuals in {what} are identical to their phrases, so these pairs "
            f"show no difference; check that the phrases contain the terms of '{specification.bias_type}'"
        )
    if number:
        _LOG.warning("%s: %d of %d phrases are identical to their counterfactuals", what, number, len(texts_t1))


def _read_splits(folder: Path, specification: BiasSpecification, mode: Mode | None) -> dict[str, _Split]:
    if mode is not None:
        check_mode(mode)
    files, are_authors = read_phrase_files(folder, specification)
    chosen = mode or ("published" if are_authors else "word")
    return {name: _paired(phrases, specification, chosen, name) for name, phrases in files.items()}


def _paired(phrases: Sequence[Phrase], specification: BiasSpecification, mode: Mode, split: str) -> _Split:
    rows = []
    num_without_term = 0
    for index, phrase in enumerate(phrases):
        t1, other = pair_of(phrase.t1, specification, mode)
        t2 = phrase.t2 if phrase.t2 is None or mode == "word" else lowered(phrase.t2)
        if other is None and not phrase.given:
            num_without_term += counterfactual(phrase.t1, specification, "published") is None
        if mode == "published" and other is None:
            other = t1
        if t2 is not None and (phrase.given or mode == "published"):
            other = t2
        if other is None:
            continue
        # A perplexity in a file applies only to the text in the same file.
        perplexity_t1 = phrase.perplexity_t1 if t1 == phrase.t1 else None
        perplexity_t2 = phrase.perplexity_t2 if other == phrase.t2 else None
        rows.append(_Row(f"{specification.bias_type}-{split}-{index}", t1, other, perplexity_t1, perplexity_t2))
    if num_without_term > MAX_MISFITS * len(phrases):
        raise ValueError(
            f"{num_without_term} of {len(phrases)} {split} phrases contain no term of '{specification.bias_type}'; "
            "pass the folder for this bias type, or the bias type to which the folder belongs"
        )
    return _Split(rows, len(phrases) - len(rows))


def _dataset(rows: list[_Row]) -> "datasets.Dataset":
    import datasets

    text, number = datasets.Value("string"), datasets.Value("float64")
    features = datasets.Features(
        {"id": text, "text_t1": text, "text_t2": text, "perplexity_t1": number, "perplexity_t2": number}
    )
    return datasets.Dataset.from_dict(
        {name: [getattr(row, name) for row in rows] for name in features}, features=features
    )
