"""The journal of a folder of shards. It stores each paid answer until the answer is part of a shard.

Each process appends lines of JSON to a separate file. An incomplete last line, which a kill may leave, is ignored.
"""

import hashlib
import json
from pathlib import Path
from types import TracebackType
from typing import Any

_PATTERN = ".journal-*.jsonl"  # hidden, like all files that do not belong to a run's results


def request_key(request: Any) -> str:
    """Computes a digest of the whole request, so that no answer is taken for the answer to another request."""
    return hashlib.sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()[:32]


class Journal:
    """The answers that a folder has so far. As a context manager, it accepts further answers."""

    def __init__(self, folder: Path, process: int = 0) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.answers: dict[str, Any] = {}
        for path in sorted(folder.glob(_PATTERN)):
            for line in path.read_bytes().split(b"\n"):
                try:
                    content = json.loads(line)
                except ValueError:  # an incomplete line
                    continue
                self.answers.setdefault(content["key"], content["answer"])
        self._path = folder / _PATTERN.replace("*", f"{process:05d}")

    def __enter__(self) -> "Journal":
        self._file = self._path.open("ab")
        self._file.write(b"\n")  # ends the incomplete line of a killed process
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._file.close()

    def add(self, key: str, answer: Any) -> None:
        """Writes an answer. When this method returns, the answer is safe from a kill."""
        self._file.write(json.dumps({"key": key, "answer": answer}, allow_nan=False).encode() + b"\n")
        self._file.flush()
        self.answers[key] = answer


def remove_journals(folder: Path) -> None:
    """Removes the journals of a folder that has all its shards. Call it only while no process writes to the folder."""
    for path in folder.glob(_PATTERN):
        path.unlink(missing_ok=True)
