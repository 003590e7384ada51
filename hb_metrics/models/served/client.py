"""Sends requests to a server over HTTP, several at a time.

A request is repeated after a temporary fault, such as a lost connection, a timeout, status 429 or 5xx, an incomplete
answer, or an answer from another model. The server can set the pause before the next attempt (Retry-After). If it does
not, the pause doubles with each attempt. A permanent fault, such as a wrong key, ends the run at once.
"""

import asyncio
import random
import ssl
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache
from typing import Any, TypeVar
from urllib.parse import urlsplit

import huggingface_hub

from hb_metrics.models.served import errors
from hb_metrics.models.served.addresses import Key, is_local_host

if int(huggingface_hub.__version__.split(".")[0]) >= 2:  # huggingface_hub installs one of these packages
    import httpx2 as httpx
else:
    import httpx  # type: ignore[no-redef, import-not-found, unused-ignore]

T = TypeVar("T")

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0  # in seconds, if the server does not set the pause
LONGEST_ASKED = 900.0  # in seconds; if the server asks for a longer pause, the run ends
CONNECT = 30.0  # the maximum number of seconds for connecting
TRIES = 8  # the maximum number of tries per request
_TIMEOUT_COST = 3  # a timeout counts as this many tries, because it takes minutes
_TEMPORARY = {408, 409, 425, 429, 500, 502, 503, 504, 520, 522, 524, 529}
# The maximum number of bytes per answer: a constant, and for each requested token. Valid answers are far smaller.
_LARGEST, _LARGEST_TOKEN = 2**18, 2**8


class TemporaryFault(Exception):
    """A temporary fault, after which the request is repeated.

    `wait` is the server's requested pause, in seconds. The fault counts as `cost` attempts.
    """

    def __init__(self, fault: str, wait: float | None = None, cost: int = 1) -> None:
        super().__init__(fault)
        self.wait, self.cost = wait, cost


class RefusedError(ValueError):
    def __init__(self, message: str, said: str) -> None:
        super().__init__(message)
        self.said = said


@dataclass
class Cost:
    tokens_in: int = 0
    tokens_out: int = 0
    retries: int = 0

    def __str__(self) -> str:
        retries = f", {self.retries:,} retries" if self.retries else ""
        return f"{self.tokens_in:,} tokens in, {self.tokens_out:,} out{retries}"


@dataclass(frozen=True, kw_only=True)
class Server:
    """A server, and the settings for requests to it.

    Attributes:
        provider: The Inference Provider to which the Hub's router forwards the requests. `None` for other servers.
        timeout: The maximum time for a request, in seconds.
    """

    model: str
    url: str
    key: Key | None = None
    provider: str | None = None
    concurrency: int = 8
    timeout: float = 600.0

    @property
    def where(self) -> str:
        return self.url if self.provider is None else f"provider {self.provider}"


