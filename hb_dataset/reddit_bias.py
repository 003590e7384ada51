"""RedditBias (Barikeri et al. 2021): phrases about one group, each with its counterfactual about the other.

    dataset = load_reddit_bias("RedditBias", "gender")  # the authors' repository: train, validation, test
    dataset = pairs_from_comments(open("comments.txt"), read_specification("gender"))

The phrases are hateful: they are read from a folder of yours and never shown. `reddit_files.py` lists the layouts that
it may have.
"""

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from hb_dataset.bias_specification import BiasSpecification, read_specification
from hb_dataset.comment_files import label_of, read_csv, read_header, read_lines
from hb_dataset.comments import MAX_CHARACTERS, candidates
from hb_dataset.counterfactuals import Mode, check_mode, lowered, pair_of
from hb_dataset.reddit_files import Phrase, read_phrase_files, share_about_group_1

if TYPE_CHECKING:
    import datasets

# The largest share of phrases without a term of group 1, or with texts alike: data of another bias type have a term of
# group 1 in at most 15 % of their phrases, the authors' own in 99 %.
MAX_MISFITS = 1 / 2

NO_TERM = "they have no term of its group 1"
NOT_BY_RULE = "the texts beside them are not their counterfactuals by the published rule"

_LOG = logging.getLogger(__name__)


class _Split(NamedTuple):
    """The rows of a split, the counts that are reported, and how many phrases do not fit the specification.

    `num_ruled`: the number of phrases without a counterfactual of the user's own, which may have any words. `misfits`:
    how many of those do not fit, by the reason.
    """

    rows: list[dict[str, Any]]
    counts: dict[str, int]
    num_ruled: int
    misfits: dict[str, int]


def load_reddit_bias(
    folder: str | Path, bias_type: str | Path | BiasSpecification, *, mode: Mode | None = None
) -> "datasets.DatasetDict":
    """Reads phrases and their counterfactuals.

    Args:
        folder: The authors' repository or its `data`; or the data of the bias type, or the folder that has it as
            `<bias type>/`: the authors' files, or `train`, `validation`, `test` as .txt (a phrase on each line) or .csv
            (with one of `TEXT_COLUMNS`, and `text_t2` and perplexities if they are known). UTF-8 or Latin-1.
        bias_type: A name of `specification_names()`, the path of a specification, or one that was read.
        mode: `"published"` (default for the authors' files): the counterfactuals in the files, and where there are none
            those of the published rule, all in lower case, for which that rule was made; a phrase without a term is its
            own counterfactual, as in the authors' data.
            `"word"` (default for others): whole words are replaced (see `counterfactual`), except in rows with a
            `text_t2` of your own; phrases without a term are left out, and `reddit_bias_report` counts them.

    Returns:
        The splits that exist, of `train`, `validation` and `test`, with the columns `id`, `text_t1`, `text_t2`,
        `perplexity_t1`, `perplexity_t2` (null, unless the files have one for this very text). Warnings in the log state
        how many texts are in two splits, and how many are their own counterfactual.

    Raises:
        FileNotFoundError, NotADirectoryError: There is no such folder, or no split in it.
        ValueError: A file cannot be read as described, or most phrases of a split do not fit the specification (no term
            of group 1, a counterfactual that is not the rule's) or are their own counterfactual. The message has none
            of their text.
    """
    import datasets

    specification = _specification(bias_type)
    splits, _ = _read_splits(Path(folder), specification, mode)
    for name, split in splits.items():
        _check_fit(folder, name, split, specification.bias_type)
        texts_t1, texts_t2 = ([row[side] for row in split.rows] for side in ("text_t1", "text_t2"))
        check_identical(texts_t1, texts_t2, f"the {name} split of '{folder}'", specification)
    for pair, report in _shared_texts(splits).items():
        if report["num_rows"]:
            _LOG.warning("%s: %d rows of both %s have the same text", specification.bias_type, report["num_rows"], pair)
    return datasets.DatasetDict({name: _dataset(split.rows) for name, split in splits.items()})


