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
MIXED_ERROR = "{where} in several formats ({formats}), which are not read together; count each format on its own"
NO_EXAMPLES_ERROR = "there are no examples in the split '{split}'"


class TextColumn(NamedTuple):
    """A column of text, or a field below a column. `is_json`: its fields are those of a JSON object of any form."""

    path: tuple[str, ...]
    is_json: bool = False


def load_split(
    names: Sequence[str], config: str | None, split: str, streaming: bool, *, missing_words: bool = True
) -> Any:
    """Loads a split: a `datasets.Dataset`, or a `datasets.IterableDataset` for a stream.

    Args:
        names: Files, or one folder, or one id of a dataset on the Hub.
        config: A config of the folder or dataset that has several.
        split: The split.
        streaming: Whether to read without downloading or converting everything first.
        missing_words: Whether "NA", "None", "null" and the like in CSV and TSV files are missing values, as pandas has
            it; else they are words as any other, and an empty field is an empty text.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: The files are of an unknown format or of several, `config` was given for files, or the split is
            empty.
    """
    import datasets

    builder, options = _source(names, config)
    if not missing_words and (builder == "csv" or _folder_formats(Path(names[0])) in ({"csv"}, {"tsv"})):
        options["keep_default_na"] = False
    try:
        return datasets.load_dataset(builder, split=split, streaming=streaming, **options)
    except StopIteration:  # from a JSON file with nothing in it
        raise ValueError(NO_EXAMPLES_ERROR.format(split=split)) from None
    except ValueError as error:
        if "corresponds to no data" in str(error):  # such as a CSV file with a header alone
            raise ValueError(NO_EXAMPLES_ERROR.format(split=split)) from None
        raise


def _source(names: Sequence[str], config: str | None) -> tuple[str, dict[str, Any]]:
    """The arguments of `load_dataset`: the first one, and the keyword arguments."""
    paths = [Path(name) for name in names]
    if len(paths) == 1 and not paths[0].is_file():
        if paths[0].is_dir():
            _check_folder(paths[0])
            return str(paths[0].resolve()), {"name": config}
        if _format(paths[0]) is not None:
            raise FileNotFoundError(NO_FILE_ERROR.format(name=names[0]))
        return names[0], {"name": config}
    for path in paths:
        if path.is_dir():
            raise FileNotFoundError(
                f"'{path}' is not a file; give one or more files, one folder, or one id of a dataset on the Hub"
            )
        if not path.is_file():
            raise FileNotFoundError(NO_FILE_ERROR.format(name=path))
        if _format(path) is None:
            allowed, compressions = ", ".join(FORMATS), ", ".join(COMPRESSIONS)
            raise ValueError(
                f"'{path}' is not in a known format; allowed: {allowed}, also with {compressions} after it"
            )
    if config is not None:
        raise ValueError(
            f"--config {config} is for a folder or a dataset on the Hub, and files were given; leave it out"
        )
    formats = {str(_format(path)) for path in paths}
    if len(formats) > 1:
        raise ValueError(MIXED_ERROR.format(where="the files are", formats=", ".join(sorted(formats))))
    options: dict[str, Any] = {"data_files": {"train": [glob.escape(str(path)) for path in paths]}}
    return ("csv", options | {"sep": "\t"}) if formats == {"tsv"} else (formats.pop(), options)


def _format(path: Path) -> str | None:
    """The format of a file by its suffix, before that of a compression; `None` if it is not in `FORMATS`."""
    inner = path.with_suffix("") if path.suffix in COMPRESSIONS else path
    return FORMATS.get(inner.suffix)


def _check_folder(folder: Path) -> None:
    """Raises if a folder has several formats: `datasets` would read the commonest one and leave the others out."""
    if (folder / "README.md").exists():  # its metadata may list the files of each config
        return
    formats = sorted(_folder_formats(folder))
    if len(formats) > 1:
        where = f"the folder '{folder}' has files"
        raise ValueError(MIXED_ERROR.format(where=where, formats=", ".join(formats)))


def _folder_formats(folder: Path) -> set[str]:
    """The formats of the files in a folder."""
    paths = [path for path in folder.rglob("*") if path.is_file() and not path.name.startswith(".")]
    return {known for path in paths if (known := _format(path)) is not None}


def text_features(dataset: Any, split: str) -> dict[str, Any]:
    """The types of the columns, inferred from the first examples if the dataset has no features."""
    import datasets

    if dataset.features is not None:
        return dict(dataset.features)
    first = list(dataset.take(BATCH_EXAMPLES))
    if not first:
        raise ValueError(NO_EXAMPLES_ERROR.format(split=split))
    return dict(datasets.Dataset.from_list(first).features)


def columns_to_count(features: Mapping[str, Any], names: Sequence[str] | None) -> list[TextColumn]:
    """The columns of these names; without names, all columns of strings and lists of strings.

    Raises:
        ValueError: A name is not that of a column of text, or there are no such columns.
    """
    allowed = {
        ".".join(column.path): column
        for name, feature in features.items()
        for column in _text_columns(feature, (name,))
    }
    if names is None:
        columns = [column for column in allowed.values() if len(column.path) == 1 and not column.is_json]
        if not columns:
            raise ValueError(
                f"no column holds strings or lists of strings; give --columns, one or more of: {', '.join(allowed)}"
                if allowed
                else "the dataset has no text in any column"
            )
        return columns
    columns = []
    for name in dict.fromkeys(names):
        parents = [parent for parent, column in allowed.items() if column.is_json and name.startswith(f"{parent}.")]
        if name in allowed:
            columns.append(allowed[name])
        elif parents:
            fields = name.removeprefix(f"{parents[0]}.").split(".")
            columns.append(TextColumn((*allowed[parents[0]].path, *fields), is_json=True))
        else:
            hint = did_you_mean(name, allowed)
            raise ValueError(
                f"column '{name}' is not a column of text in this dataset; {hint}there are: "
                f"{', '.join(allowed) or 'none'}"
            )
    return columns


def _text_columns(feature: Any, path: tuple[str, ...]) -> Iterator[TextColumn]:
    """The columns of text in a column or field of this type: itself, or fields below it."""
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
    """A random sample of `size` examples; of a stream, drawn through a buffer of `SHUFFLE_BUFFER` examples."""
    if streaming:
        return dataset.shuffle(seed=seed, buffer_size=SHUFFLE_BUFFER).take(size)
    if size >= dataset.num_rows:
        return dataset
    rows = np.random.default_rng(seed).choice(dataset.num_rows, size, replace=False, shuffle=False)
    return dataset.select(np.sort(rows))  # sorted, since rows are read faster in their order


def read_examples(dataset: Any, columns: Sequence[TextColumn], bar: tqdm) -> Iterator[list[str]]:
    """Yields the texts of each example, and advances the progress bar."""
    for batch in dataset.iter(BATCH_EXAMPLES):
        for row in zip(*(batch[column.path[0]] for column in columns), strict=True):
            yield [
                text for value, column in zip(row, columns, strict=True) for text in _texts_at(value, column.path[1:])
            ]
        bar.update(len(batch[columns[0].path[0]]))


def _texts_at(value: Any, path: tuple[str, ...]) -> Iterator[str]:
    """The strings at a path below a value, in lists too; if the path ends at a JSON object, all strings in it."""
    if isinstance(value, str):
        if not path:
            yield value
    elif isinstance(value, list):
        for item in value:
            yield from _texts_at(item, path)
    elif isinstance(value, dict):
        for field in [value.get(path[0])] if path else value.values():
            yield from _texts_at(field, path[1:])
