"""Files that are there whole or not at all."""

import os
from collections.abc import Callable
from pathlib import Path


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Lets `write` make a file under a temporary name beside `path`, then renames it; nothing is left if it fails."""
    scratch = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        write(scratch)
        scratch.replace(path)
    finally:
        scratch.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Writes a text file whole, in UTF-8."""
    write_atomically(path, lambda scratch: scratch.write_text(text, encoding="utf-8"))
