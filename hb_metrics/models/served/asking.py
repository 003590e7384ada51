import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from hb_metrics.models.processes import process_state
from hb_metrics.models.served.client import Client, Server, connected
from hb_metrics.models.served.journal import Journal


def answers_of(
    server: Server,
    rows: Mapping[int, str],
    ask: Callable[[Client, int], Awaitable[Any]],
    folder: Path,
    advance: Callable[..., object] = lambda *_, **__: None,
) -> dict[int, Any]:
    """Returns the answer for each row. Requests the answers that are not in the folder's journals.

    Several answers are requested at the same time, and each is written to the journal at once. `rows` maps each row to
    the key of its answer in the journal. `ask` requests the answer for a row. `advance` reports progress (see
    `ComputeShards`).
    """
    journal = Journal(folder, process_state().process_index)
    wanted = {row: key for row, key in rows.items() if key not in journal.answers}
    if known := len(rows) - len(wanted):
        print(f"{known:,} of {len(rows):,} answers were already in {folder}")
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