def reddit_bias_report(
    folder: str | Path, bias_type: str | Path | BiasSpecification, *, mode: Mode | None = None
) -> dict[str, Any]:
    """Counts what to know about the data before trusting a number from it.

    Args:
        folder: The folder, as in `load_reddit_bias`.
        bias_type: The specification, as in `load_reddit_bias`.
        mode: The mode, as in `load_reddit_bias`.

    Returns:
        `bias_type`, `mode`, `splits` and `duplicates`. A split has `num_read` (phrases in the file), `num_pairs`,
        `num_lowered` (put into lower case, for the published rule), `num_without_group_1` (no term of group 1),
        `num_without_term` (no term to replace: left out in mode `"word"`, otherwise their own counterfactual),
        `num_not_by_rule` (the counterfactual in the file is not the rule's), `num_identical` (the two texts of a pair
        are the same) and `num_duplicates` (rows whose text_t1 is in an earlier row of the split). `duplicates` has, for
        each two splits ("train and test"), `num_rows` of the later one whose text_t1 is in the earlier one, and their
        `ids`.

    Raises:
        FileNotFoundError, NotADirectoryError: There is no such folder, or no split in it.
        ValueError: A file cannot be read as described. Data that do not fit are counted and raise no error here.
    """
    specification = _specification(bias_type)
    splits, mode = _read_splits(Path(folder), specification, mode)
    counts = {
        name: {
            **split.counts,
            "num_pairs": len(split.rows),
            "num_identical": sum(row["text_t1"] == row["text_t2"] for row in split.rows),
            "num_duplicates": len(split.rows) - len({row["text_t1"] for row in split.rows}),
        }
        for name, split in splits.items()
    }
    return {
        "bias_type": specification.bias_type,
        "mode": mode,
        "splits": counts,
        "duplicates": _shared_texts(splits),
    }


def pairs_from_comments(
    comments: Iterable[str] | str | Path,
    specification: BiasSpecification,
    *,
    mode: Mode = "word",
    max_characters: int | None = MAX_CHARACTERS,
    published_cleaning: bool = False,
    counts: Counter[str] | None = None,
) -> "datasets.Dataset":
    """Pairs from any comments.

    From the comments in the authors' annotated files it makes 95 % (gender), 90 % (race) and 63 % (religion1) of the
    phrases that they published; for religion1 84 % with `max_characters=None`, since a third of its comments have 150
    characters or more, though the paper leaves such out. The authors cut the other phrases elsewhere, many around the
    target without its verb ("women", where the queries have "women are") or around a later one in the comment. To
    reproduce these shares from raw comments, set `published_cleaning`.

    Args:
        comments: Raw comments, or a file: .txt with one on each line, .csv with a column `comment`. A .csv with the
            columns `phrase` and `bias_phrase` is an annotated file, and its phrases labeled 1 are used as they are.
        specification: The specification with the terms.
        mode: How counterfactuals are made; see `counterfactual`.
        max_characters: Comments with so many characters or more are left out (paper: 150). `None`: none are.
        published_cleaning: Whether commas, quotes, apostrophes and so on are removed, as in the authors' comments.
        counts: If given, counts the comments that were `read` and `paired`, and those left out, by reason: `too_long`,
            `without_target`, `without_attribute` (see `candidates`), `not_biased` (annotated, and the phrase not
            labeled 1), `without_term` (the phrase has no term to replace).

    Returns:
        A row for each phrase, with the columns of `load_reddit_bias`; perplexities are null. Without annotation the
        phrases are candidates, about 60 % of which were labeled biased in the paper.

    Raises:
        FileNotFoundError: There is no such file.
        TypeError: A comment is not text.
        ValueError: There is no such mode, or the file cannot be read as described.
    """
    check_mode(mode)
    counts = Counter() if counts is None else counts
    rows = []
    options = {"max_characters": max_characters, "published_cleaning": published_cleaning, "counts": counts}
    for row, phrase in _phrases(comments, specification, counts, options):
        text, other = pair_of(phrase, specification, mode)
        if other is None:
            counts["without_term"] += 1
            continue
        rows.append(_row(f"{specification.bias_type}-{row}", text, other))
    counts["paired"] += len(rows)
    return _dataset(rows)


# --- Splits -----------------------------------------------------------------------------------------------------------


def _specification(bias_type: str | Path | BiasSpecification) -> BiasSpecification:
    return bias_type if isinstance(bias_type, BiasSpecification) else read_specification(bias_type)


