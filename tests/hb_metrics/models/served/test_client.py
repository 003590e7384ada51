"""The client, against a server that does everything wrong at least once."""

import asyncio
import gzip
import re
import socketserver
import threading
import time
import traceback
from functools import partial

import pytest

from hb_metrics.models.served.addresses import Key
from hb_metrics.models.served.answers import check_model, read_served_answer
from hb_metrics.models.served.client import (
    TRIES,
    Client,
    RefusedError,
    Server,
    TemporaryFault,
    connected,
    make_server,
)
from hb_metrics.models.served.probe import probe
from tests.hb_metrics.models.served.stand_in import MODEL, StandIn, serving

PATH = "chat/completions"
FIELDS = {"max_tokens": 20, "temperature": 0.0}


def read(content):
    answer = read_served_answer(content, max_tokens=20)
    check_model(answer.model, MODEL)
    return answer


def ask(url, number=1, *, key=None, timeout=60.0, concurrency=4, reader=read):
    """Answers to so many chats, asked together, and what they cost."""
    server = Server(model=MODEL, url=url, key=key, timeout=timeout, concurrency=concurrency)

    async def run():
        async with connected(server) as client:
            chats = [[{"role": "user", "content": f"Hi {row}"}] for row in range(number)]
            asked = [{"messages": chat, **FIELDS} for chat in chats]
            sent = (client.post(PATH, body, reader, what=f"prompt '{row}'") for row, body in enumerate(asked))
            return await asyncio.gather(*sent), client.cost

    return asyncio.run(run())


def expected(stand_in, number):
    bodies = [{"messages": [{"role": "user", "content": f"Hi {row}"}], **FIELDS} for row in range(number)]
    return [stand_in.chat(body)["choices"][0]["message"]["content"] for body in bodies]


def once(fault, *numbers):
    """A fault of the requests with these numbers."""
    return lambda number, body: fault() if number in numbers else None


def test_answers_are_those_to_what_was_asked_however_many_are_in_flight():
    stand_in = StandIn(delay=0.01)
    with serving(stand_in) as url:
        answers, cost = ask(url, 30)

    assert [answer.text for answer in answers] == expected(stand_in, 30)
    assert len(set(expected(stand_in, 30))) == 30
    assert cost.retries == 0
    assert 2 <= stand_in.most_in_flight <= 4
    _, body, _ = next(each for each in stand_in.requests if "Hi 7" in str(each))
    assert body == {"model": MODEL, "messages": [{"role": "user", "content": "Hi 7"}], **FIELDS}


BUSY = {"error": {"message": "busy", "code": "content_filter_error"}}


@pytest.mark.parametrize("fault", [partial(dict, status=503, body=BUSY), lambda: "half", lambda: "cut off"])
def test_what_may_pass_is_asked_again(fault):
    stand_in = StandIn(faults=once(fault, 1, 2, 5))
    with serving(stand_in) as url:
        answers, cost = ask(url, 6)

    assert [answer.text for answer in answers] == expected(stand_in, 6)
    assert cost.retries == 3
    assert len(stand_in.requests) == 9


def test_a_server_that_never_ends_is_asked_again_and_soon_given_up(capsys):
    stand_in = StandIn(faults=once(lambda: "silent", 1))
    with serving(stand_in) as url:
        answers, cost = ask(url, 6, timeout=1)

    assert [answer.text for answer in answers] == expected(stand_in, 6)
    assert cost.retries >= 1  # more where this machine is so busy that an answer took as long
    assert f"{url}: the server did not answer within 1 seconds; the request is sent again" in capsys.readouterr().err
    with (
        serving(StandIn(faults=lambda number, body: "silent")) as url,
        pytest.raises(ValueError, match=r"did not answer prompt '0' in 3 attempts \(last error: .* within 0.1 seconds"),
    ):
        ask(url, timeout=0.1)


def test_a_server_is_not_asked_before_it_wants_to_be():
    stand_in = StandIn(faults=once(partial(dict, status=429, retry_after="0.3"), 0))
    with serving(stand_in) as url:
        started = time.perf_counter()
        ask(url, 3, concurrency=1)
    assert time.perf_counter() - started >= 0.3
    assert len(stand_in.requests) == 4


def test_a_server_that_allows_requests_at_once_is_still_given_time(monkeypatch):
    monkeypatch.setattr("hb_metrics.models.served.client.FIRST_PAUSE", 0.1)
    stand_in = StandIn(faults=once(partial(dict, status=429, retry_after="0"), 0, 1))
    with serving(stand_in) as url:
        started = time.perf_counter()
        ask(url)
    assert time.perf_counter() - started >= 0.05  # at least half of the first pause


