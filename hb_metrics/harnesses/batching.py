from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import anyio

Request = TypeVar("Request")
Answer = TypeVar("Answer")


@dataclass(eq=False)
class _Waiting(Generic[Request, Answer]):
    request: Request
    answer: Answer | None = None
    error: Exception | None = None


def in_batches(
    answer_all: Callable[[list[Request]], Sequence[Answer]],
) -> Callable[[Request], Awaitable[Answer]]:
    """Returns an async function that answers a request together with all other waiting requests.

    `answer_all` runs in a thread, one call at a time. If it raises an error, every request in this call raises the
    error.
    """
    waiting: list[_Waiting[Request, Answer]] = []
    lock = anyio.Lock()

    async def answer(request: Request) -> Answer:
        mine: _Waiting[Request, Answer] = _Waiting(request)
        waiting.append(mine)
        async with lock:
            if mine in waiting:  # otherwise, another call has answered this request in the meantime
                batch = waiting.copy()
                waiting.clear()
                try:
                    answers = await anyio.to_thread.run_sync(answer_all, [each.request for each in batch])
                    for each, given in zip(batch, answers, strict=True):
                        each.answer = given
                except Exception as error:  # noqa: BLE001 - the error is raised again below
                    for each in batch:
                        each.error = error
        if mine.error is not None:
            raise mine.error
        assert mine.answer is not None
        return mine.answer

    return answer
