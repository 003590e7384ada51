"""Keeps a server's answers until they are written to shards, so that a killed run does not lose answers.

Each process appends lines of JSON to its own file. A kill may leave an incomplete last line, which is ignored.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

_PATTERN = ".journal-*.jsonl"  # hidden, because these files are not part of a run's results


def request_key(request: Any) -> str:
    return hashlib.sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()[:32]


class Journal:
    """The answers in the journals of a folder."""

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

    def add(self, key: str, answer: Any) -> None:
        """Writes an answer. Once this method has returned, the answer survives even if the process is killed."""
        line = json.dumps({"key": key, "answer": answer}, allow_nan=False)
        with self._path.open("ab") as file:
            file.write(f"\n{line}\n".encode())  # the first line break ends a line that a killed process left incomplete
        self.answers[key] = answer


def remove_journals(folder: Path) -> None:
    """Removes the journals of a folder. Call it only when all shards are written and no process uses the folder."""
    for path in folder.glob(_PATTERN):
        path.unlink(missing_ok=True)
