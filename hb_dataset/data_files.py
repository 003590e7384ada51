"""Loads a split of any dataset, from files or from the Hub."""

import glob
from collections.abc import Sequence
from pathlib import Path
from typing import Any

FORMATS = {".jsonl": "json", ".json": "json", ".csv": "csv", ".parquet": "parquet", ".txt": "text"}
COMPRESSIONS = (".gz", ".bz2", ".xz", ".zst")


def load_split(names: Sequence[str], split: str = "train", *, streaming: bool = False) -> Any:
    """Loads a split: a `datasets.Dataset`, or a `datasets.IterableDataset` for a stream.

    In CSV files, "NA", "None", "null" and the like are ordinary words, and an empty field is an empty text.

    Args:
        names: Files of one format, or one id of a dataset on the Hub.
        split: The split. Files have only the split "train".
        streaming: Whether to read without downloading or converting everything first.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: The files have an unknown format or several formats, or the split is empty.
    """
    import datasets

    paths = [Path(name) for name in names]
    formats = {_format(path) for path in paths}
    builder = names[0]
    options: dict[str, Any] = {}
    if len(paths) > 1 or paths[0].exists() or formats != {None}:
        for path in paths:
            if not path.is_file():
                raise FileNotFoundError(
                    f"the file '{path}' does not exist; pass files, or the id of a dataset on the Hub"
                )
        if len(formats) > 1 or None in formats:
            raise ValueError(
                f"the files {', '.join(map(str, paths))} must have the same format; allowed: {', '.join(FORMATS)}, "
                f"also compressed ({', '.join(COMPRESSIONS)})"
            )
        builder = str(*formats)
        options = {"data_files": {"train": [glob.escape(str(path)) for path in paths]}}
        options |= {"keep_default_na": False} if builder == "csv" else {}
    try:
        return datasets.load_dataset(builder, split=split, streaming=streaming, **options)
    except (StopIteration, ValueError) as error:  # an empty JSON file; a CSV file with only a header
        if isinstance(error, StopIteration) or "corresponds to no data" in str(error):
            raise ValueError(f"the split '{split}' has no examples") from None
        raise


def _format(path: Path) -> str | None:
    """Returns the format of a file by its suffix, ignoring a compression suffix; `None` if it is not in `FORMATS`."""
    inner = path.with_suffix("") if path.suffix in COMPRESSIONS else path
    return FORMATS.get(inner.suffix)
