import glob
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hb_dataset.hub_access import protect_token

FORMATS = {".jsonl": "json", ".json": "json", ".csv": "csv", ".parquet": "parquet", ".txt": "text"}
COMPRESSIONS = (".gz", ".bz2", ".xz", ".zst")


def stream_split(names: Sequence[str], split: str = "train") -> Any:
    """Streams a split from files or from a dataset on the Hub.

    `names` contains one id on the Hub, or the paths of files in the same format. Files have only the split "train". In
    CSV files, words such as "NA", "None" and "null" are ordinary text, and an empty field is an empty text.
    """
    import datasets

    paths = [Path(name) for name in names]
    formats = {_format(path) for path in paths}
    builder = names[0]
    options: dict[str, object] = {}
    if len(paths) > 1 or paths[0].exists() or formats != {None}:
        for path in paths:
            if not path.is_file():
                raise FileNotFoundError(
                    f"the file '{path}' does not exist; pass existing files, or the id of a dataset on the Hub"
                )
        if len(formats) > 1 or None in formats:
            raise ValueError(
                f"the files {', '.join(map(str, paths))} do not share one of the allowed formats; pass files in a "
                f"single format: {', '.join(FORMATS)}, with or without compression ({', '.join(COMPRESSIONS)})"
            )
        builder = str(*formats)
        options = {"data_files": {"train": [glob.escape(str(path)) for path in paths]}}
        options |= {"keep_default_na": False} if builder == "csv" else {}
    else:
        protect_token()
    # Without streaming, `datasets` would read a file with the time of an earlier file from its cache.
    try:
        return datasets.load_dataset(builder, split=split, streaming=True, **options)
    except StopIteration:  # an empty JSON file
        raise ValueError(f"the split '{split}' has no examples") from None


def _format(path: Path) -> str | None:
    inner = path.with_suffix("") if path.suffix in COMPRESSIONS else path
    return FORMATS.get(inner.suffix)
