import os
import re
import secrets
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

_SCRATCH_NAME = re.compile(r"\..+\.[0-9a-f]+\.tmp")


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Calls `write` with the path of a temporary file, and then renames this file to `path`.

    If writing fails, the temporary file is removed, and the `OSError` names `path`. The content is flushed to disk
    before the file is renamed, for two reasons. Some file systems report that they are full only when content is
    flushed. Without flushing, a power failure could leave an empty file.
    """
    # The name does not contain the process id, because machines that share a folder may have processes with the same
    # id.
    scratch = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    try:
        write(scratch)
        with scratch.open("r+b") as file:  # Windows flushes only files that are open for writing
            os.fsync(file.fileno())
        scratch.replace(path)
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, os.strerror(error.errno), str(path)) from error
    finally:
        with suppress(OSError):  # in an unwritable folder, this also fails and would hide the first error
            scratch.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    write_atomically(path, lambda scratch: scratch.write_text(text, encoding="utf-8"))


def remove_leftovers(folder: Path) -> None:
    """Removes the temporary files of killed processes. Call it only while no process writes to the folder."""
    for path in folder.rglob(".*.tmp"):
        if _SCRATCH_NAME.fullmatch(path.name):
            path.unlink(missing_ok=True)
