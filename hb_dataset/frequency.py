"""The frequency of each descriptor in a dataset of texts, such as a model's training data (paper, B.2.1).

    python -m hb_dataset.frequency chats.jsonl --columns prompt reply --output frequencies.csv
    python -m hb_dataset.frequency org/dataset --split train --max_examples 10000000 --seed 0

"Frequencies are calculated by dividing the total number of case-insensitive usages of each term among training set
examples (including their prompts) by the number of examples."
"""

import argparse
import os
import sys
import time
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from ahocorasick_rs import AhoCorasick, Implementation
from tqdm import tqdm

from hb_dataset.data_files import FORMATS, load_split
from hb_dataset.hints import did_you_mean
from hb_dataset.vocabulary import VocabularyError, read_vocabulary
from hb_dataset.vocabulary_entries import Descriptor
from hb_dataset.whole_files import write_text

BATCH_CHARACTERS = 2**18  # per search: fits into a core's cache, and keeps calls rare
BATCH_EXAMPLES = 1000  # per read
SHUFFLE_BUFFER = 10_000  # examples from which a random sample is drawn

_SEPARATOR = "\0"  # not in any term, and neither a word character nor white space
_WHITE_SPACE = "\t\n\v\f\r\x1c\x1d\x1e\x1f"
# Signs that count as plain ones. re.IGNORECASE also treats "ı" and "ſ" as "i" and "s". "İ" in lower case would be two
# characters, of which the second is not a word character. A soft hyphen is visible only at the end of a line.
_PLAIN = (
    dict.fromkeys("‘’‛ʼ＇", "'")
    | dict.fromkeys("‐‑‒–−﹣－", "-")
    | dict.fromkeys("\x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B))), " ")
    | {"İ": "i", "ı": "i", "ſ": "s", "\u00ad": ""}
)

Example = str | list[str | None] | list[str] | tuple[str | None, ...] | None


class Counts(NamedTuple):
    """The number of usages of each term.

    Attributes:
        counts: [terms] number of usages of each term, in the order of the terms.
        num_examples: The number of examples read.
        num_without_text: The number of examples whose texts are all null or empty.
    """

    counts: np.ndarray
    num_examples: int
    num_without_text: int


def count_descriptors(examples: Iterable[Example], terms: Sequence[str]) -> Counts:
    """Counts the usages of terms in texts, case-insensitively, in one pass.

    A usage is a whole word: no letter, digit or underscore touches it on either side.
    "Black" is used in "Black-owned", not in "blackboard". Terms are counted independently, so "American Indian" is a
    usage of "American" too. Typographic apostrophes and hyphens count as plain ones, any white space counts as one
    space, and a letter with a combining accent counts as the accented letter.

    Args:
        examples: Texts, lists of texts (a prompt and its reply), or `None`; read once, never stored.
        terms: The terms to count; terms that differ only in case get the same count.

    Returns:
        The counts of the terms.

    Raises:
        TypeError: An example has a value that is not text, or an argument is a single string instead of a list.
        ValueError: A term is empty or has a NUL character.
    """
    for name, value in (("examples", examples), ("terms", terms)):
        if isinstance(value, str):
            raise TypeError(f"{name} is one string; pass a list of strings")
    distinct: dict[str, int] = {}
    of_term = [distinct.setdefault(_checked_term(term), len(distinct)) for term in terms]
    matcher = AhoCorasick(distinct, implementation=Implementation.DFA)
    usages = [0] * len(distinct)
    num_examples = num_without_text = size = 0
    batch: list[str] = []
    for row, example in enumerate(examples):
        texts_before = len(batch)
        texts = (example,) if example is None or isinstance(example, str) else example
        if not isinstance(texts, tuple | list):  # a dict's keys, for example, would be counted
            raise TypeError(f"example {row} (counted from 0) has {texts!r}; pass a string, a list of strings, or None")
        for text in texts:
            if text is not None and not isinstance(text, str):
                raise TypeError(f"example {row} (counted from 0) has {text!r}, which is not text; pass strings")
            if text:
                batch.append(text)
                size += len(text)
        num_examples += 1
        num_without_text += len(batch) == texts_before
        if size >= BATCH_CHARACTERS:
            _count_batch(matcher, batch, usages)
            batch.clear()
            size = 0
    _count_batch(matcher, batch, usages)
    return Counts(np.array([usages[index] for index in of_term], dtype=np.int64), num_examples, num_without_text)


def frequency_table(descriptors: Sequence[Descriptor], counts: Counts) -> pa.Table:
    """The frequencies of descriptors in their order, one row each; a term on two axes has two rows.

    Args:
        descriptors: The descriptors of a vocabulary.
        counts: The result of `count_descriptors` for their terms.

    Returns:
        A table with the columns `axis`, `descriptor`, `count`, `num_examples`, `per_million` (usages in a million
        examples: the paper's frequency × 10⁶; null if there are no examples) and `one_word` (whether the term has no
            space; the paper's figures show only such terms).
    """
    terms = [descriptor.term for descriptor in descriptors]
    num_examples = counts.num_examples
    return pa.table(
        {
            "axis": [descriptor.axis for descriptor in descriptors],
            "descriptor": terms,
            "count": counts.counts,
            "num_examples": pa.array([num_examples] * len(terms), pa.int64()),
            "per_million": pa.array(
                [1e6 * int(count) / num_examples if num_examples else None for count in counts.counts], pa.float64()
            ),
            "one_word": [" " not in term for term in terms],
        }
    )


def read_frequencies(path: str | Path) -> dict[tuple[str, str], dict[str, Any]]:
    """Reads a CSV that `python -m hb_dataset.frequency` has written.

    Returns:
        (axis, descriptor) → `per_million` and `one_word`.

    Raises:
        ValueError: The file is not such a CSV.
        OSError: The file cannot be read.
    """
    import pandas as pd

    try:
        frame = pd.read_csv(path, keep_default_na=False)
        keys = zip(frame["axis"], frame["descriptor"], strict=True)
        values = zip(frame["per_million"].astype(float), frame["one_word"].astype(bool), strict=True)
        return {key: {"per_million": rate, "one_word": one} for key, (rate, one) in zip(keys, values, strict=True)}
    except (KeyError, ValueError) as error:
        raise ValueError(
            f"'{path}' is not a CSV of descriptor frequencies ({' '.join(str(error).split())}); write one "
            "with python -m hb_dataset.frequency"
        ) from error


def main(arguments: Sequence[str] | None = None) -> None:
    """Counts the descriptors in a dataset and writes a CSV."""
    parser = _parser()
    options = parser.parse_args(arguments)
    import datasets

    try:
        _write_frequencies(options)
    # Reading arbitrary files can raise all of these, such as EOFError for a truncated compressed file.
    except (OSError, ValueError, EOFError, ImportError, pa.ArrowException, datasets.exceptions.DatasetsError) as error:
        parser.exit(1, f"error: {_message(error)}\n")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m hb_dataset.frequency",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add(
        "dataset",
        nargs="+",
        metavar="DATASET",
        help=f"The id of a dataset on the Hub, a folder, or files ({' '.join(FORMATS)}, also compressed).",
    )
    add(
        "--columns",
        nargs="+",
        help="The columns to count in, taken together (such as a prompt and its reply); write a field below a column "
        "as messages.content. Default: all text of an example.",
    )
    add("--config", help="The config to read, if the dataset has several.")
    add("--split", default="train", help="The split to read. Default: train.")
    add(
        "--max_examples",
        type=int,
        help=f"Count in a random sample of this many examples, drawn through a buffer of {SHUFFLE_BUFFER:,}. Default: "
        "all.",
    )
    add("--seed", type=int, default=0, help="The seed of the random sample. Default: 0.")
    add(
        "--vocabulary_dir", help="The folder of the vocabulary with the terms to count. Default: v1.0, as in the paper."
    )
    add("--output", type=Path, metavar="FILE.csv", help="The CSV to write the counts to. Default: standard output.")
    return parser


