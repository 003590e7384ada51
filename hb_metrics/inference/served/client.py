"""Sends requests to a server over HTTP, several at a time.

A request is repeated after a temporary fault, such as a lost connection, a timeout, status 429 or 5xx, an incomplete
answer, or an answer from another model. The server can set the pause before the next attempt (Retry-After). If it does
not, the pause doubles with each attempt. A permanent fault, such as a wrong key, ends the run at once.
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

from hb_metrics.inference.served.addresses import KEY_VARIABLE, Key, is_local_host

if int(huggingface_hub.__version__.split(".")[0]) >= 2:  # huggingface_hub installs one of these packages
    import httpx2 as httpx
else:
    import httpx  # type: ignore[no-redef, import-not-found, unused-ignore]

T = TypeVar("T")

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0  # in seconds, if the server does not set the pause
LONGEST_ASKED = 900.0  # in seconds; if the server asks for a longer pause, the run ends
CONNECT = 30.0  # the maximum number of seconds for connecting
TRIES = 8  # the maximum number of tries per request
NO_ANSWER = "an answer that is not JSON of the expected form"
_TEMPORARY = {408, 409, 425, 429, 500, 502, 503, 504, 520, 522, 524, 529}
_LARGEST = 2**24  # the maximum number of bytes per answer; valid answers are far smaller
_SHOWN = 300  # the maximum number of characters that an error quotes from a server's message

_HINTS = {
    400: "; if the conversation is too long for the model, lower --turns or --max_new_tokens",
    401: f"; set the environment variable {KEY_VARIABLE} to a key of this server",
    403: f"; set the environment variable {KEY_VARIABLE} to a key that may use this model",
    404: "; check --base_url (it usually ends in /v1) and --model",
}


class TemporaryFault(Exception):
    """A temporary fault, after which the request is repeated. `wait` is the server's requested pause, in seconds."""

    def __init__(self, fault: str, wait: float | None = None) -> None:
        super().__init__(fault)
        self.wait = wait


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

    async def post(self, path: str, body: Mapping[str, Any], read: Callable[[Any], T], *, what: str) -> T:
        """Requests an answer, and repeats the request after temporary faults. Returns the result of `read`.

        `read` takes the JSON content of the answer, and raises `TemporaryFault` if it is invalid. `what` is the noun
        phrase for the request in error messages.

        Raises:
            RefusedError: The server rejected the request.
            ValueError: The server did not answer within the allowed number of attempts, or asked for a pause that is
                too long.
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
            except TemporaryFault as error:
                fault, asked = str(error), error.wait
            self.cost.retries += 1
            self.faults += 1
            # A busy server that answers other requests meanwhile is not faulty, so the attempt does not count.
            if not (asked is not None and self.answers > before):
                tries += 1
            if tries >= self.tries:
                raise ValueError(
                    f"{self.server.url} did not answer {what} in {tries} attempts (last error: {fault}). All "
                    "answers so far are saved; to resume, run the same command again"
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
            raise TemporaryFault(f"the server did not answer within {self.server.timeout:g} seconds") from None
        except httpx.HTTPError as error:
            raise TemporaryFault(f"{type(error).__name__} {hide(str(error), key)}".strip()) from None
        try:
            answer = json.loads(content)
        except (ValueError, RecursionError):
            answer = None
        status = response.status_code
        said = hide(_said(answer), key)[:_SHOWN]
        if status < 300:
            if isinstance(answer, dict) and answer.get("error"):  # some routers report their backend's faults this way
                raise TemporaryFault(f"an error instead of an answer ({said})")
            return answer
        fault = f"HTTP status {status}" + (f" ({said})" if said else "")
        if status in _TEMPORARY:
            wait = retry_after(response.headers.get("retry-after"))
            if wait is not None and wait > LONGEST_ASKED:
                raise ValueError(
                    f"{url} asks for a pause of {wait:,.0f} seconds before the next request. All answers so far are "
                    "saved; run the same command again after that time"
                )
            raise TemporaryFault(fault, wait)
        hint = _HINTS.get(status, "")
        if location := response.headers.get("location"):
            hint = f"; it redirects to {hide(location, key).partition('?')[0]}; use this address instead"
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


async def _read(response: httpx.Response) -> bytes:
    encoding = response.headers.get("content-encoding", "identity")
    if encoding not in ("identity", "gzip"):  # other encodings may expand to any size before the check below
        raise TemporaryFault(f"the answer is compressed as {encoding}")
    content = bytearray()
    async for part in response.aiter_bytes():
        content += part
        if len(content) > _LARGEST:
            raise TemporaryFault(f"the answer is larger than {_LARGEST >> 10:,} kB")
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


def hide(text: str, key: Key | None) -> str:
    """Removes the key from a text, because a server's message may contain it."""
    return text if key is None else text.replace(key.value, f"[{key}]")


def _said(content: Any) -> str:
    for name in ("error", "detail", "message"):
        if isinstance(content, dict) and name in content:
            content = content[name]
    return " ".join(content.split()) if isinstance(content, str) else ""
