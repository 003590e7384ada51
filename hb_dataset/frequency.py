"""How often each descriptor is used in a dataset of texts, such as a model's training data (paper, B.2.1).

    python -m hb_dataset.frequency chats.jsonl --columns prompt reply --output frequencies.csv
    python -m hb_dataset.frequency org/dataset --split train --streaming --max_examples 10000000 --seed 0

"Frequencies are calculated by dividing the total number of case-insensitive usages of each term among training set
examples (including their prompts) by the number of examples."
"""

import argparse
import glob
import os
import sys
import time
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from ahocorasick_rs import AhoCorasick, Implementation
from tqdm import tqdm

from hb_dataset.hints import did_you_mean
from hb_dataset.vocabulary import Descriptor, VocabularyError, read_vocabulary

BATCH_CHARACTERS = 2**18  # searched at a time: fits a core's cache, and makes calls rare
BATCH_EXAMPLES = 1000  # read at a time
SHUFFLE_BUFFER = 10_000  # examples held to draw a random subset of a stream
FORMATS = {".jsonl": "json", ".json": "json", ".csv": "csv", ".tsv": "tsv", ".parquet": "parquet", ".txt": "text"}
COMPRESSIONS = (".gz", ".bz2", ".xz", ".zst")

NOT_EXAMPLES_ERROR = "{name} is one string; give a list of strings"
NOT_TEXT_ERROR = (
    "example {row} (counted from 0) holds {value!r}, which is not text; give a string, a list of them, or None"
)
TERM_ERROR = "term {term!r} has no words or holds a NUL character; give words to count"
NO_FILE_ERROR = "there is no file '{name}'; give files, a folder, or the id of a dataset on the Hub"
NOT_ALONE_ERROR = "'{name}' is not a file; give one or more files, one folder, or one id of a dataset on the Hub"
FORMAT_ERROR = "'{name}' is not in a known format; allowed: {allowed}, also with {compressions} after it"
MIXED_ERROR = "{where} in several formats ({formats}), which are not read together; count each format on its own"
CONFIG_ERROR = "--config {name} is for a folder or a dataset on the Hub, and files were given; leave it out"
OUTPUT_ERROR = "cannot write --output '{path}': {reason}"
COLUMN_ERROR = "column '{name}' is not a column of text in this dataset; {hint}there are: {columns}"
NO_COLUMNS_ERROR = "no column of text; give --columns, one or more of: {columns}"
CSV_ERROR = "'{path}' is not a CSV of descriptor frequencies ({error}); write one with python -m hb_dataset.frequency"
NO_EXAMPLES_ERROR = "there are no examples in the split '{split}'"