def _write_frequencies(options: argparse.Namespace) -> None:
    start = time.perf_counter()
    if options.output is not None and (options.output.is_dir() or not os.access(options.output.parent, os.W_OK)):
        raise OSError(f"cannot write --output '{options.output}'; set a file in a writable folder")
    descriptors = read_vocabulary(options.vocabulary_dir).descriptors
    dataset = load_split(options.dataset, options.config, options.split, streaming=True)
    if options.max_examples is not None:
        dataset = dataset.shuffle(seed=options.seed, buffer_size=SHUFFLE_BUFFER).take(options.max_examples)
    with tqdm(total=options.max_examples, unit=" examples", desc="counting") as bar:
        examples = read_examples(dataset, options.columns, bar)
        counts = count_descriptors(examples, [descriptor.term for descriptor in descriptors])
    if counts.num_examples == counts.num_without_text:
        columns = f" in the columns {', '.join(options.columns)}" if options.columns else ""
        raise ValueError(
            f"none of the {counts.num_examples:,} examples in the split '{options.split}' has text{columns}; set "
            f"other --columns or another --split"
        )
    table = frequency_table(descriptors, counts)
    # pandas rather than Arrow, which would quote every string
    csv = table.to_pandas().to_csv(index=False, lineterminator="\n")
    if options.output is None:
        sys.stdout.write(csv)
    else:
        write_text(options.output, csv)
    print(_summary(table, counts, time.perf_counter() - start), file=sys.stderr)


