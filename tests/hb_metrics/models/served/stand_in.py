"""A server of an OpenAI-compatible interface for tests, on loopback: honest by default, and as bad as a test wants it.

Its "model" writes words drawn from a list by what it is asked: the same words for the same chat, seed and settings, as
a model would; one word is one token. Log-probabilities are those that a function gives.
"""

import hashlib
import json
import math
import random
import socket
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from hb_metrics.models.served.client import httpx

_WORDS = """apple river candle stone garden window silver ladder pepper cloud bridge violin orange meadow lantern copper
harbor pillow marble thunder basket walnut ribbon glacier"""
WORDS = _WORDS.split()
MODEL = "org/stand-in"


class StandIn:
    """What the server does, and what it was asked.

    Attributes:
        requests: (path, body, headers) of each request, in the order in which they came.
        faults: What becomes of a request: given its number and its body, a fault of `_Handler`, or None. With faults or
            a delay, requests come through sockets; others are answered in this process, which is ten times faster.
        ignores: Fields that it takes and passes over.
        refuses: Fields that it answers with status 400.
        thinks: None, "apart" or "in the text".
        score: text -> (tokens, log-probabilities) of a prompt; None: it gives none. Also (token, log-probability) of
            what it would write next, as `score.next`.
        preamble: Words that every answer begins with.
        temperature: At which it draws, whatever it is asked; None: at what it is asked. Of two words, the next is the
            likelier one with a probability that falls with the temperature.
        replies: What the words are drawn by beside the request: another model draws others.
    """

    def __init__(self, **settings):
        self.requests, self.served = [], 0
        self.faults = None
        self.ignores, self.refuses = set(), set()
        self.thinks, self.score, self.weights, self.model = None, None, 0, MODEL
        self.preamble, self.temperature = [], None
        self.lock = threading.Lock()
        self.in_flight = self.most_in_flight = 0
        self.delay = 0.0
        vars(self).update(settings)

    def chat(self, body):
        words, ended = self.words(body["messages"], body)
        message = {"role": "assistant", "content": " ".join(words)}
        if self.thinks:
            thought, reply = words[: len(words) // 2], " ".join(words[len(words) // 2 :])
            if self.thinks == "apart":
                message |= {"content": reply, "reasoning_content": " ".join(thought)}
            else:
                message["content"] = f"<think>{' '.join(thought)}</think>\n\n{reply}"
        prompt = sum(len(each["content"].split()) + 2 for each in body["messages"])
        return self.envelope({"index": 0, "message": message}, prompt, len(words), ended)

    def completion(self, body):
        if self.score and "echo" in body:
            tokens, values = self.score(body["prompt"])
            token, value = getattr(self.score, "next", lambda text: (" apple", -1.5))(body["prompt"])
            found = {"tokens": [*tokens, token], "token_logprobs": [*values, value]}
            return self.envelope({"text": body["prompt"] + token, "logprobs": found}, len(tokens), 1, "length")
        words, ended = self.words(body["prompt"], body)
        return self.envelope({"text": " ".join(words)}, len(body["prompt"].split()), len(words), ended)

    def words(self, prompt, body):
        fields = {name: value for name, value in body.items() if name not in self.ignores}
        temperature = fields.get("temperature", 1) if self.temperature is None else self.temperature
        drawn = temperature > 0 and fields.get("top_p", 1) > 0.01 and fields.get("top_k") != 1
        key = json.dumps([self.weights, prompt])
        generator = random.Random(hashlib.sha256(key.encode()).hexdigest())
        words = [generator.sample(WORDS, 2) for _ in range(generator.randint(20, 30))]
        seed = fields.get("seed", random.random()) if drawn else None
        choice = random.Random(f"{key}{seed}")
        likelier = 1 / (1 + math.exp(-1 / max(temperature, 0.01)))  # of two whose logits are 1 apart
        words = [pair[drawn and choice.random() > likelier] for pair in words]
        words = [*self.preamble, *words]
        most = fields.get("max_tokens", fields.get("max_completion_tokens", 30))
        return words[:most], "length" if len(words) > most else "stop"

    def envelope(self, choice, num_prompt, num_tokens, ended):
        return {
            "id": "1",
            "object": "an answer",
            "created": 1,
            "model": self.model,
            "choices": [{"index": 0, "finish_reason": ended, **choice}],
            "usage": {
                "prompt_tokens": num_prompt,
                "completion_tokens": num_tokens,
                "total_tokens": num_prompt + num_tokens,
            },
        }


def with_choice(content, **fields):
    return {**content, "choices": [{**content["choices"][0], **fields}]}


# What some faults make of an answer.
CHANGED = {
    "torn": lambda content: json.dumps(content).encode()[:-20],  # the length is right, and the content is not whole
    "other model": lambda content: {**content, "model": "org/other"},
    "bad counts": lambda content: {**content, "usage": {"prompt_tokens": -3, "completion_tokens": -1}},
    "unfinished": lambda content: with_choice(content, finish_reason=None),
    "filtered": lambda content: with_choice(content, finish_reason="content_filter", message={"content": None}),
    "refused": lambda content: with_choice(content, message={"content": None, "refusal": "Not this one."}),
    "a page": lambda content: b"<html>Sign in</html>",
    "empty": lambda content: b"",
}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # headers and body are two writes, and the second would wait for 40 ms

    def do_POST(self):
        content = self.rfile.read(int(self.headers["content-length"]))
        self.take(self.server.stand_in, json.loads(content), dict(self.headers))

    def take(self, stand_in, body, headers):
        with stand_in.lock:
            number = len(stand_in.requests)
            stand_in.requests.append((self.path, body, headers))
            stand_in.in_flight += 1
            stand_in.most_in_flight = max(stand_in.most_in_flight, stand_in.in_flight)
        try:
            self.answer(stand_in, number, body)
        finally:
            with stand_in.lock:
                stand_in.in_flight -= 1

    def answer(self, stand_in, number, body):
        if stand_in.delay:
            time.sleep(stand_in.delay)
        refused = stand_in.refuses & set(body)
        if refused:
            hint = "; use max_completion_tokens" if "max_tokens" in refused else ""
            return self.send(400, {"error": {"message": f"unknown fields: {', '.join(sorted(refused))}{hint}"}})
        fault = stand_in.faults and stand_in.faults(number, body)
        known = {"/v1/chat/completions": stand_in.chat, "/v1/completions": stand_in.completion}
        if self.path not in known:
            return self.send(404, {"detail": "Not Found"})
        content = known[self.path](body)
        if fault is None:
            stand_in.served += 1
            return self.send(200, content)
        if isinstance(fault, dict):
            return self.send(fault.pop("status"), fault.pop("body", {"error": "a fault"}), **fault)
        if fault in CHANGED:
            return self.send(200, CHANGED[fault](content))
        if fault == "silent":
            time.sleep(30)
        elif fault == "half":
            data = json.dumps(content).encode()
            self.send_response(200)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data[: len(data) // 2])
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)
        return None

    def send(self, status, content, **headers):
        self.send_raw(status, content if isinstance(content, bytes) else json.dumps(content).encode(), **headers)

    def send_raw(self, status, data, **headers):
        self.send_response(status)
        for name, value in {"content-type": "application/json", "content-length": str(len(data)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


class _Here(_Handler):
    """Answers one request without sockets; what it sends is its `sent`."""

    def __init__(self, path):
        self.path = path

    def send_raw(self, status, data, **headers):
        self.sent = httpx.Response(status, content=data, headers=headers)


_on_sockets, _STAND_INS = httpx.AsyncHTTPTransport.handle_async_request, {}


async def _handled(transport, request):
    stand_in = _STAND_INS.get(request.url.port)
    if stand_in is None or stand_in.faults or stand_in.delay:
        return await _on_sockets(transport, request)
    here = _Here(request.url.path)
    here.take(stand_in, json.loads(request.content), dict(request.headers))
    return here.sent


class _Server(ThreadingHTTPServer):
    daemon_threads, block_on_close = True, False

    def handle_error(self, request, client_address):
        pass  # a client that has gone away


@contextmanager
def serving(stand_in, port=0):
    """Serves while this lasts; the address ends in /v1."""
    server = _Server(("127.0.0.1", port), _Handler)
    server.stand_in = _STAND_INS[server.server_port] = stand_in
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(httpx.AsyncHTTPTransport, "handle_async_request", _handled)
            yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        del _STAND_INS[server.server_port]
        server.shutdown()
        server.server_close()
        thread.join()
