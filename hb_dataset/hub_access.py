import glob
import ipaddress
import os
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit


def protect_token() -> None:
    """Ensures that the token of the Hugging Face Hub is sent with encryption, or only within the local network.

    Raises:
        ValueError: The token would be sent without encryption to a host outside of the local network.
    """
    from huggingface_hub import constants, get_token

    address = urlsplit(constants.ENDPOINT)
    if address.scheme == "https" or constants.is_offline_mode() or get_token() is None:
        return
    host = address.hostname or ""
    if not is_local_host(host):
        raise ValueError(
            f"HF_ENDPOINT is not an https:// address, so the Hub's token would be sent to {host} without encryption; "
            "set HF_ENDPOINT to an https:// address, or unset HF_TOKEN and run `hf auth logout`"
        )
    for name in ("NO_PROXY", "no_proxy"):  # a proxy could read the token
        os.environ[name] = ",".join(sorted({*os.environ.get(name, host).split(","), host}))


def is_local_host(host: str) -> bool:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        try:
            address = ipaddress.ip_address(socket.inet_aton(host))  # other notations, such as one number
        except OSError:
            return "." not in host or host.endswith((".localhost", ".local", ".internal"))
    address = getattr(address, "ipv4_mapped", None) or address
    return address.is_loopback or address.is_private or address.is_link_local


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
                    f"the file '{path}' does not exist; pass files, or the id of a dataset on the Hub"
                )
        if len(formats) > 1 or None in formats:
            raise ValueError(
                f"the files {', '.join(map(str, paths))} do not share one of the allowed formats; pass files in one of "
                f"{', '.join(FORMATS)}, with or without compression ({', '.join(COMPRESSIONS)})"
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
