"""Asks for many answers at once, each journalled when it comes, while others take them in the order they want."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from types import TracebackType
from typing import Any

from hb_metrics.inference.served.client import Client, Server, connected
from hb_metrics.inference.served.journal import Journal


class Asking:
    """Answers to rows, of the journal or of a server that is asked in the background; a context manager.

    Args:
        server: Whom to ask.
        rows: What is wanted, in the order in which it is asked for.
        keys: [rows] what each answer is journalled under.
        ask: Asks for the answer to a row: something that JSON can hold.
        journal: Where answers are written, open.
        advance: Is called with the number of answers that came and the cost so far in words, or with how many were
            known.
    """

    def __init__(
        self,
        server: Server,
        rows: Sequence[int],
        keys: Sequence[str],
        ask: Callable[[Client, int], Awaitable[Any]],
        journal: Journal,
        advance: Callable[..., object],
    ) -> None:
        self._server, self._ask, self._journal, self._advance = server, ask, journal, advance
        self._keys = dict(zip(rows, keys, strict=True))

    def __enter__(self) -> "Asking":
        self._runner = asyncio.Runner()
        loop = self._runner.get_loop()
        self._answers = {row: loop.create_future() for row in self._keys}
        known = [row for row, key in self._keys.items() if self._journal.get(key) is not None]
        for row in known:
            self._answers[row].set_result(self._journal.get(self._keys[row]))
        if known:
            self._advance(len(known), known=True)
        self._task = loop.create_task(self._ask_all([row for row in self._keys if not self._answers[row].done()]))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if error is None:
            self._runner.run(self._end())  # closes its connections
        self._runner.close()  # cancels what is still asked

    def answers(self, rows: Sequence[int]) -> list[Any]:
        """Waits for the answers to these rows.

        Raises:
            ValueError: The server did not answer one of the rows.
        """
        return self._runner.run(self._wait(rows))

    async def _end(self) -> None:
        await self._task

    async def _wait(self, rows: Sequence[int]) -> list[Any]:
        wanted: asyncio.Future[list[Any]] = asyncio.gather(*(self._answers[row] for row in rows))
        waiting: set[asyncio.Future[Any]] = {self._task, wanted}
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        if not wanted.done():
            wanted.cancel()
            self._task.result()  # raises
        return list(wanted.result())

    async def _ask_all(self, rows: Sequence[int]) -> None:
        if not rows:
            return
        waiting = iter(rows)
        async with connected(self._server) as client:
            number = min(len(rows), self._server.concurrency * len(client.addresses))
            try:
                async with asyncio.TaskGroup() as group:
                    for _ in range(number):
                        group.create_task(self._work(client, waiting))
            except BaseExceptionGroup as errors:
                raise errors.exceptions[0] from None

    async def _work(self, client: Client, waiting: Iterator[int]) -> None:
        for row in waiting:
            answer = await self._ask(client, row)
            self._journal.add(self._keys[row], answer)
            if not self._answers[row].cancelled():
                self._answers[row].set_result(answer)
            self._advance(1, str(client.cost))