_SEPARATOR = "\0"  # no term holds it, and it is neither a word character nor white space
_WHITE_SPACE = "\t\n\v\f\r\x1c\x1d\x1e\x1f"
# What counts as a plain sign. "ı" and "ſ" are an "i" and an "s" to re.IGNORECASE too; "İ" in lower case would be two
# characters, the second not of a word; a soft hyphen is seen only where a line breaks.
_PLAIN = (
    dict.fromkeys("‘’‛ʼ＇", "'")
    | dict.fromkeys("‐‑‒–−﹣－", "-")
    | dict.fromkeys("\x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B))), " ")
    | {"İ": "i", "ı": "i", "ſ": "s", "\u00ad": ""}
)

Example = str | list[str | None] | list[str] | tuple[str | None, ...] | None


class Counts(NamedTuple):
    """How often each term is used.

    Attributes:
        counts: [terms] number of usages of each term, in the order the terms were given in.
        num_examples: How many examples were read.
        num_without_text: How many of those have no text: all of it is null or empty.
    """

    counts: np.ndarray
    num_examples: int
    num_without_text: int


class _TextColumn(NamedTuple):
    """Where text stands in a dataset: a column, or a field below one. `is_json`: anything may stand below it."""

    path: tuple[str, ...]
    is_json: bool = False


def count_descriptors(examples: Iterable[Example], terms: Sequence[str]) -> Counts:
    """Counts the usages of terms in texts, case-insensitively, in one pass.

    A usage is bounded on both sides by the text's end or by something else than a letter, a digit or an underscore:
    "Black" is used in "Black-owned", not in "blackboard". Each term is counted on its own, so "American Indian" is a
    usage of "American" too. Typographic apostrophes and hyphens count as the plain ones, any white space as one space,
    and a letter with a combining accent as the accented letter.

    Args:
        examples: Each a text, several texts (a prompt and its reply), or `None`. Read once and not kept.
        terms: What to count; terms that differ in case alone get the same count.

    Returns:
        The counts of the terms.

    Raises:
        TypeError: An example holds something else than text, or a single string was given for a list.
        ValueError: A term is empty.
    """
    for name, value in (("examples", examples), ("terms", terms)):
        if isinstance(value, str):
            raise TypeError(NOT_EXAMPLES_ERROR.format(name=name))
    distinct: dict[str, int] = {}
    of_term = [distinct.setdefault(_checked_term(term), len(distinct)) for term in terms]
    matcher = AhoCorasick(distinct, implementation=Implementation.DFA)
    usages = [0] * len(distinct)
    num_examples = num_without_text = size = 0
    batch: list[str] = []
    for row, example in enumerate(examples):
        texts_before = len(batch)
        texts = (example,) if example is None or isinstance(example, str) else example
        if not isinstance(texts, tuple | list):  # a dict, say, would give its keys
            raise TypeError(NOT_TEXT_ERROR.format(row=row, value=texts))
        for text in texts:
            if text is not None and not isinstance(text, str):
                raise TypeError(NOT_TEXT_ERROR.format(row=row, value=text))
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
    """The frequencies of descriptors, a row each in their order; a term of two axes has two rows.

    Args:
        descriptors: The descriptors of a vocabulary.
        counts: What `count_descriptors` returned for their terms.

    Returns:
        A table with the columns `axis`, `descriptor`, `count`, `num_examples`, `per_million` (usages in a million
        examples: the paper's frequency × 10⁶; null if there are no examples) and `one_word` (no space in it; the
        paper's figures show only those).
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
    """Reads a CSV that this command has written.

    Returns:
        (axis, descriptor) → `per_million` and `one_word`.

    Raises:
        ValueError: It is no such file.
        OSError: It cannot be read.
    """
    import pandas as pd

    try:
        frame = pd.read_csv(path, keep_default_na=False)
        keys = zip(frame["axis"], frame["descriptor"], strict=True)
        values = zip(frame["per_million"].astype(float), frame["one_word"].astype(bool), strict=True)
        return {key: {"per_million": rate, "one_word": one} for key, (rate, one) in zip(keys, values, strict=True)}
    except (KeyError, ValueError) as error:
        raise ValueError(CSV_ERROR.format(path=path, error=" ".join(str(error).split()))) from error


def main(arguments: Sequence[str] | None = None) -> None:
    """Counts the descriptors in a dataset and writes a CSV."""
    parser = _parser()
    asked = parser.parse_args(arguments)
    import datasets

    try:
        _write_frequencies(asked)
    # Reading somebody's files ends in any of these: EOFError where a compressed one is cut off.
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
        help=f"id of a dataset on the Hub, a folder, or files ({' '.join(FORMATS)}, also compressed)",
    )
    add(
        "--columns",
        nargs="+",
        help="columns of text, counted together (a prompt and its reply); a field below one as messages.content. "
        "Default: all columns of strings or lists of strings",
    )
    add("--config", help="config of a dataset that has several")
    add("--split", default="train", help="default: train")
    add("--streaming", action="store_true", help="read without downloading or converting everything first")
    add("--max_examples", type=_whole_number(1), help="count in a random subset of so many examples")
    add(
        "--seed",
        type=_whole_number(0),
        default=0,
        help=f"chooses the subset (default: 0); of a stream, through a buffer of {SHUFFLE_BUFFER:,} examples",
    )
    add("--vocabulary_dir", help="folder of a vocabulary; default: v1.0, the paper's")
    add("--output", type=Path, metavar="FILE.csv", help="where to write; default: standard output")
    return parser


def _whole_number(lowest: int) -> Callable[[str], int]:
    def parse(value: str) -> int:
        if not value.isdecimal() or int(value) < lowest:
            raise argparse.ArgumentTypeError(f"{value!r} is not allowed; give a whole number from {lowest}")
        return int(value)

    return parse


def _write_frequencies(asked: argparse.Namespace) -> None:
    start = time.perf_counter()
    if asked.output is not None:
        _check_output(asked.output)
    descriptors = read_vocabulary(asked.vocabulary_dir).descriptors
    dataset = _load(asked.dataset, asked.config, asked.split, asked.streaming)
    columns = _columns_to_count(_features(dataset, asked.split), asked.columns)
    print(f"columns: {', '.join('.'.join(column.path) for column in columns)}", file=sys.stderr)
    dataset = dataset.select_columns(list(dict.fromkeys(column.path[0] for column in columns)))
    if asked.max_examples is not None:
        dataset = _random_subset(dataset, asked.max_examples, asked.seed, asked.streaming)

    total = asked.max_examples if asked.streaming else dataset.num_rows
    with tqdm(total=total, unit=" examples", desc="counting") as bar:
        counts = count_descriptors(_examples(dataset, columns, bar), [descriptor.term for descriptor in descriptors])
    if not counts.num_examples:
        raise ValueError(NO_EXAMPLES_ERROR.format(split=asked.split))
    table = frequency_table(descriptors, counts)
    # pandas rather than Arrow, which would quote every string
    csv = table.to_pandas().to_csv(index=False, lineterminator="\n")
    if asked.output is None:
        sys.stdout.write(csv)
    else:
        _write_whole(asked.output, csv)
    print(_summary(table, counts, time.perf_counter() - start), file=sys.stderr)


def _summary(table: pa.Table, counts: Counts, seconds: float) -> str:
    terms = pc.utf8_lower(table["descriptor"])
    num_terms, num_unseen = (
        pc.count_distinct(some).as_py() for some in (terms, terms.filter(pc.equal(table["count"], 0)))
    )
    return (
        f"{counts.num_examples:,} examples ({counts.num_without_text:,} without text) in {seconds:.1f} s "
        f"({counts.num_examples / seconds:,.0f} examples/s); {num_unseen} of {num_terms} terms were never seen"
    )


def _checked_term(term: str) -> str:
    words = _plain_lower(term).split()
    if not words or _SEPARATOR in term:
        raise ValueError(TERM_ERROR.format(term=term))
    return " ".join(words)


def _plain_lower(text: str) -> str:
    """A text as it is searched: lower case, plain signs, single spaces."""
    if not text.isascii():
        text = unicodedata.normalize("NFC", text)
        for sign, plain in _PLAIN.items():
            text = text.replace(sign, plain)
        text = text.encode(errors="replace").decode()  # half a surrogate pair, which cannot be searched
    text = text.lower()
    for character in _WHITE_SPACE:
        text = text.replace(character, " ")
    while "  " in text:
        text = text.replace("  ", " ")
    return text


def _count_batch(matcher: AhoCorasick, texts: list[str], usages: list[int]) -> None:
    """Adds the usages in some texts. They are searched as one, with separators between, before and after them."""
    text = _plain_lower(_SEPARATOR.join(["", *texts, ""]))
    for term, start, end in matcher.find_matches_as_indexes(text, overlapping=True):
        if not (_is_word(text[start - 1]) or _is_word(text[end])):
            usages[term] += 1


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_"


def _load(names: Sequence[str], config: str | None, split: str, streaming: bool) -> Any:
    """A split of the dataset: `datasets.Dataset`, or `datasets.IterableDataset` for a stream."""
    import datasets

    builder, options = _source(names, config)
    try:
        return datasets.load_dataset(builder, split=split, streaming=streaming, **options)
    except StopIteration:  # from a JSON file with nothing in it
        raise ValueError(NO_EXAMPLES_ERROR.format(split=split)) from None


def _source(names: Sequence[str], config: str | None) -> tuple[str, dict[str, Any]]:
    """What to hand to `load_dataset`: its first argument, and others."""
    paths = [Path(name) for name in names]
    if len(paths) == 1 and not paths[0].is_file():
        if paths[0].is_dir():
            _check_folder(paths[0])
            return str(paths[0].resolve()), {"name": config}
        if _format(paths[0]) is not None:
            raise FileNotFoundError(NO_FILE_ERROR.format(name=names[0]))
        return names[0], {"name": config}
    for path in paths:
        if not path.is_file():
            raise FileNotFoundError((NOT_ALONE_ERROR if path.is_dir() else NO_FILE_ERROR).format(name=path))
        if _format(path) is None:
            allowed, compressions = ", ".join(FORMATS), ", ".join(COMPRESSIONS)
            raise ValueError(FORMAT_ERROR.format(name=path, allowed=allowed, compressions=compressions))
    if config is not None:
        raise ValueError(CONFIG_ERROR.format(name=config))
    formats = {str(_format(path)) for path in paths}
    if len(formats) > 1:
        raise ValueError(MIXED_ERROR.format(where="the files are", formats=", ".join(sorted(formats))))
    options: dict[str, Any] = {"data_files": {"train": [glob.escape(str(path)) for path in paths]}}
    return ("csv", options | {"sep": "\t"}) if formats == {"tsv"} else (formats.pop(), options)


def _format(path: Path) -> str | None:
    """A format of `FORMATS`, compressed or not; `None` if the file's name tells of no such one."""
    inner = path.with_suffix("") if path.suffix in COMPRESSIONS else path
    return FORMATS.get(inner.suffix)


def _check_folder(folder: Path) -> None:
    """Refuses a folder with several formats: `datasets` would read the commonest one and leave the others out."""
    if (folder / "README.md").exists():  # it may say what belongs to what
        return
    found = {_format(path) for path in folder.rglob("*") if path.is_file() and not path.name.startswith(".")}
    formats = sorted(kind for kind in found if kind is not None)
    if len(formats) > 1:
        where = f"the folder '{folder}' has files"
        raise ValueError(MIXED_ERROR.format(where=where, formats=", ".join(formats)))


def _features(dataset: Any, split: str) -> dict[str, Any]:
    """The types of the columns, from the first examples if the dataset does not tell them."""
    import datasets

    if dataset.features is not None:
        return dict(dataset.features)
    first = list(dataset.take(BATCH_EXAMPLES))
    if not first:
        raise ValueError(NO_EXAMPLES_ERROR.format(split=split))
    return dict(datasets.Dataset.from_list(first).features)


def _columns_to_count(features: Mapping[str, Any], names: Sequence[str] | None) -> list[_TextColumn]:
    """The columns of these names; without names, all columns of strings and lists of strings."""
    there = {
        ".".join(column.path): column
        for name, feature in features.items()
        for column in _text_columns(feature, (name,))
    }
    if names is None:
        columns = [column for column in there.values() if len(column.path) == 1 and not column.is_json]
        if not columns:
            raise ValueError(NO_COLUMNS_ERROR.format(columns=", ".join(there) or "none that would do"))
        return columns
    columns = []
    for name in dict.fromkeys(names):
        above = [found for found, column in there.items() if column.is_json and name.startswith(f"{found}.")]
        if name in there:
            columns.append(there[name])
        elif above:
            column = there[above[0]]
            columns.append(_TextColumn((*column.path, *name.removeprefix(f"{above[0]}.").split(".")), is_json=True))
        else:
            columns_there = ", ".join(there) or "none"
            hint = did_you_mean(name, there)
            raise ValueError(COLUMN_ERROR.format(name=name, hint=hint, columns=columns_there))
    return columns


def _text_columns(feature: Any, path: tuple[str, ...]) -> Iterator[_TextColumn]:
    """The text at and below a column or field of this type."""
    import datasets

    if isinstance(feature, dict):
        for name, field in feature.items():
            yield from _text_columns(field, (*path, name))
    elif isinstance(feature, datasets.List | datasets.LargeList):
        yield from _text_columns(feature.feature, path)
    elif isinstance(feature, datasets.Json):
        yield _TextColumn(path, is_json=True)
    elif isinstance(feature, datasets.Value) and feature.dtype in ("string", "large_string"):
        yield _TextColumn(path)


def _random_subset(dataset: Any, size: int, seed: int, streaming: bool) -> Any:
    if streaming:
        return dataset.shuffle(seed=seed, buffer_size=SHUFFLE_BUFFER).take(size)
    if size >= dataset.num_rows:
        return dataset
    rows = np.random.default_rng(seed).choice(dataset.num_rows, size, replace=False, shuffle=False)
    return dataset.select(np.sort(rows))  # in their order, as they are read


def _examples(dataset: Any, columns: Sequence[_TextColumn], bar: tqdm) -> Iterator[list[str]]:
    """The texts of each example, and the progress of a bar."""
    for batch in dataset.iter(BATCH_EXAMPLES):
        for row in zip(*(batch[column.path[0]] for column in columns), strict=True):
            yield [
                text for value, column in zip(row, columns, strict=True) for text in _texts_at(value, column.path[1:])
            ]
        bar.update(len(batch[columns[0].path[0]]))


def _texts_at(value: Any, path: tuple[str, ...]) -> Iterator[str]:
    """The strings at a path below a value, in lists too; where the path ends in an object of JSON, all in it."""
    if isinstance(value, str):
        if not path:
            yield value
    elif isinstance(value, list):
        for item in value:
            yield from _texts_at(item, path)
    elif isinstance(value, dict):
        for field in [value.get(path[0])] if path else value.values():
            yield from _texts_at(field, path[1:])


def _check_output(path: Path) -> None:
    """Before a long count rather than after it."""
    if path.is_dir():
        raise IsADirectoryError(OUTPUT_ERROR.format(path=path, reason="it is a folder; give a file in it"))
    if not path.parent.is_dir():
        raise FileNotFoundError(OUTPUT_ERROR.format(path=path, reason="there is no such folder; make it first"))
    if not os.access(path.parent, os.W_OK):
        raise PermissionError(OUTPUT_ERROR.format(path=path, reason="its folder is read-only; give another"))


def _write_whole(path: Path, text: str) -> None:
    scratch = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        scratch.write_text(text, encoding="utf-8")
        scratch.replace(path)
    finally:
        scratch.unlink(missing_ok=True)


def _message(error: BaseException) -> str:
    """An error in one line, with what caused it; a vocabulary's faults keep theirs."""
    if isinstance(error, VocabularyError):
        return str(error)
    return " ".join(": ".join(str(cause) for cause in (error, error.__cause__) if cause is not None).split())


if __name__ == "__main__":
    os.environ.setdefault("USE_TORCH", "0")  # `datasets` would load torch to read a stream
    main()
