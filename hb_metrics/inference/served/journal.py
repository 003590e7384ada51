"""The journal of a folder of shards: each answer that was paid for, at once, until it is part of a shard.

A file of JSON lines for each process, written line by line: a process that is killed leaves half a last line at most,
which is passed over. An answer is found again by what was asked, so that none is taken for another question's.
"""

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

_PATTERN = ".journal-*.jsonl"  # hidden, like all files that are not part of a run


def request_key(request: Any) -> str:
    """What an answer is found by: a digest of everything that was asked."""
    return hashlib.sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()[:32]


class Journal:
    """The answers of a folder so far; a context manager, open for more.

    Attributes:
        num_damaged: Lines that could not be read.
    """

    def __init__(self, folder: Path, process: int = 0) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / _PATTERN.replace("*", f"{process:05d}")
        self._answers: dict[str, Any] = {}
        self.num_damaged = 0
        for path in sorted(folder.glob(_PATTERN)):
            for line in _lines(path):
                answer = _read(line)
                if answer is None:
                    self.num_damaged += 1
                else:
                    self._answers.setdefault(*answer)

    def __enter__(self) -> "Journal":
        self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
        size = os.fstat(self._file).st_size
        if size and os.pread(self._file, 1, size - 1) != b"\n":
            os.write(self._file, b"\n")  # after half a line
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        os.close(self._file)

    def __len__(self) -> int:
        """How many answers there are."""
        return len(self._answers)

    def get(self, key: str) -> Any | None:
        """The answer to what was asked; `None`: there is none."""
        return self._answers.get(key)

    def add(self, key: str, answer: Any) -> None:
        """Writes an answer; it is on disk when this returns, as far as the system is concerned."""
        body = json.dumps(answer, ensure_ascii=True, allow_nan=False)
        line = f'{{"key": "{key}", "digest": "{_digest(body)}", "answer": {body}}}\n'.encode()
        while line:  # one write, unless the disk is nearly full
            line = line[os.write(self._file, line) :]
        self._answers.setdefault(key, answer)


def remove_journals(folder: Path) -> None:
    """Removes the journals of a folder whose shards are all there. Call it only while no process writes into it."""
    for path in folder.glob(_PATTERN):
        path.unlink(missing_ok=True)


def _lines(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        yield from (line for line in file if line.strip())


def _read(line: bytes) -> tuple[str, Any] | None:
    """The key and the answer of a line; `None`: it is half a line, or damaged."""
    try:
        content = json.loads(line)
        body = json.dumps(content["answer"], ensure_ascii=True, allow_nan=False)
        return (content["key"], content["answer"]) if content["digest"] == _digest(body) else None
    except (ValueError, KeyError, TypeError):
        return None


def _digest(body: str) -> str:
    return hashlib.sha256(body.encode()).hexdigest()[:16]
