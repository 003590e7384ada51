"""Sends requests to a server over HTTP, several at a time, and reads its errors, which have many forms.

A request is repeated after a temporary fault, such as a lost connection, a timeout, status 429 or 5xx, an incomplete
answer, or an answer from another model. The server can set the pause before the next attempt (Retry-After). If it does
not, the pause doubles with each attempt. A permanent fault, such as a wrong key, ends the run at once.

A server may repeat the user's key in any text, and its messages may contain control characters, which could change the
display of a terminal.
"""

import asyncio
import json
import random
import re
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeVar
from urllib.parse import urlsplit

import huggingface_hub

from hb_metrics.models.served.addresses import KEY_VARIABLE, Key, choose_key, is_local_host

if int(huggingface_hub.__version__.split(".")[0]) >= 2:  # huggingface_hub installs one of these packages
    import httpx2 as httpx
else:
    import httpx  # type: ignore[no-redef, import-not-found, unused-ignore]

T = TypeVar("T")
_tls_context = cache(httpx.create_ssl_context)

# The Hub's address for all Inference Providers. In requests, the provider is a part of the model's name.
ROUTER = "https://router.huggingface.co/v1"
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0  # in seconds, if the server does not set the pause
LONGEST_ASKED = 900.0  # in seconds; if the server asks for a longer pause, the run ends
CONNECT = 30.0  # the maximum number of seconds for connecting
TRIES = 8  # the maximum number of tries per request
_TIMEOUT_COST = 3  # a timeout counts as this many tries, because it takes minutes
# The maximum number of bytes per answer: a constant, and for each requested token. Valid answers are far smaller.
_LARGEST, _LARGEST_TOKEN = 2**20, 2**13
_TEMPORARY = {408, 409, 425, 429, *range(500, 600)} - {501}
_SHOWN = 300  # the maximum number of characters that are quoted from a message
# A shorter key is not a secret but a word that the server requires, such as "EMPTY". The second number is for letters.
_SECRET, _SECRET_LETTERS = 8, 20
# The keys under which an error contains its sentences. Other keys may contain prompts or replies.
_SENTENCES = re.compile("errors?|message|msg|loc|details?|title|reason|metadata|raw|code")
CONVERSATION_TOO_LONG = "conversation_too_long"  # our finish reason if the server rejects a conversation with replies
TOO_LONG = (
    r"context.?(?:length|window|size)|too (?:long|large|many tokens)|reduce the length"
    r"|\btokens?\b.*(?:exceed|max|<=)|(?:exceed|maximum|<=).*\btokens?\b"
)
# Hints, by a pattern for the statuses and sentences of the errors to which they apply.
_HINTS = {
    TOO_LONG: "if the conversation is too long for the model, lower --turns or --max_new_tokens",
    "^401|api.?key": f"set the environment variable {KEY_VARIABLE} to a key of this server",
    "^403": f"set the environment variable {KEY_VARIABLE} to a key that may use this model",
    "^404": "check --base_url (it usually ends in /v1) and --model",
}
# The sentences and codes with which Azure, OpenAI, Alibaba, DeepSeek, OpenRouter and others state that a filter blocked
# the prompt.
_FILTERED = re.compile(
    "content_?filter|content_policy|content management policy|data_?inspection|content exists risk|content violates"
    "|considered high risk|(?:input|prompt|request|content) was flagged",
    re.IGNORECASE,
)


class TemporaryFault(Exception):
    """A temporary fault, after which the request is repeated.

    `wait` is the server's requested pause, in seconds. The fault counts as `cost` attempts.
    """

    def __init__(self, fault: str, wait: float | None = None, cost: int = 1) -> None:
        super().__init__(fault)
        self.wait, self.cost = wait, cost


class RefusedError(ValueError):
    """The server rejected a request. `sentences` are the server's own."""

    def __init__(self, message: str, sentences: str) -> None:
        super().__init__(message)
        self.sentences = sentences


@dataclass
class Cost:
    tokens_in: int = 0
    tokens_out: int = 0
    retries: int = 0

    def add(self, content: Any) -> None:
        self.tokens_in += count_of(content, "prompt_tokens") or 0
        self.tokens_out += count_of(content, "completion_tokens") or 0

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


