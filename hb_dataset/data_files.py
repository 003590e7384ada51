"""Loading a split of any dataset from the Hub, a folder, or files."""

import glob
from collections.abc import Sequence
from pathlib import Path
from typing import Any

FORMATS = {".jsonl": "json", ".json": "json", ".csv": "csv", ".tsv": "tsv", ".parquet": "parquet", ".txt": "text"}
COMPRESSIONS = (".gz", ".bz2", ".xz", ".zst")


def load_split(names: Sequence[str], config: str | None, split: str, *, streaming: bool = False) -> Any:
    """Loads a split: a `datasets.Dataset`, or a `datasets.IterableDataset` for a stream.

    In CSV and TSV files, "NA", "None", "null" and the like are words as any other, and an empty field is an empty text.

    Args:
        names: Files, or one folder, or one id of a dataset on the Hub.
        config: The config, if the folder or dataset has several.
        split: The split.
        streaming: Whether to read without downloading or converting everything first.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: The files have an unknown format or several formats, or the split is empty.
    """
    import datasets

    paths = [Path(name) for name in names]
    options: dict[str, Any] = {"name": config}
    if len(paths) == 1 and paths[0].is_dir():
        builder = str(paths[0].resolve())
        # The metadata in a README.md may list the files of each config.
        files = [] if (paths[0] / "README.md").exists() else paths[0].rglob("[!.]*")
        formats = {known for path in files if path.is_file() and (known := _format(path))}
    elif len(paths) == 1 and not paths[0].is_file() and _format(paths[0]) is None:
        builder, formats = names[0], set()
    else:
        formats = {_file_format(path) for path in paths}
        builder = "csv" if formats == {"tsv"} else min(formats)
        options["data_files"] = {"train": [glob.escape(str(path)) for path in paths]}
        if formats == {"tsv"}:
            options["sep"] = "\t"
    if len(formats) > 1:  # `datasets` would read the commonest one and leave the others out
        raise ValueError(f"the files have several formats ({', '.join(sorted(formats))}); pass files of one format")
    if formats <= {"csv", "tsv"} and formats:
        options["keep_default_na"] = False
    try:
        return datasets.load_dataset(builder, split=split, streaming=streaming, **options)
    except (StopIteration, ValueError) as error:  # an empty JSON file; a CSV file with only a header
        if isinstance(error, StopIteration) or "corresponds to no data" in str(error):
            raise ValueError(f"the split '{split}' has no examples") from None
        raise


def _file_format(path: Path) -> str:
    if not path.is_file():
        raise FileNotFoundError(
            f"the file '{path}' does not exist; pass files, one folder, or the id of a dataset on the Hub"
        )
    known = _format(path)
    if known is None:
        raise ValueError(
            f"'{path}' is not in a known format; allowed: {', '.join(FORMATS)}, optionally followed by "
            f"{', '.join(COMPRESSIONS)}"
        )
    return known


def _format(path: Path) -> str | None:
    """The format of a file by its suffix, ignoring a compression suffix; `None` if it is not in `FORMATS`."""
    inner = path.with_suffix("") if path.suffix in COMPRESSIONS else path
    return FORMATS.get(inner.suffix)
