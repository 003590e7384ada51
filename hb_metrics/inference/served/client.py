"""Asks served models over HTTP: several requests in flight, at several addresses, again where an answer failed.

A request is asked again after faults that may pass: no connection, no answer in time, 429 and 5xx, half an answer, an
answer of another model. It waits as long as the server asks (Retry-After), else twice as long each time. What will not
pass (a wrong key, no such model) ends the run at once. Answers are never mixed up: each is read where it was asked for.
"""

import asyncio
import random
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, is_dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache
from typing import Any, NoReturn, TypeVar

import huggingface_hub
from huggingface_hub import AsyncInferenceClient, set_async_client_factory
from huggingface_hub.errors import HfHubHTTPError, InferenceTimeoutError

from hb_metrics.inference.served.addresses import KEY_VARIABLE, Key, near_hosts

# What huggingface_hub is built on, whose clients and errors have to be of the same library.
if int(huggingface_hub.__version__.split(".")[0]) >= 2:
    import httpx2 as httpx
else:
    import httpx  # type: ignore[no-redef, import-not-found, unused-ignore]

T = TypeVar("T")

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0  # seconds before a request is asked again, unless the server says
LONGEST_ASKED = 900.0  # seconds that a server may ask to wait for; longer, and the run is better resumed later
CONNECT = 30.0  # seconds until there is a connection
TRIES = 8  # of a request before the run ends
_PASSING = {408, 409, 425, 429, 500, 502, 503, 504, 520, 522, 524, 529}
_LARGEST = 2**24  # bytes of an answer: far more than any of words and log-probabilities has
_PACKED = 64  # a compressed answer, which is not asked for, has so many times fewer
_REDIRECTS = {301, 302, 303, 307, 308}
_SHOWN = 300  # characters of what a server says in an error

_HINTS = {
    401: f"; set the environment variable {KEY_VARIABLE} to a key of this server",
    403: f"; set the environment variable {KEY_VARIABLE} to a key that may use this model",
    404: "; check --base_url (mostly it ends in /v1) and --model",
}


class Passing(Exception):
    """A fault that may be over when the request is asked again, such as half an answer."""


class RefusedError(ValueError):
    """A server does not take a request as it is.

    Attributes:
        status: The HTTP status.
        said: What the server said.
    """

    def __init__(self, message: str, status: int, said: str) -> None:
        super().__init__(message)
        self.status = status
        self.said = said


@dataclass
class Cost:
    """What was asked so far, for the progress bar."""

    tokens_in: int = 0
    tokens_out: int = 0
    retries: int = 0

    def __str__(self) -> str:
        """Such as "1,200 tokens in, 340 out, 2 retries"."""
        retries = f", {self.retries:,} retries" if self.retries else ""
        return f"{self.tokens_in:,} tokens in, {self.tokens_out:,} out{retries}"


@dataclass(frozen=True, kw_only=True)
class Server:
    """Where and how a model is asked for.

    Attributes:
        model: The model asked for.
        urls: Addresses; empty for an Inference Provider.
        keys: [urls] the key that each is sent; `None`: none. Of a provider one.
        provider: The Inference Provider; `None`: addresses are asked.
        concurrency: Requests in flight at each address.
        timeout: Seconds until a request counts as not answered.
    """

    model: str
    urls: Sequence[str] = ()
    keys: Sequence[Key | None] = ()
    provider: str | None = None
    concurrency: int = 8
    timeout: float = 600.0

    @property
    def names(self) -> list[str]:
        """The addresses, or the name of the provider, as they are shown."""
        return list(self.urls) or [f"provider {self.provider}"]


@dataclass
class _Address:
    """An address while it is asked."""

    name: str
    url: str | None
    key: Key | None
    chat: AsyncInferenceClient
    http: httpx.AsyncClient
    free: asyncio.Semaphore
    ready_at: float = 0.0  # of time.monotonic(): not asked before
    waiting: int = 0
    answers: int = 0
    faults: int = 0  # since the last answer


