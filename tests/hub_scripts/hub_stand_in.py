"""A small Hugging Face Hub on loopback: what `huggingface_hub`, `datasets` and `evaluate` ask of it, over real HTTP.

It keeps model, dataset and Space repositories with branches, commits, tags and pull requests as git would: commits are
whole trees with parents and never change, a file's oid is the sha1 of its git blob, and large or binary files are known
by their sha256. They go by git-lfs (basic transfer), which `environment` tells clients with HF_HUB_DISABLE_XET=1, or by
Xet, as clients do of themselves (hub_xet.py).

Tests read what it holds (`hub.repo("dataset", "ORG/name").files("v1.0")`), let others commit meanwhile
(`.commit({"README.md": b"..."})`) and make requests fail (`hub.fail_next`, `hub.cut_next`). `hub.requests` is the log.

Not here: private and gated repositories, downloads by Xet, moving and deleting repositories, pages of long lists.
"""

import http.server
import json
import re
import secrets
import socket
import struct
import threading
import traceback
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

from tests.hub_scripts.hub_endpoints import ENDPOINTS, Answer, Request, User
from tests.hub_scripts.hub_repositories import Refused, Repo


class Seen(NamedTuple):
    """A request in the log."""

    method: str
    path: str  # with the query
    authorized: bool  # whether it had an Authorization header


class Fault(NamedTuple):
    method: str
    path: re.Pattern
    status: int = 0
    headers: Mapping[str, str] = MappingProxyType({})
    cut: Literal["request", "answer"] | None = None
    meanwhile: Callable[[], object] | None = None


