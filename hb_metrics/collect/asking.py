"""Asks a server, and keeps its answers until they are written to shards, so that a killed run does not lose answers.

Each process appends lines of JSON to its own file. A kill may leave an incomplete last line, which is ignored.
"""

import asyncio
import hashlib
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from hb_metrics.collect.shards import Shard, fill_shards, plan_row_shards
from hb_metrics.models.processes import process_state
from hb_metrics.models.served.client import Client, Server, connected

ROWS_PER_SHARD = 1024
_PATTERN = ".journal-*.jsonl"  # hidden, because these files are not part of a run's results


def request_key(request: Any) -> str:
    return hashlib.sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()[:32]


class Journal:
    """The answers in the journals of a folder.

    Attributes:
        answers: The answers by key, in the order in which they were read.
        own: The keys of the answers that this object wrote.
    """

    def __init__(self, folder: Path, process: int = 0) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.answers: dict[str, Any] = {}
        self.own: set[str] = set()
        self._path = folder / _PATTERN.replace("*", f"{process:05d}")
        self._num_read: Counter[Path] = Counter()  # the number of bytes that were read from each file
        self.refresh()

    def refresh(self) -> None:
        """Reads the answers that any process has written since the last call. The first answer for a key counts."""
        for path in sorted(self.folder.glob(_PATTERN)):
            with path.open("rb") as file:
                file.seek(self._num_read[path])
                content = file.read()
            self._num_read[path] += content.rfind(b"\n") + 1  # the last line may be incomplete, so it is read again
            for line in content.split(b"\n"):
                try:
                    entry = json.loads(line)
                except ValueError:  # an incomplete line
                    continue
                self.answers.setdefault(entry["key"], entry["answer"])

    def add(self, key: str, answer: Any) -> None:
        """Writes an answer. Once this method has returned, the answer survives even if the process is killed."""
        line = json.dumps({"key": key, "answer": answer}, allow_nan=False)
        with self._path.open("ab") as file:
            file.write(f"\n{line}\n".encode())  # the first line break ends a line that a killed process left incomplete
        self.answers.setdefault(key, answer)
        self.own.add(key)


def answers_of(
    server: Server,
    rows: Mapping[int, str],
    ask: Callable[[Client, int], Awaitable[Any]],
    journal: Journal,
    advance: Callable[..., object] = lambda *_, **__: None,
) -> dict[int, Any]:
    """Returns the answer for each row. Requests the answers that are not in the journal.

    Several answers are requested at the same time, and each is written to the journal at once. `rows` maps each row to
    the key of its answer in the journal. `ask` requests the answer for a row. `advance` reports progress (see
    `ComputeShards`).
    """
    journal.refresh()
    wanted = {row: key for row, key in rows.items() if key not in journal.answers}
    # Texts may repeat, and an answer that was requested for an earlier text of this run was not resumed.
    if resumed := sum(key in journal.answers and key not in journal.own for key in rows.values()):
        print(f"{resumed:,} of {len(rows):,} answers were already in {journal.folder}")
    if known := len(rows) - len(wanted):
        advance(known)
    waiting = iter(wanted.items())

    async def work(client: Client) -> None:
        for row, key in waiting:
            journal.add(key, await ask(client, row))
            advance(1, str(client.cost))

    async def ask_all() -> None:
        async with connected(server) as client:
            try:
                async with asyncio.TaskGroup() as group:
                    for _ in range(min(len(wanted), server.concurrency)):
                        group.create_task(work(client))
            except BaseExceptionGroup as errors:
                raise errors.exceptions[0] from None

    if wanted:
        asyncio.run(ask_all())
    return {row: journal.answers[key] for row, key in rows.items()}


def ask_into_shards(
    server: Server,
    path: str,
    ids: Sequence[str],
    bodies: Sequence[Mapping[str, object]],
    folder: Path,
    schema: pa.Schema,
    read: Callable[[Any, int], Any],
    columns: Callable[[Sequence[int], Sequence[Any]], Mapping[str, object]],
    *,
    label: str,
) -> list[Shard]:
    """Requests the answers that are not on disk yet, and returns the shards of all answers.

    `read` takes the content of an answer and its row, and `columns` turns rows and what was read into columns.
    """

    async def ask(client: Client, row: int) -> Any:
        what = f"the {label} of prompt '{ids[row]}'"
        return await client.post(path, bodies[row], lambda content: read(content, row), what=what)

    shards = plan_row_shards(len(ids), ROWS_PER_SHARD, folder)
    keys = [request_key([server.model, ids[row], body]) for row, body in enumerate(bodies)]

    def compute(mine: Sequence[int], advance: Callable[..., object]) -> Iterator[Mapping[str, object]]:
        wanted = {row: keys[row] for index in mine for row in shards[index].rows.tolist()}
        answers = answers_of(server, wanted, ask, Journal(folder, process_state().process_index), advance)
        for index in mine:
            rows = shards[index].rows.tolist()
            yield columns(rows, [answers[row] for row in rows])

    fill_shards(shards, ids, schema, compute, label=label, unit="row", inputs=bodies)
    if process_state().is_main_process:  # all shards are written, so the journals are not needed
        for journal in folder.glob(_PATTERN):
            journal.unlink(missing_ok=True)
    return shards