@dataclass
class Client:
    """Asks the addresses of a server; made by `connected`."""

    server: Server
    addresses: list[_Address]
    cost: Cost = field(default_factory=Cost)
    tries: int = TRIES

    async def chat(
        self, messages: Sequence[Mapping[str, str]], fields: Mapping[str, Any], read: Callable[[Any], T], *, what: str
    ) -> T:
        """Asks for the next message of a chat.

        Args:
            messages: Its messages so far.
            fields: Arguments of `AsyncInferenceClient.chat_completion`; others under `extra_body`.
            read: Reads an answer; raises `Passing` for one that does not count.
            what: What is asked, for errors.

        Raises:
            RefusedError: The server does not take the request.
            ValueError: There is no answer to be had.
        """

        async def send(address: _Address) -> Any:
            asked: Any = [dict(message) for message in messages]
            return _plain(await address.chat.chat_completion(asked, model=self.server.model, **fields))

        return await self._ask(send, read, what)

    async def post(self, path: str, body: Mapping[str, Any], read: Callable[[Any], T], *, what: str) -> T:
        """Asks what the client of huggingface_hub has no method for, such as `completions`. Errors as `chat`."""

        async def send(address: _Address) -> Any:
            response = await address.http.post(
                f"{address.url}/{path}", json={"model": self.server.model, **body}, headers=_key_header(address.key)
            )
            if response.status_code >= 300:
                raise HfHubHTTPError(f"status {response.status_code}", response=response)
            return response.json()

        return await self._ask(send, read, what)

    async def get(self, address: _Address, path: str) -> Any:
        """What a server says of itself at a path, or `None`: it has nothing there. Asked once."""
        root = (address.url or "").removesuffix("/v1")
        try:
            async with asyncio.timeout(min(self.server.timeout, CONNECT)):
                response = await address.http.get(f"{root}/{path}", headers=_key_header(address.key))
            return response.json() if response.status_code == 200 else None
        except (httpx.HTTPError, TimeoutError, ValueError, Passing):
            return None

    def only(self, address: _Address, tries: int) -> "Client":
        """A client of one of the addresses, which asks each thing so often at most."""
        return Client(self.server, [address], self.cost, tries)

    async def _ask(self, send: Callable[[_Address], Awaitable[Any]], read: Callable[[Any], T], what: str) -> T:
        tries, pause = 0, FIRST_PAUSE
        while True:
            address = min(self.addresses, key=lambda each: (each.ready_at, each.waiting))
            address.waiting += 1
            try:
                async with address.free:
                    await asyncio.sleep(max(0.0, address.ready_at - time.monotonic()))
                    before = address.answers
                    async with asyncio.timeout(self.server.timeout):
                        answer = read(await send(address))
                address.answers += 1
                address.faults = 0
                return answer
            except Exception as error:  # noqa: BLE001 - huggingface_hub raises anything at an answer of an odd form
                fault, asked = self._fault(error, address, what)
            finally:
                address.waiting -= 1
            self.cost.retries += 1
            address.faults += 1
            if not (asked is not None and address.answers > before):  # a server that lets others through is no fault
                tries += 1
            if tries >= self.tries:
                raise ValueError(
                    f"{address.name} did not answer {what} in {tries} tries; last: {fault}. All answers so far are "
                    "kept: run the same command again to resume"
                )
            delay = pause * random.uniform(0.5, 1) if asked is None else asked
            if asked is not None or address.faults > 1:  # the address, not this request alone
                address.ready_at = max(address.ready_at, time.monotonic() + delay)
            if asked is None and len(self.addresses) == 1:
                await asyncio.sleep(delay)
            pause = min(2 * pause, LONGEST_PAUSE)

    def _fault(self, error: Exception, address: _Address, what: str) -> tuple[str, float | None]:
        """A fault that may pass in words, and the seconds that the server asks to wait.

        Raises:
            RefusedError: It will not pass.
            ValueError: The server asks to wait for longer than a run should.
        """
        if isinstance(error, InferenceTimeoutError | TimeoutError | httpx.TimeoutException):
            return f"nothing within {self.server.timeout:g} seconds", None
        if isinstance(error, HfHubHTTPError) and error.response is not None:
            status = error.response.status_code
            said = _said(error.response, address.key)
            fault = f"HTTP status {status}" + (f" ({said})" if said else "")
            if status in _PASSING:
                asked = retry_after(error.response.headers.get("retry-after"))
                if asked is not None and asked > LONGEST_ASKED:
                    raise ValueError(
                        f"{address.name} asks to wait {asked:,.0f} seconds before the next request. All answers so far "
                        "are kept: run the same command again then"
                    ) from None
                return fault, asked
            _refuse(status, said, fault, error.response.headers.get("location"), address, what)
        if isinstance(error, Passing):
            return str(error), None
        if isinstance(error, httpx.HTTPError):
            return f"{type(error).__name__} {hide(str(error), address.key)}".strip(), None
        if isinstance(error, OSError | MemoryError):  # nothing of the answer, such as HF_HUB_OFFLINE with a provider
            raise error
        if self.server.provider is not None and type(error) is ValueError:  # no such model there, or no key
            raise ValueError(f"{address.name} cannot be asked: {hide(str(error), address.key)}") from None
        return "an answer that is no JSON of the form asked for", None