def make_server(model: str, base_url: str | None, provider: str | None, concurrency: int) -> Server:
    url = base_url or ROUTER
    return Server(model=model, url=url, key=choose_key(url), provider=provider, concurrency=concurrency)


@dataclass
class Client:
    server: Server
    http: httpx.AsyncClient
    free: asyncio.Semaphore
    cost: Cost = field(default_factory=Cost)
    tries: int = TRIES
    ready_at: float = 0.0  # the value of time.monotonic() before which no request is sent
    answers: int = 0

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
                    content = await self._send(path, body, what)
                    answer = read(content)
                self.answers += 1
                self.cost.add(content)
                return answer
            except RecursionError:
                fault = TemporaryFault("an answer that is nested too deeply")
            except TemporaryFault as error:
                fault = error
            self.cost.retries += 1
            # A busy server that answers other requests meanwhile is not faulty, so the attempt does not count.
            if fault.wait is None or self.answers == before:
                tries, left = tries + 1, left - fault.cost
            if left <= 0:
                raise ValueError(
                    f"{self.server.url} did not answer {what} in {tries} attempts (last error: {fault}). All "
                    "answers so far are saved; to resume, run the same command again"
                )
            if fault.cost > 1:
                print(f"{self.server.url}: {fault}; the request is sent again", file=sys.stderr, flush=True)
            if not fault.wait:  # also if the server allows a request at once, because it may do so several times
                await asyncio.sleep(pause * random.uniform(0.5, 1))
                pause = min(2 * pause, LONGEST_PAUSE)
            else:
                self.ready_at = max(self.ready_at, time.monotonic() + fault.wait)

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
        except TimeoutError:
            fault = f"the server did not answer within {self.server.timeout:g} seconds"
            raise TemporaryFault(fault, cost=_TIMEOUT_COST) from None
        except httpx.HTTPError as error:
            raise TemporaryFault(f"{type(error).__name__} {printable(str(error), key)}".strip()) from None
        status, answer = response.status_code, _parsed(content, key)
        rejection = answer if status >= 300 else _error_in(answer)
        if rejection is None:
            return answer
        if status < 300 and isinstance(answer, str):
            raise TemporaryFault("an answer that is not JSON")
        sentences = "; ".join(dict.fromkeys(_sentences(rejection)))
        if status < 500 and _FILTERED.search(sentences):
            return {"choices": [{"message": {}, "finish_reason": "content_filter"}]}
        has_replies = any(message["role"] == "assistant" for message in body.get("messages", ()))
        if status in (400, 413, 422) and has_replies and re.search(TOO_LONG, sentences, re.IGNORECASE):
            # Conversations differ in length, so one that is too long must not end a run whose other turns are paid.
            return {"choices": [{"message": {}, "finish_reason": CONVERSATION_TOO_LONG}]}
        shown = printable(sentences, key)
        fault = f"HTTP status {status}" if status >= 300 else "an error instead of an answer"
        fault += f" ({shown})" if shown else ""
        status = status if status >= 300 else _code_of(rejection)
        if status in _TEMPORARY:
            wait = _seconds(response.headers.get("retry-after"))
            if wait is not None and wait > LONGEST_ASKED:
                raise ValueError(
                    f"{url} asks for a pause of {wait:,.0f} seconds before the next request. All answers so far are "
                    "saved; run the same command again after that time"
                )
            raise TemporaryFault(fault, wait)
        hints = [hint for pattern, hint in _HINTS.items() if re.search(pattern, f"{status} {shown}", re.IGNORECASE)]
        if location := response.headers.get("location"):
            hints = [f"it redirects to {printable(location, key).partition('?')[0]}; use this address instead"]
        raise RefusedError("; ".join([f"{url} rejects {what}: {fault}", *hints]), shown)


