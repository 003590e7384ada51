"""Requests answers from served models over HTTP, several at a time and with retries.

A request is repeated after a temporary fault, such as a lost connection, a timeout, status 429 or 5xx, half an answer,
or an answer from another model. The pause before a retry is set by the server (Retry-After). Without this header, it
doubles each time. A permanent fault (such as a wrong key or model name) ends the run at once.
"""

import asyncio
import json
import random
import ssl
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

from hb_metrics.inference.served.addresses import KEY_VARIABLE, Key, is_near

if int(huggingface_hub.__version__.split(".")[0]) >= 2:  # huggingface_hub installs one of these packages
    import httpx2 as httpx
else:
    import httpx  # type: ignore[no-redef, import-not-found, unused-ignore]

T = TypeVar("T")

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0  # seconds before a retry, unless the server sets another pause
LONGEST_ASKED = 900.0  # the longest pause, in seconds, that a server may set; after a longer one, resume the run later
CONNECT = 30.0  # seconds for connecting
TRIES = 8  # tries per request before the run ends
NO_ANSWER = "an answer that is not JSON of the expected form"
_PASSING = {408, 409, 425, 429, 500, 502, 503, 504, 520, 522, 524, 529}
_LARGEST = 2**24  # bytes per answer, far more than words and log-probabilities need
_SHOWN = 300  # the number of characters of a server's message that an error quotes

_HINTS = {
    401: f"; set the environment variable {KEY_VARIABLE} to a key of this server",
    403: f"; set the environment variable {KEY_VARIABLE} to a key that may use this model",
    404: "; check --base_url (it usually ends in /v1) and --model",
}


class Passing(Exception):
    """A temporary fault, such as half an answer. `wait` is the pause, in seconds, that the server asks for."""

    def __init__(self, fault: str, wait: float | None = None) -> None:
        super().__init__(fault)
        self.wait = wait


class RefusedError(ValueError):
    """A server rejected a request. `said` is the server's message."""

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
    """The address of a served model, and the settings for requests to it. `timeout` is in seconds.

    `provider` is the Inference Provider that the address stands for, or `None` if the address is the server's own.
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
    ready_at: float = 0.0  # there is no request before this value of time.monotonic()
    answers: int = 0
    faults: int = 0  # the number of failures since the last answer

    async def post(self, path: str, body: Mapping[str, Any], read: Callable[[Any], T], *, what: str) -> T:
        """Requests an answer. Repeats the request after temporary faults.

        `read` raises `Passing` for an invalid answer. `what` describes the request in errors.

        Raises:
            RefusedError: The server rejected the request.
            ValueError: The server did not answer within the allowed number of tries, or it asks for too long a pause.
        """
        tries, pause = 0, FIRST_PAUSE
        while True:
            try:
                async with self.free:
                    await asyncio.sleep(max(0.0, self.ready_at - time.monotonic()))
                    before = self.answers
                    answer = read(await self._send(path, body, what))
                self.answers += 1
                self.faults = 0
                return answer
            except Passing as error:
                fault, asked = str(error), error.wait
            self.cost.retries += 1
            self.faults += 1
            if not (asked is not None and self.answers > before):  # a server that answers others is not at fault
                tries += 1
            if tries >= self.tries:
                raise ValueError(
                    f"{self.server.url} did not answer {what} in {tries} tries; last: {fault}. All answers so far are "
                    "kept; to resume, run the same command again"
                )
            delay = pause * random.uniform(0.5, 1) if asked is None else asked
            if asked is not None or self.faults > 1:  # the fault affects the server and not only this request
                self.ready_at = max(self.ready_at, time.monotonic() + delay)
            if asked is None:
                await asyncio.sleep(delay)
            pause = min(2 * pause, LONGEST_PAUSE)

    async def _send(self, path: str, body: Mapping[str, Any], what: str) -> Any:
        url, key, provider = self.server.url, self.server.key, self.server.provider
        model = self.server.model if provider in (None, "auto") else f"{self.server.model}:{provider}"
        try:
            async with (
                asyncio.timeout(self.server.timeout),
                self.http.stream("POST", f"{url}/{path}", json={"model": model, **body}) as response,
            ):
                content = await _read(response)
        except (TimeoutError, httpx.TimeoutException):
            raise Passing(f"the server did not answer within {self.server.timeout:g} seconds") from None
        except httpx.HTTPError as error:
            raise Passing(f"{type(error).__name__} {hide(str(error), key)}".strip()) from None
        try:
            answer = json.loads(content)
        except (ValueError, RecursionError):
            answer = None
        status = response.status_code
        if status < 300:
            return answer
        said = hide(_said(answer), key)[:_SHOWN]
        fault = f"HTTP status {status}" + (f" ({said})" if said else "")
        if status in _PASSING:
            wait = retry_after(response.headers.get("retry-after"))
            if wait is not None and wait > LONGEST_ASKED:
                raise ValueError(
                    f"{url} asks for a pause of {wait:,.0f} seconds before the next request. All answers so far are "
                    "kept; run the same command again after that time"
                )
            raise Passing(fault, wait)
        hint = _HINTS.get(status, "")
        if location := response.headers.get("location"):
            hint = f"; it redirects to {hide(location, key).partition('?')[0]}; set that address"
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
            "accept-encoding": "identity",  # a small compressed answer may expand to gigabytes
            **({} if server.key is None else {"authorization": f"Bearer {server.key.value}"}),
        },
        # Requests to near hosts bypass HTTP_PROXY, because a proxy would read the key over plain HTTP.
        mounts={f"all://[{host}]" if ":" in host else f"all://{host}": None} if is_near(host) else {},
    )


async def _read(response: httpx.Response) -> bytes:
    encoding = response.headers.get("content-encoding", "identity")
    if encoding not in ("identity", "gzip"):  # answers in other encodings may expand to any size at once
        raise Passing(f"the answer is compressed as {encoding}")
    content = bytearray()
    async for part in response.aiter_bytes():
        content += part
        if len(content) > _LARGEST:
            raise Passing(f"the answer is larger than {_LARGEST >> 10:,} kB")
    return bytes(content)


def retry_after(value: str | None) -> float | None:
    """Reads the pause in seconds from a Retry-After header, a number or a date. `None` means missing or invalid."""
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


def hide(text: str, key: Key | None) -> str:
    """Hides the key in a text, because a server may repeat the key."""
    return text if key is None else text.replace(key.value, f"[{key}]")


def _said(content: Any) -> str:
    for name in ("error", "detail", "message"):
        if isinstance(content, dict) and name in content:
            content = content[name]
    return " ".join(content.split()) if isinstance(content, str) else ""