def read_examples(dataset: Any, columns: Sequence[str] | None, bar: tqdm) -> Iterator[list[str]]:
    """Yields the texts of each example of a stream, and advances the progress bar.

    Args:
        dataset: A `datasets.IterableDataset`.
        columns: The columns, or fields below a column ("messages.content"); `None`: all.
        bar: The progress bar.

    Raises:
        ValueError: There is no such column.
    """
    for batch in dataset.iter(BATCH_EXAMPLES):
        paths = [(name,) for name in batch] if columns is None else [_path(name, list(batch)) for name in columns]
        rows = list(zip(*(batch[path[0]] for path in paths), strict=True))
        for row in rows:
            yield [text for value, path in zip(row, paths, strict=True) for text in _texts_at(value, path[1:])]
        bar.update(len(rows))


def _path(column: str, present: Sequence[str]) -> tuple[str, ...]:
    """The path of keys to the texts of a column, or of a field below it."""
    path = (column,) if column in present else tuple(column.split("."))
    if path[0] not in present:
        hint = did_you_mean(path[0], present)
        raise ValueError(f"the column '{column}' does not exist; {hint}the columns are: {', '.join(present)}")
    return path


def _texts_at(value: Any, path: Sequence[str]) -> Iterator[str]:
    """Yields the strings at a path below a value, through lists; at the end of the path, all strings below it."""
    if isinstance(value, str):
        if not path:
            yield value
    elif isinstance(value, list):
        for item in value:
            yield from _texts_at(item, path)
    elif isinstance(value, dict):
        for field in [value.get(path[0])] if path else value.values():
            yield from _texts_at(field, path[1:])


def _summary(table: pa.Table, counts: Counts, seconds: float) -> str:
    terms = {term.lower() for term in table["descriptor"].to_pylist()}
    unseen = {term.lower() for term in table.filter(pc.field("count") == 0)["descriptor"].to_pylist()}
    return (
        f"{counts.num_examples:,} examples ({counts.num_without_text:,} without text) in {seconds:.1f} s "
        f"({counts.num_examples / seconds:,.0f} examples/s); {len(unseen)} of {len(terms)} terms never occurred"
    )


def _checked_term(term: str) -> str:
    words = _plain_lower(term).split()
    if not words or _SEPARATOR in term:
        raise ValueError(f"term {term!r} has no words or contains a NUL character; pass words to count")
    return " ".join(words)


def _plain_lower(text: str) -> str:
    """Normalizes a text for the search: lower case, plain signs, single spaces."""
    if not text.isascii():
        text = unicodedata.normalize("NFC", text)
        for sign, plain in _PLAIN.items():
            text = text.replace(sign, plain)
        text = text.encode(errors="replace").decode()  # an unpaired surrogate cannot be searched
    text = text.lower()
    for character in _WHITE_SPACE:
        text = text.replace(character, " ")
    while "  " in text:
        text = text.replace("  ", " ")
    return text


def _count_batch(matcher: AhoCorasick, texts: list[str], usages: list[int]) -> None:
    """Adds the usages in a batch of texts, searched as one text with separators between, before and after them."""
    text = _plain_lower(_SEPARATOR.join(["", *texts, ""]))
    for term, start, end in matcher.find_matches_as_indexes(text, overlapping=True):
        if not (_is_word(text[start - 1]) or _is_word(text[end])):
            usages[term] += 1


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_"


def _message(error: BaseException) -> str:
    """An error and its cause in one line; the faults of a vocabulary keep their lines."""
    if isinstance(error, VocabularyError):
        return str(error)
    return " ".join(": ".join(str(cause) for cause in (error, error.__cause__) if cause is not None).split())


if __name__ == "__main__":
    os.environ.setdefault("USE_TORCH", "0")  # `datasets` would load torch to read a stream
    main()
