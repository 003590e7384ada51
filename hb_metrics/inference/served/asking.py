import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from hb_metrics.inference.served.client import Client, Server, connected
from hb_metrics.inference.served.journal import Journal


async def ask_all(
    server: Server,
    wanted: Mapping[int, str],
    ask: Callable[[Client, int], Awaitable[Any]],
    journal: Journal,
    advance: Callable[[int, str], object],
) -> None:
    """Requests answers, several at the same time, and writes each answer to the journal at once.

    `wanted` maps each row to the key of its answer in the journal. `ask` requests the answer for a row. After each
    answer, `advance` is called with the number 1 and a text that states the cost so far.
    """
    waiting = iter(wanted.items())

    async def work(client: Client) -> None:
        for row, key in waiting:
            journal.add(key, await ask(client, row))
            advance(1, str(client.cost))

    async with connected(server) as client:
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(len(wanted), server.concurrency)):
                    group.create_task(work(client))
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None