@dataclass
class Client:
    server: Server
    http: httpx.AsyncClient
    free: asyncio.Semaphore
    cost: Cost = field(default_factory=Cost)
    tries: int = TRIES
    ready_at: float = 0.0  # the value of time.monotonic() before which no request is sent
    answers: int = 0
    faults: int = 0  # the number of faults since the last answer

    async def post(self, path: str, body: Mapping[str, object], read: Callable[[Any], T], *, what: str) -> T:
        """Requests an answer, and repeats the request after temporary faults. Returns the result of `read`.

        `read` takes the JSON content of the answer, and raises `TemporaryFault` if it is invalid. `what` is the noun
        phrase for the request in error messages.

        Raises:
            RefusedError: The server rejected the request.
            ValueError: The server did not answer within the allowed number of attempts, or asked for a pause that is
                too long.
        """
        tries, left, pause = 0, self.tries, FIRST_PAUSE
        while True:
            try:
                async with self.free:
                    await asyncio.sleep(max(0.0, self.ready_at - time.monotonic()))
                    before = self.answers
                    answer = read(await self._send(path, body, what))
                self.answers += 1
                self.faults = 0
                return answer
            except RecursionError:
                fault = TemporaryFault("an answer that is nested too deeply")
            except TemporaryFault as error:
                fault = error
            self.cost.retries += 1
            self.faults += 1
            # A busy server that answers other requests meanwhile is not faulty, so the attempt does not count.
            if not (fault.wait is not None and self.answers > before):
                tries, left = tries + 1, left - fault.cost
            if left <= 0:
                raise ValueError(
                    f"{self.server.url} did not answer {what} in {tries} attempts (last error: {fault}). All "
                    "answers so far are saved; to resume, run the same command again"
                )
            if fault.cost > 1:
                print(f"{self.server.url}: {fault}; the request is sent again", file=sys.stderr, flush=True)
            delay = pause * random.uniform(0.5, 1) if fault.wait is None else fault.wait
            if fault.wait is not None or self.faults > 1:  # the fault affects the server and not only this request
                self.ready_at = max(self.ready_at, time.monotonic() + delay)
            if fault.wait is None:
                await asyncio.sleep(delay)
            pause = min(2 * pause, LONGEST_PAUSE)

    async def _send(self, path: str, body: Mapping[str, Any], what: str) -> Any:
        url, key, provider = self.server.url, self.server.key, self.server.provider
        model = self.server.model if provider in (None, "auto") else f"{self.server.model}:{provider}"
        num_tokens = body.get("max_tokens") or body.get("max_completion_tokens") or 0
        try:
            async with (
                asyncio.timeout(self.server.timeout),
                self.http.stream("POST", f"{url}/{path}", json={"model": model, **body}) as response,
            ):
                content = await _read(response, _LARGEST + _LARGEST_TOKEN * num_tokens)
        except (TimeoutError, httpx.ReadTimeout, httpx.WriteTimeout):
            fault = f"the server did not answer within {self.server.timeout:g} seconds"
            raise TemporaryFault(fault, cost=_TIMEOUT_COST) from None
        except httpx.HTTPError as error:
            raise TemporaryFault(f"{type(error).__name__} {errors.printable(str(error), key)}".strip()) from None
        status, answer = response.status_code, errors.parsed(content, key)
        rejection = answer if status >= 300 else errors.error_in(answer)
        if rejection is None:
            return answer
        if status < 300 and isinstance(answer, str):
            raise TemporaryFault("an answer that is not JSON")
        sentences = errors.sentences_of(rejection)
        fault = f"HTTP status {status}" if status >= 300 else "an error instead of an answer"
        said = errors.printable(sentences, key)
        fault += f" ({said})" if said else ""
        status = status if status >= 300 else errors.code_of(rejection)
        if response.status_code < 500 and errors.is_of_filter(sentences):
            return {"choices": [{"message": {}, "finish_reason": "content_filter"}]}
        if status in _TEMPORARY:
            wait = retry_after(response.headers.get("retry-after"))
            if wait is not None and wait > LONGEST_ASKED:
                raise ValueError(
                    f"{url} asks for a pause of {wait:,.0f} seconds before the next request. All answers so far are "
                    "saved; run the same command again after that time"
                )
            raise TemporaryFault(fault, wait)
        hint = errors.hint_for(f"{status} {said}")
        if location := response.headers.get("location"):
            hint = f"; it redirects to {errors.printable(location, key).partition('?')[0]}; use this address instead"
        raise RefusedError(f"{url} rejects {what}: {fault}{hint}", said)


@asynccontextmanager
async def connected(server: Server) -> AsyncIterator[Client]:
    async with _http_client(server) as http:
        yield Client(server, http, asyncio.Semaphore(server.concurrency))


@cache
def _tls() -> ssl.SSLContext:
    return httpx.create_ssl_context()


def _http_client(server: Server) -> httpx.AsyncClient:
    host = urlsplit(server.url).hostname or ""
    return httpx.AsyncClient(
        timeout=httpx.Timeout(server.timeout, connect=min(CONNECT, server.timeout), pool=None),
        verify=_tls(),
        limits=httpx.Limits(max_connections=server.concurrency, max_keepalive_connections=server.concurrency),
        follow_redirects=False,  # a redirect would send the prompts and the key to another address
        headers={
            "accept-encoding": "identity",  # no compression, because a small answer could expand to gigabytes
            **({} if server.key is None else {"authorization": f"Bearer {server.key.value}"}),
        },
        # Requests to hosts in the local network are not sent to a proxy, because it could read the key.
        mounts={f"all://[{host}]" if ":" in host else f"all://{host}": None} if is_local_host(host) else {},
    )


async def _read(response: httpx.Response, largest: int) -> bytes:
    encoding = response.headers.get("content-encoding", "identity")
    if encoding not in ("identity", "gzip"):  # other encodings may expand to any size before the check below
        raise TemporaryFault(f"the answer is compressed as {errors.printable(encoding)}")
    content = bytearray()
    async for part in response.aiter_bytes():
        content += part
        if len(content) > largest:
            raise TemporaryFault(f"the answer is larger than {largest >> 10:,} kB")
    return bytes(content)


def retry_after(value: str | None) -> float | None:
    """Returns the pause in a Retry-After header (a number or a date), in seconds."""
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            day = parsedate_to_datetime(value)
        except ValueError:
            return None
        seconds = (day.replace(tzinfo=day.tzinfo or UTC) - datetime.now(UTC)).total_seconds()
    return max(0.0, seconds) if seconds == seconds else None