def _refuse(status: int, said: str, fault: str, location: str | None, address: _Address, what: str) -> NoReturn:
    hint = _HINTS.get(status, "")
    if status in _REDIRECTS:
        hint = f"; it sends on to {hide(location or 'nowhere', address.key).partition('?')[0]}: give that address"
    raise RefusedError(f"{address.name} refuses {what}: {fault}{hint}", status, said) from None


@asynccontextmanager
async def connected(server: Server) -> AsyncIterator[Client]:
    """A client of a server, whose connections are closed at the end."""
    if server.provider is None:  # of a provider, the Hub is asked, as huggingface_hub does it
        set_async_client_factory(lambda: _http_client(server))
    addresses = []
    urls: list[str | None] = list(server.urls) or [None]
    for url, key in zip(urls, server.keys, strict=True):
        token = None if key is None else key.value
        if url is None:
            chat = AsyncInferenceClient(provider=server.provider, api_key=token, timeout=server.timeout)  # type: ignore[arg-type, unused-ignore]
        else:
            # Without a key of its own, the client would send the token of the Hub to whoever is asked.
            headers: Any = {"authorization": None} if token is None else {}
            chat = AsyncInferenceClient(base_url=url, api_key=token, timeout=server.timeout, headers=headers)
        name = url or server.names[0]
        free = asyncio.Semaphore(server.concurrency)
        addresses.append(_Address(name, url, key, chat, _http_client(server), free))
    try:
        yield Client(server, addresses)
    finally:
        for address in addresses:
            await address.chat.close()
            await address.http.aclose()


@cache
def _tls() -> ssl.SSLContext:
    """The certificates that are trusted, which take a tenth of a second to read."""
    return httpx.create_ssl_context()


def _http_client(server: Server) -> httpx.AsyncClient:
    """Not that of huggingface_hub, which asks nobody while HF_HUB_OFFLINE is set: that is about the Hub."""
    return httpx.AsyncClient(
        timeout=httpx.Timeout(server.timeout, connect=min(CONNECT, server.timeout), pool=None),
        verify=_tls(),
        limits=httpx.Limits(max_connections=server.concurrency, max_keepalive_connections=server.concurrency),
        follow_redirects=False,  # which would send prompts elsewhere
        event_hooks={"response": [_refuse_redirect, _bound]},
        headers={"accept-encoding": "identity"},  # a little may be unpacked to gigabytes
        mounts={f"all://{host}": None for host in near_hosts(server.urls)},  # without the proxy of HTTP_PROXY
    )


async def _refuse_redirect(response: httpx.Response) -> None:
    """Huggingface_hub takes any status below 400 for an answer."""
    if response.status_code in _REDIRECTS:
        await response.aread()
        raise HfHubHTTPError("sent on", response=response)


class _Bounded(httpx.AsyncByteStream):
    """The bytes of an answer, as long as they are no more than memory is for."""

    def __init__(self, stream: Any, packed: bool) -> None:
        self._stream, self._packed = stream, packed

    async def __aiter__(self) -> AsyncIterator[bytes]:
        number, largest = 0, _LARGEST // (_PACKED if self._packed else 1)
        async for part in self._stream:
            number += len(part)
            if number > largest:
                packed = " compressed" if self._packed else ""
                raise Passing(f"an answer of more than {largest >> 10:,} kB{packed}")
            yield part

    async def aclose(self) -> None:
        await self._stream.aclose()


async def _bound(response: httpx.Response) -> None:
    packed = response.headers.get("content-encoding", "identity") != "identity"
    response.stream = _Bounded(response.stream, packed)


def retry_after(value: str | None) -> float | None:
    """The seconds that a Retry-After header asks to wait, in seconds or as a date; `None`: none, or unreadable."""
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
    """A text without the key, should a server repeat it."""
    return text if key is None else text.replace(key.value, f"[{key}]")


def _plain(content: Any) -> Any:
    """An answer of huggingface_hub as JSON has it, with the fields that its classes do not know."""
    if is_dataclass(content):
        return {name: _plain(value) for name, value in vars(content).items()}
    return [_plain(value) for value in content] if isinstance(content, list) else content


def _key_header(key: Key | None) -> dict[str, str]:
    return {} if key is None else {"authorization": f"Bearer {key.value}"}


def _said(response: httpx.Response, key: Key | None) -> str:
    """What a server says about a fault, in a line."""
    try:
        content = response.json()
    except (ValueError, httpx.StreamError):
        return ""
    for name in ("error", "detail", "message"):
        if isinstance(content, dict) and name in content:
            content = content[name]
    return hide(" ".join(content.split()), key)[:_SHOWN] if isinstance(content, str) else ""