@dataclass
class Hub:
    """The Hub. `with Hub() as hub:` starts it on a free port."""

    # Three accounts' tokens: one that may write in ORG, the same with a token that can only read, and somebody without
    # rights in ORG, who can open pull requests.
    token: str = field(default_factory=lambda: "hf_" + secrets.token_hex(17))
    read_token: str = field(default_factory=lambda: "hf_" + secrets.token_hex(17))
    other_token: str = field(default_factory=lambda: "hf_" + secrets.token_hex(17))
    requests: list[Seen] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)  # tracebacks of the stand-in itself: there should be none

    def __post_init__(self):
        self.users = {
            self.token: User("maintainer", "write", ("maintainer", "ORG")),
            self.read_token: User("maintainer", "read", ()),
            self.other_token: User("contributor", "write", ("contributor",)),
        }
        self.repos: dict[tuple[str, str], Repo] = {}
        self.lfs: dict[str, bytes] = {}
        self.xorbs: dict[str, list[bytes]] = {}  # the chunks of each
        self.evaluation_frameworks: set[str] = set()  # those that an eval.yaml may name; empty: any
        self.faults: deque[Fault] = deque()
        self.lock = threading.RLock()

    def __enter__(self):
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), type("OfHub", (Handler,), {"hub": self}))
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02})
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def environment(self, token=None, **more):
        """The environment variables that send a new process here. `token=None`: without one."""
        environment = {"HF_ENDPOINT": self.url, "HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
        environment |= {"NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
        return {**environment, **({"HF_TOKEN": token} if token else {}), **more}

    def repo(self, kind, repo_id):
        """A repository; KeyError if it is not there."""
        return self.repos[kind, repo_id]

    def create_repo(self, kind, repo_id, files=None, sdk="gradio"):
        """Makes a repository that somebody else has, with `files` in it."""
        repo = self.repos[kind, repo_id] = Repo(kind, repo_id, sdk if kind == "space" else None)
        if files:
            repo.commit(files)
        return repo

    def fail_next(self, method, path_regex, status=500, times=1, headers=None):
        """The next `times` requests whose path with query matches are refused with `status`; nothing is done."""
        self.faults.extend([Fault(method, re.compile(path_regex), status=status, headers=headers or {})] * times)

    def cut_next(self, method, path_regex, at="request", times=1):
        """Cuts the connection: in the middle of the "request", nothing done, or of the "answer", when all is done."""
        self.faults.extend([Fault(method, re.compile(path_regex), cut=at)] * times)

    def meanwhile(self, method, path_regex, action):
        """Calls `action` just before the next such request is handled."""
        self.faults.append(Fault(method, re.compile(path_regex), meanwhile=action))

    def take_fault(self, method, path):
        with self.lock:
            for fault in list(self.faults):
                if fault.method == method and fault.path.search(path):
                    self.faults.remove(fault)
                    if fault.meanwhile is None:
                        return fault
                    fault.meanwhile()
        return Fault(method, re.compile(""))

    def user(self, header):
        """Whose Authorization header it is; a token that is none is refused everywhere, as on the Hub."""
        if header is None:
            return None
        if (user := self.users.get(header.removeprefix("Bearer "))) is None:
            raise Refused(401, "Invalid credentials in Authorization header")
        return user

    def answer(self, request):
        for method, pattern, endpoint in ENDPOINTS:
            if method == request.method.replace("HEAD", "GET") and (match := re.fullmatch(pattern, request.path)):
                groups = {name: unquote(value or "") for name, value in match.groupdict().items()}
                if "kind" in groups:
                    kind = groups.pop("kind").rstrip("/").removesuffix("s") or "model"
                    repo = self.repos.get((kind, groups.pop("repo_id")))
                    if repo is None:
                        raise Refused(404, "Repository not found", "RepoNotFound")
                    return endpoint(self, request, repo, **groups)
                return endpoint(self, request, **groups)
        raise Refused(404, "Sorry, we can't find the page you are looking for.")


# --- HTTP -------------------------------------------------------------------------------------------------------------


def refusal(refused):
    headers = {"X-Error-Message": refused.text} | ({"X-Error-Code": refused.code} if refused.code else {})
    return Answer(refused.status, json.dumps({"error": refused.text}).encode(), headers)


class Handler(http.server.BaseHTTPRequestHandler):
    hub: Hub
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # headers and body are two writes

    def handle_one_request(self):
        try:
            super().handle_one_request()
        except ConnectionError:  # the client went away
            self.close_connection = True

    def handle_request(self):
        with self.hub.lock:
            self.hub.requests.append(Seen(self.command, self.path, "Authorization" in self.headers))
        fault = self.hub.take_fault(self.command, self.path)
        if fault.cut == "request":
            self.rfile.read(int(self.headers.get("Content-Length", 0)) // 2)
            return self.cut()
        body = self.read_body()
        if fault.status:
            answer = refusal(Refused(fault.status, f"Made to fail with {fault.status}"))
            return self.send(answer._replace(headers={**answer.headers, **fault.headers}))
        url = urlsplit(self.path)
        try:
            with self.hub.lock:
                user = self.hub.user(self.headers.get("Authorization"))
                query = parse_qs(url.query)
                answer = self.hub.answer(Request(self.command, url.path, query, self.headers, body, user))
        except Refused as refused:
            answer = refusal(refused)
        except Exception:  # noqa: BLE001 - the test is told of it, not the console
            self.hub.errors.append(traceback.format_exc())
            answer = refusal(Refused(500, "The stand-in is broken"))
        return self.send(answer, cut=fault.cut == "answer")

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = handle_request

    def read_body(self):
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def send(self, answer, cut=False):
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.send_header("X-Request-Id", secrets.token_hex(8))
        if answer.status != 204:
            self.send_header("Content-Length", str(len(answer.body)))
        if cut and (self.command == "HEAD" or not answer.body):
            return self.cut()  # before the headers went out
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body[: len(answer.body) // 2] if cut else answer.body)
        return self.cut() if cut else None

    def cut(self):
        """Resets the connection: no goodbye, as when a cable is pulled."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()
        self.close_connection = True

    def log_message(self, *_):
        pass