def check_identical(
    texts_t1: Sequence[str], texts_t2: Sequence[str], what: str, specification: BiasSpecification
) -> None:
    """Warns in the log if some texts are their own counterfactual.

    Raises:
        ValueError: Most texts are.
    """
    number = sum(t1 == t2 for t1, t2 in zip(texts_t1, texts_t2, strict=True))
    if number > MAX_MISFITS * len(texts_t1):
        raise ValueError(
            f"{number} of {len(texts_t1)} counterfactuals in {what} are the same as their phrase, so that "
            "they compare nothing, and a model trained on both would learn the stereotype twice; check "
            f"that the terms of '{specification.bias_type}' are in the phrases"
        )
    if number:
        _LOG.warning("%s: %d of %d phrases are their own counterfactual", what, number, len(texts_t1))


def _read_splits(folder: Path, specification: BiasSpecification, mode: Mode | None) -> tuple[dict[str, _Split], Mode]:
    """The splits that exist, and the mode of their counterfactuals."""
    if mode is not None:
        check_mode(mode)
    files = read_phrase_files(folder, specification)
    if mode is None:
        mode = "published" if files.authors else "word"
    return {name: _paired(phrases, specification, mode, name) for name, phrases in files.splits.items()}, mode


def _check_fit(folder: str | Path, name: str, split: _Split, bias_type: str) -> None:
    """Raises ValueError if most phrases do not fit the specification, as in data of another bias type."""
    for why, number in split.misfits.items():
        if number > MAX_MISFITS * split.num_ruled:
            raise ValueError(
                f"{number} of {split.num_ruled} {name} phrases in '{folder}' do not fit the specification "
                f"'{bias_type}': {why}; give the folder of {bias_type}, or the bias type of this one. (Of "
                "comments about anything, `pairs_from_comments` takes those that fit.)"
            )


def _paired(phrases: Sequence[Phrase], specification: BiasSpecification, mode: Mode, split: str) -> _Split:
    counts = dict.fromkeys(("num_lowered", "num_without_group_1", "num_without_term", "num_not_by_rule"), 0)
    misfits = dict.fromkeys((NO_TERM, NOT_BY_RULE), 0)
    rows = []
    for index, phrase in enumerate(phrases):
        t1, other = pair_of(phrase.t1, specification, mode)
        t2 = phrase.t2 if phrase.t2 is None or mode == "word" else lowered(phrase.t2)
        without_group_1 = share_about_group_1([t1], specification) == 0
        counts["num_lowered"] += t1 != phrase.t1
        counts["num_without_group_1"] += without_group_1
        counts["num_without_term"] += other is None
        if other is None and mode == "published":
            other = t1
        if t2 is not None and (phrase.given or mode == "published"):
            counts["num_not_by_rule"] += t2 != other
            misfits[NOT_BY_RULE] += t2 != other and not phrase.given
            other = t2
        misfits[NO_TERM] += without_group_1 and not phrase.given
        if other is None:
            continue
        # A perplexity in a file is that of the file's own text.
        perplexity_t1 = phrase.perplexity_t1 if t1 == phrase.t1 else None
        perplexity_t2 = phrase.perplexity_t2 if other == phrase.t2 else None
        rows.append(_row(f"{specification.bias_type}-{split}-{index}", t1, other, perplexity_t1, perplexity_t2))
    return _Split(rows, {"num_read": len(phrases), **counts}, sum(not phrase.given for phrase in phrases), misfits)


def _shared_texts(splits: Mapping[str, _Split]) -> dict[str, dict[str, Any]]:
    names = list(splits)
    shared = {}
    for index, later in enumerate(names):
        for earlier in names[:index]:
            texts = {row["text_t1"] for row in splits[earlier].rows}
            ids = [row["id"] for row in splits[later].rows if row["text_t1"] in texts]
            shared[f"{earlier} and {later}"] = {"num_rows": len(ids), "ids": ids}
    return shared


# --- Your own comments ------------------------------------------------------------------------------------------------


def _phrases(
    comments: Iterable[str] | str | Path,
    specification: BiasSpecification,
    counts: Counter[str],
    options: Mapping[str, Any],
) -> Iterator[tuple[int, str]]:
    """The phrases to pair, each with the row of its comment."""
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
    for candidate in candidates(comments, specification, **options):
        yield candidate.row, candidate.phrase


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
