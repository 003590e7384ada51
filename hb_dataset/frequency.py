"""Counts each descriptor in a dataset of texts, such as a model's training data (paper, B.2.1).

    python -m hb_dataset.frequency chats.jsonl --columns prompt reply --output frequencies.csv
    python -m hb_dataset.frequency org/dataset --columns messages --output frequencies.csv

The paper defines frequencies as follows: "Frequencies are calculated by dividing the total number of case-insensitive
usages of each term among training set examples (including their prompts) by the number of examples."
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
from ahocorasick_rs import AhoCorasick, Implementation

from hb_dataset.command_line import CommandParser, did_you_mean
from hb_dataset.hub_access import FORMATS, stream_split
from hb_dataset.matching import squeezed
from hb_dataset.table_files import filled_text_in, invalid, number_in, read_table
from hb_dataset.vocabulary import read_vocabulary
from hb_dataset.whole_files import write_text

BATCH_CHARACTERS = 2**18  # per search; batches of this size fit into a core's cache, and few calls are needed
BATCH_EXAMPLES = 1000  # per read

_SEPARATOR = "\0"  # a character that is in no term, and is neither a word character nor white space


def count_descriptors(examples: Iterable[Iterable[str]], terms: Sequence[str]) -> tuple[list[int], int]:
    """Counts how often each term occurs in the texts, ignoring case.

    Only whole words count: "Black-owned" uses "Black", but "blackboard" does not. Each term is counted independently,
    so "American Indian" also uses "American". Any typography counts (see `matching.plain_text`).

    Args:
        examples: The texts of each example, such as a prompt and its reply. They are read once and not stored.
        terms: The terms to count. Terms that differ only in case have the same count.

    Returns:
        The number of uses of each term [terms], and the number of examples.
    """
    distinct: dict[str, int] = {}
    of_term = [distinct.setdefault(squeezed(term).strip(), len(distinct)) for term in terms]
    matcher = AhoCorasick(distinct, implementation=Implementation.DFA)
    usages = [0] * len(distinct)
    num_examples = size = 0
    batch: list[str] = []
    for texts in examples:
        num_examples += 1
        for text in texts:
            batch.append(text)
            size += len(text)
        if size >= BATCH_CHARACTERS:
            _count_batch(matcher, batch, usages)
            batch.clear()
            size = 0
    _count_batch(matcher, batch, usages)
    return [usages[index] for index in of_term], num_examples


def read_frequencies(path: str | Path) -> dict[tuple[str, str], dict[str, object]]:
    """Reads the CSV file that `python -m hb_dataset.frequency` writes.

    Returns:
        For each pair of axis and descriptor, a dictionary with the keys `per_million` and `one_word`.
    """
    frequencies: dict[tuple[str, str], dict[str, object]] = {}
    for place, row in read_table(Path(path), ("axis",), ("descriptor",), ("per_million",)):
        key = filled_text_in(place, row, "axis"), filled_text_in(place, row, "descriptor")
        rate = number_in(place, row, "per_million")
        if rate is None or rate < 0:
            raise invalid(place, row, "per_million", "a number of 0 or more")
        if key in frequencies:
            raise ValueError(f"{place}: the descriptor is in an earlier row; keep only one of the rows")
        frequencies[key] = {"per_million": rate, "one_word": " " not in key[1]}
    return frequencies


def main(arguments: Sequence[str] | None = None) -> None:
    parser = CommandParser(prog="python -m hb_dataset.frequency", description=__doc__)
    add = parser.add_argument
    add(
        "dataset",
        nargs="+",
        metavar="DATASET",
        help=f"The files to read ({' '.join(FORMATS)}, also compressed), or the id of a dataset on the Hub.",
    )
    add(
        "--columns",
        nargs="+",
        required=True,
        help="The columns that make up an example, such as a prompt and its reply. Texts in nested lists and fields "
        "are also counted.",
    )
    add("--split", default="train", help="The split to read. Default: train.")
    add(
        "--vocabulary_dir",
        help="The vocabulary folder that contains the terms to count. Default: v1.0, as in the paper.",
    )
    add("--output", type=Path, required=True, metavar="FILE.csv", help="The CSV file to write the counts to.")
    options = parser.parse_args(arguments)
    import datasets

    try:
        descriptors = read_vocabulary(options.vocabulary_dir).descriptors
        dataset = stream_split(options.dataset, options.split)
        terms = [descriptor.term for descriptor in descriptors]
        counts, num_examples = count_descriptors(read_examples(dataset, [*dict.fromkeys(options.columns)]), terms)
        if not num_examples:
            raise ValueError(f"the split '{options.split}' has no examples; set --split to a split with examples")
        columns = {
            "axis": [descriptor.axis for descriptor in descriptors],
            "descriptor": terms,
            "count": counts,
            "num_examples": num_examples,
            "per_million": [1e6 * count / num_examples for count in counts],  # the paper's frequency, multiplied by 10⁶
            "one_word": [" " not in term for term in terms],  # the paper's figures show only one-word terms
        }
        # pandas writes the file, because Arrow would put quotes around every string.
        write_text(options.output, pd.DataFrame(columns).to_csv(index=False, lineterminator="\n"))
    # Reading an arbitrary file can raise any of these errors, such as EOFError for a truncated compressed file.
    except (OSError, ValueError, EOFError, ImportError, pa.ArrowException, datasets.exceptions.DatasetsError) as error:
        parser.exit(1, f"error: {error}\n")
    print(f"{num_examples:,} examples; {counts.count(0)} of {len(counts)} terms never occur; results: {options.output}")


def read_examples(dataset: Any, columns: Sequence[str]) -> Iterator[Iterator[str]]:
    for batch in dataset.iter(BATCH_EXAMPLES):
        for column in columns:
            if column not in batch:
                hint = did_you_mean(column, batch)
                raise ValueError(
                    f"there is no column '{column}'; {hint}set --columns to one or more of {', '.join(batch)}"
                )
        for row in zip(*(batch[column] for column in columns), strict=True):
            yield _texts(row)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list | tuple):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _texts(item)


def _count_batch(matcher: AhoCorasick, texts: list[str], usages: list[int]) -> None:
    text = squeezed(_SEPARATOR.join(["", *texts, ""]))
    text = text.encode(errors="replace").decode()  # an unpaired surrogate cannot be searched
    for term, start, end in matcher.find_matches_as_indexes(text, overlapping=True):
        if not (_is_word(text[start - 1]) or _is_word(text[end])):
            usages[term] += 1


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_"


if __name__ == "__main__":
    os.environ.setdefault("USE_TORCH", "0")  # without this setting, `datasets` would load torch to read a stream
    main()