def test_a_server_that_slows_down_but_answers_is_not_given_up(monkeypatch):
    """The first request is rejected fourteen times, each time while the server answers another."""
    others, sent = 14, 0

    async def send(client, path, body, what):
        nonlocal sent
        row = int(body["messages"][0]["content"].removeprefix("Hi "))
        if row == 0:
            sent += 1
        while client.answers < min(sent, others) if row == 0 else sent < row:
            await asyncio.sleep(0)
        if row == 0 and sent <= others:
            raise TemporaryFault("HTTP status 429", 0.0)
        return row

    monkeypatch.setattr(Client, "_send", send)
    answers, cost = ask("http://localhost/v1", others + 1, concurrency=others + 1, reader=int)
    assert answers == list(range(others + 1))
    assert cost.retries == others > TRIES


def test_a_wait_that_is_too_long_ends_the_run():
    stand_in = StandIn(faults=lambda number, body: {"status": 429, "retry_after": "90000"})
    with serving(stand_in) as url, pytest.raises(ValueError, match=r"asks for a pause of 90,000 seconds"):
        ask(url)


TURNS, KEY, ADDRESS = "lower --turns or --max_new_tokens", "HOLISTIC_BIAS_API_KEY to a key", "check --base_url"
EXTRA = {"type": "extra_forbidden", "loc": ["body", "seed"], "msg": "not permitted", "input": "the prompt"}
TOO_LONG = [
    "This model's maximum context length is 8192 tokens.",
    "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000",
    "prompt is too long: 210000 tokens > 200000",
    "Please reduce the length of the messages or completion.",
    "The input token count (1200000) exceeds the maximum number of tokens allowed",
]


@pytest.mark.parametrize(
    ("status", "body", "said", "hint"),
    [
        (307, {}, None, "https://else.where/v1; use"),
        (400, {"error": {"message": "bad temperature", "code": "bad"}}, "bad temperature; bad", None),
        (400, {"error": {"message": "bad \x1b[2J\u202e\ud83d\nwords"}}, "bad [2J words", None),
        (403, {"message": "a fault"}, "a fault", "a key that may use this model"),
        (404, {"detail": "no such model"}, "no such model", ADDRESS),
        (404, b"<html>Not found</html>", None, ADDRESS),
        (422, {"detail": [EXTRA]}, "body; seed; not permitted", None),
        (400, [{"error": {"code": 400, "message": "API key not valid.", "status": "X"}}], "API key not valid.", KEY),
        (400, {"error": {"message": "from below", "metadata": {"raw": "why"}}}, "from below; why", None),
        (400, {"model": ["This field is wrong."]}, "This field is wrong.", None),
        (400, {"error": "in this context, stop has length 4"}, "in this context, stop has length 4", None),
        (200, {"error": {"code": 401, "message": "who?"}}, "who?", KEY),
        (200, {"choices": [{"error": {"code": 402, "message": "no money"}}]}, "no money", None),
        *((400, {"error": {"message": message}}, message, TURNS) for message in TOO_LONG),
    ],
)  # fmt: skip
def test_what_will_not_pass_is_asked_once_and_its_reason_is_shown(status, body, said, hint):
    header = {"location": "https://else.where/v1?key=s3cret"} if status == 307 else {}
    stand_in = StandIn(faults=lambda number, content: {"status": status, "body": body, **header})
    with serving(stand_in) as url, pytest.raises(RefusedError) as error:
        ask(url)

    fault = "an error instead of an answer" if status == 200 else f"HTTP status {status}"
    shown = str(error.value)
    assert len(stand_in.requests) == 1
    assert shown.startswith(f"{url} rejects prompt '0': {fault}" + (f" ({said})" if said else ""))
    assert ("; " in shown.partition(said or fault)[2]) == (hint is not None)
    assert (hint or "") in shown
    assert shown.isprintable()
    assert "s3cret" not in shown


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, {"code": "content_filter", "message": "management policy"}),  # Azure
        (200, {"code": "content_filter", "message": "management policy"}),
        (400, {"code": "data_inspection_failed", "message": "inappropriate"}),  # Alibaba
        (403, {"code": 403, "message": "requires moderation and your input was flagged"}),  # OpenRouter
    ],
)
def test_a_filter_is_not_taken_for_a_fault(status, error):
    stand_in = StandIn(faults=lambda number, body: {"status": status, "body": {"error": error}})
    with serving(stand_in) as url:
        answers, _ = ask(url, reader=partial(read_served_answer, max_tokens=20))
    assert [(answer.text, answer.ending) for answer in answers] == [(None, "filtered")]
    assert len(stand_in.requests) == 1


BOMB = gzip.compress(bytes(2**21))


def answering(body, **headers):
    return partial(dict, status=200, body=body, **headers)