@asynccontextmanager
async def connected(server: Server) -> AsyncIterator[Client]:
    host = urlsplit(server.url).hostname or ""
    async with httpx.AsyncClient(
        timeout=httpx.Timeout(None, connect=CONNECT),  # the client itself limits the time of a request
        verify=_tls_context(),
        limits=httpx.Limits(max_connections=server.concurrency, max_keepalive_connections=server.concurrency),
        follow_redirects=False,  # a redirect would send the prompts and the key to another address
        headers={
            "accept-encoding": "identity",  # no compression, because a small answer could expand to gigabytes
            **({} if server.key is None else {"authorization": f"Bearer {server.key.value}"}),
        },
        # Requests to hosts in the local network are not sent to a proxy, because it could read the key.
        mounts={f"all://[{host}]" if ":" in host else f"all://{host}": None} if is_local_host(host) else {},
    ) as http:
        yield Client(server, http, asyncio.Semaphore(server.concurrency))


async def _read(response: httpx.Response, largest: int) -> bytes:
    encoding = response.headers.get("content-encoding", "identity")
    if encoding not in ("identity", "gzip"):  # other encodings may expand to any size before the check below
        raise TemporaryFault(f"the answer is compressed as {printable(encoding)}")
    content = bytearray()
    async for part in response.aiter_bytes():
        content += part
        if len(content) > largest:
            raise TemporaryFault(f"the answer is larger than {largest >> 10:,} kB")
    return bytes(content)


def printable(text: str, key: Key | None = None) -> str:
    """Returns the beginning of a text on one line, without the key, control characters and unpaired surrogates."""
    kept = (letter if letter.isprintable() else " " for letter in _hide(text, key)[: 2 * _SHOWN])
    return " ".join("".join(kept).split())[:_SHOWN]


def _parsed(content: bytes, key: Key | None) -> Any:
    """Returns the content of a JSON text, or of a text that is not JSON, without the key and without a web page."""
    text = content.decode(errors="replace")
    try:
        answer = json.loads(text)
    except (ValueError, RecursionError):
        answer = text.partition("<")[0]
    if key is None or len(key.value) < (_SECRET_LETTERS if key.value.isalpha() else _SECRET):
        return answer
    return _without(key, answer)  # only now, because JSON may escape characters of the key


def _without(key: Key, content: Any) -> Any:
    if isinstance(content, dict):
        return {_hide(name, key): _without(key, value) for name, value in content.items()}
    if isinstance(content, list):
        return [_without(key, value) for value in content]
    return _hide(content, key) if isinstance(content, str) else content


def _hide(text: str, key: Key | None) -> str:
    return text if key is None else text.replace(key.value, f"[{key.variable}]")


def _error_in(answer: Any) -> Any:
    """Returns the error in an answer with status 200, in which routers report their backends' errors."""
    if not isinstance(answer, dict) or not isinstance(answer.get("choices"), list):
        return answer
    choices = [choice for choice in answer["choices"] if isinstance(choice, dict)]
    parts = [answer, *choices, *(choice.get("message") for choice in choices)]
    return next((part["error"] for part in parts if isinstance(part, dict) and part.get("error")), None)


def _code_of(error: Any) -> int:
    """Returns the HTTP status that an error contains, or 500 if it contains none."""
    content = error if isinstance(error, dict) else {}
    content = content["error"] if isinstance(content.get("error"), dict) else content
    return int(content["code"]) if re.fullmatch("[45][0-9]{2}", str(content.get("code"))) else 500


def _sentences(error: Any) -> Iterator[str]:
    if isinstance(error, dict):
        fields = [name for name, value in error.items() if isinstance(value, list)]  # lists of faults by field
        error = [error[name] for name in list(filter(_SENTENCES.fullmatch, error)) or fields]
    if isinstance(error, list):
        for part in error:
            yield from _sentences(part)
    elif isinstance(error, str):
        yield error


def count_of(content: Any, name: str) -> int | None:
    """Returns a number of tokens from an answer's `usage`, or `None` if it contains no valid number."""
    usage = content.get("usage") if isinstance(content, dict) else None
    value = usage.get(name) if isinstance(usage, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31 else None


def _seconds(value: str | None) -> float | None:
    """Returns the pause in a Retry-After header. A date counts as no pause."""
    try:
        return max(0.0, float(value or ""))
    except ValueError:
        return None
