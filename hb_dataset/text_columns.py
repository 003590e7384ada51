"""The text columns of any dataset: of the Hub, of a folder or of files, streamed or not."""

import glob
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from tqdm import tqdm

from hb_dataset.hints import did_you_mean

BATCH_EXAMPLES = 1000  # read at a time
SHUFFLE_BUFFER = 10_000  # examples held to draw a random subset of a stream
FORMATS = {".jsonl": "json", ".json": "json", ".csv": "csv", ".tsv": "tsv", ".parquet": "parquet", ".txt": "text"}
COMPRESSIONS = (".gz", ".bz2", ".xz", ".zst")

NO_FILE_ERROR = "there is no file '{name}'; give files, a folder, or the id of a dataset on the Hub"
NOT_ALONE_ERROR = "'{name}' is not a file; give one or more files, one folder, or one id of a dataset on the Hub"
FORMAT_ERROR = "'{name}' is not in a known format; allowed: {allowed}, also with {compressions} after it"
MIXED_ERROR = "{where} in several formats ({formats}), which are not read together; count each format on its own"
CONFIG_ERROR = "--config {name} is for a folder or a dataset on the Hub, and files were given; leave it out"
COLUMN_ERROR = "column '{name}' is not a column of text in this dataset; {hint}there are: {columns}"
NO_COLUMNS_ERROR = "no column of text; give --columns, one or more of: {columns}"
NO_EXAMPLES_ERROR = "there are no examples in the split '{split}'"


class TextColumn(NamedTuple):
    """Where text stands in a dataset: a column, or a field below one. `is_json`: anything may stand below it."""

    path: tuple[str, ...]
    is_json: bool = False


def load_split(names: Sequence[str], config: str | None, split: str, streaming: bool) -> Any:
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


def text_features(dataset: Any, split: str) -> dict[str, Any]:
    """The types of the columns, from the first examples if the dataset does not tell them."""
    import datasets

    if dataset.features is not None:
        return dict(dataset.features)
    first = list(dataset.take(BATCH_EXAMPLES))
    if not first:
        raise ValueError(NO_EXAMPLES_ERROR.format(split=split))
    return dict(datasets.Dataset.from_list(first).features)


def columns_to_count(features: Mapping[str, Any], names: Sequence[str] | None) -> list[TextColumn]:
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
            columns.append(TextColumn((*column.path, *name.removeprefix(f"{above[0]}.").split(".")), is_json=True))
        else:
            columns_there = ", ".join(there) or "none"
            hint = did_you_mean(name, there)
            raise ValueError(COLUMN_ERROR.format(name=name, hint=hint, columns=columns_there))
    return columns


def _text_columns(feature: Any, path: tuple[str, ...]) -> Iterator[TextColumn]:
    """The text at and below a column or field of this type."""
    import datasets

    if isinstance(feature, dict):
        for name, field in feature.items():
            yield from _text_columns(field, (*path, name))
    elif isinstance(feature, datasets.List | datasets.LargeList):
        yield from _text_columns(feature.feature, path)
    elif isinstance(feature, datasets.Json):
        yield TextColumn(path, is_json=True)
    elif isinstance(feature, datasets.Value) and feature.dtype in ("string", "large_string"):
        yield TextColumn(path)


def random_subset(dataset: Any, size: int, seed: int, streaming: bool) -> Any:
    """So many examples drawn at random: exactly, or of a stream through a buffer."""
    if streaming:
        return dataset.shuffle(seed=seed, buffer_size=SHUFFLE_BUFFER).take(size)
    if size >= dataset.num_rows:
        return dataset
    rows = np.random.default_rng(seed).choice(dataset.num_rows, size, replace=False, shuffle=False)
    return dataset.select(np.sort(rows))  # in their order, as they are read


def read_examples(dataset: Any, columns: Sequence[TextColumn], bar: tqdm) -> Iterator[list[str]]:
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