@pytest.mark.parametrize(
    ("fault", "named"),
    [
        (partial(dict, status=500), "HTTP status 500 (a fault)"),
        (answering({"error": {"message": "busy"}}), "an error instead of an answer (busy)"),
        (answering({"choices": [{"error": {"code": 502}}]}), "an error instead of an answer"),
        (answering({"choices": [{"message": {"error": "x"}}]}), "an error instead of an answer (x)"),
        (answering(b"[" * 2**17), "an answer that is not JSON"),
        # 64 kB, and 8 kB for each of 20 tokens
        (answering(BOMB, content_encoding="gzip"), "the answer is larger than 224 kB"),
        (answering({}, content_encoding="br"), "the answer is compressed as br"),
        (lambda: "other model", f"the answer comes from model 'org/other', but earlier answers came from '{MODEL}'"),
        (lambda: "unfinished", "the answer does not state why it ended"),
        (lambda: "a page", "an answer that is not JSON)"),
        (lambda: "torn", "an answer that is not JSON)"),  # no reply is shown
        (answering({"message": {"content": "a reply"}}), "an error instead of an answer"),
    ],
)
def test_a_server_that_does_not_answer_is_given_up_by_name(fault, named, monkeypatch):
    monkeypatch.setattr("hb_metrics.models.served.client._LARGEST", 2**16)
    stand_in = StandIn(faults=lambda number, body: fault())
    with (
        serving(stand_in) as url,
        pytest.raises(ValueError, match=re.escape(f"in {TRIES} attempts (last error: {named}")),
    ):
        ask(url)

    assert len(stand_in.requests) == TRIES


def test_an_answer_that_is_nested_too_deeply_is_asked_for_again():
    def nested(content):
        raise RecursionError

    with serving(StandIn()) as url, pytest.raises(ValueError, match="an answer that is nested too deeply"):
        ask(url, reader=nested)


def test_nobody_at_an_address_is_named():
    with serving(StandIn()) as url:
        pass
    with pytest.raises(ValueError, match=f"{url} did not answer prompt '0' in 8 attempts .*: ConnectError"):
        ask(url)


class TestKeys:
    @pytest.mark.parametrize("word", ["a", "umbrellas"])
    def test_a_key_that_is_only_a_word_changes_no_reply(self, word):
        stand_in = StandIn(preamble=["umbrellas"])
        with serving(stand_in) as url:
            (answer,), _ = ask(url, key=Key(word, "KEY"))
        assert [answer.text] == expected(stand_in, 1)

    @pytest.mark.parametrize("value", ["s3cret-key", "passphrase"])  # the second may be a word in a reply
    @pytest.mark.parametrize("status", [401, 500])
    def test_a_key_that_a_server_repeats_is_not_shown(self, status, value):
        fault = {"error": {"message": f"Incorrect API key: {value}"}}
        stand_in = StandIn(faults=lambda number, body: {"status": status, "body": fault})
        with serving(stand_in) as url, pytest.raises(ValueError, match="Incorrect API key") as error:
            ask(url, key=Key(value, "HOLISTIC_BIAS_API_KEY"))

        assert value not in "".join(traceback.format_exception(error.value))
        assert "Incorrect API key: [HOLISTIC_BIAS_API_KEY]" in str(error.value)

    @pytest.mark.parametrize("escaped", [rb"abc\/def+ghi=12345678", rb"abc/def\u002bghi=12345678"])
    def test_a_key_whose_characters_json_escapes_is_not_read(self, escaped):
        body = b'{"choices": [{"message": {"content": "Hi %s"}, "finish_reason": "stop"}]}' % escaped
        stand_in = StandIn(faults=lambda number, content: {"status": 200, "body": body})
        with serving(stand_in) as url:
            key = Key("abc/def+ghi=12345678", "KEY")
            (answer,), _ = ask(url, key=key, reader=partial(read_served_answer, max_tokens=20))
        assert answer.text == "Hi [KEY]"


@pytest.mark.parametrize(("provider", "asked"), [("auto", MODEL), ("novita", f"{MODEL}:novita")])
def test_an_inference_provider_is_named_with_the_model(provider, asked, monkeypatch):
    monkeypatch.setenv("HOLISTIC_BIAS_API_KEY", "own-key")
    stand_in = StandIn()
    with serving(stand_in) as url:
        monkeypatch.setattr("hb_metrics.models.served.client.ROUTER", url)
        server = make_server(MODEL, None, provider, 4)

        async def run():
            async with connected(server) as client:
                return await probe(client, chat=True, extra={})

        assert asyncio.run(run()).base_url is None
    assert server.where == f"provider {provider}"
    assert {(body["model"], headers["authorization"]) for _, body, headers in stand_in.requests} == {
        (asked, "Bearer own-key")
    }
    assert {path for path, _, _ in stand_in.requests} == {"/v1/chat/completions"}


@pytest.mark.parametrize("host", ["nobody.internal", "127.0.0.2"])
def test_a_key_for_a_near_host_never_reaches_the_proxy(host, monkeypatch):
    asked = []

    class Proxy(socketserver.StreamRequestHandler):
        def handle(self):
            asked.append(self.rfile.readline())

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Proxy) as proxy:
        threading.Thread(target=proxy.serve_forever, kwargs={"poll_interval": 0.02}).start()
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{proxy.server_address[1]}")
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{proxy.server_address[1]}")
        monkeypatch.delenv("NO_PROXY", raising=False)
        monkeypatch.delenv("no_proxy", raising=False)
        with pytest.raises(ValueError, match="did not answer"):
            ask(f"http://{host}:9/v1", key=Key("own-key", "KEY"), timeout=0.5)
        proxy.shutdown()
    assert asked == []
