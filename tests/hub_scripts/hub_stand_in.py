"""A small Hub on this machine, for the real clients: repositories with commits, tags and pull requests, over HTTP.

    with Hub() as hub:
        hub.fail_next("POST", "/commit/", status=500)

It knows what `huggingface_hub` asks in these tests, and nothing else of the Hub.
"""

import base64
import hashlib
import http.server
import json
import re
import secrets
import threading
import traceback
from collections.abc import Callable
from types import SimpleNamespace
from typing import NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

from hub_scripts.hub import RECORD_FILE

DATE = "2026-01-02T03:04:05.000Z"


class Refused(Exception):
    """What the Hub answers instead: status, text, and the X-Error-Code by which clients tell the 404s apart."""

    def __init__(self, status, text, code="", **more):
        super().__init__(text)
        self.status, self.text, self.code, self.more = status, text, code, more


class User(NamedTuple):
    name: str
    role: str
    namespaces: tuple[str, ...]  # where the user may write


class Blob(NamedTuple):
    content: bytes
    lfs: bool

    @property
    def sha256(self):
        return hashlib.sha256(self.content).hexdigest()

    @property
    def oid(self):
        return git_oid("blob", f"pointer to {self.sha256}".encode() if self.lfs else self.content)


class Commit(NamedTuple):
    oid: str
    parent: str | None
    files: dict[str, Blob]
    title: str
    author: str


def git_oid(kind, content):
    return hashlib.sha1(f"{kind} {len(content)}\0".encode() + content).hexdigest()


def is_lfs(path):
    return path.endswith((".parquet", ".png"))


class Repo:
    """A repository: immutable commits, and names that point to them."""

    def __init__(self, kind, repo_id):
        self.kind, self.id = kind, repo_id
        self.commits, self.branches, self.tags, self.pull_requests = {}, {}, {}, {}
        first = {".gitattributes": b"*.parquet filter=lfs\n"}
        self.commit(
            first | ({"README.md": b"---\ntitle: New\nsdk: gradio\n---\n"} if kind == "space" else {}), "initial commit"
        )

    def commit(self, changes, title="Somebody's commit", author="somebody", ref="main", parent=None):
        """Writes `changes` (path → content; None deletes) as one commit on a branch or refs/pr/N."""
        parent = parent or self.branches.get(ref)
        files = dict(self.commits[parent].files) if parent else {}
        for path, content in changes.items():
            if content is None:
                del files[path]
            else:
                files[path] = content if isinstance(content, Blob) else Blob(content, is_lfs(path))
        oid = git_oid("commit", secrets.token_bytes(8))
        self.commits[oid] = Commit(oid, parent, files, title, author)
        self.branches[ref] = oid
        return self.commits[oid]

    def at(self, revision="main"):
        """The commit of a branch, tag, refs/pr/N or commit oid."""
        oid = self.branches.get(revision) or self.tags.get(revision) or revision
        if oid not in self.commits:
            raise Refused(404, f"Invalid rev id: {revision}", "RevisionNotFound")
        return self.commits[oid]

    def files(self, revision="main"):
        """Path → content, without what the Hub and a publication keep for themselves."""
        files = self.at(revision).files.items()
        return {path: blob.content for path, blob in files if path not in (".gitattributes", RECORD_FILE)}

    def history(self, revision="main"):
        """The commits of a revision, newest first."""
        commits = [self.at(revision)]
        while commits[-1].parent:
            commits.append(self.commits[commits[-1].parent])
        return commits


class Request(NamedTuple):
    query: dict[str, list[str]]
    body: bytes
    user: User | None

    def json(self):
        return json.loads(self.body)

    def asks(self, name):
        return self.query.get(name, ["false"])[0].lower() in ("1", "true")

    def may_write(self, namespace, pull_request=False):
        if self.user.role != "write" or not (pull_request or namespace in self.user.namespaces):
            raise Refused(403, "Forbidden: no write permission")


# --- endpoints: each returns JSON, or an answer's body and headers ----------------------------------------------------


def whoami(hub, request):
    access = {"type": "access_token", "accessToken": {"displayName": "a token", "role": request.user.role}}
    return {"type": "user", "name": request.user.name, "orgs": [], "auth": access}


def create_repo(hub, request):
    wanted = request.json()
    kind, repo_id = wanted.get("type", "model"), f"{wanted['organization']}/{wanted['name']}"
    request.may_write(wanted["organization"])
    if (kind, repo_id) in hub.repos:
        raise Refused(409, f"You already created this {kind} repo", url=f"{hub.url}/{repo_id}")
    hub.create_repo(kind, repo_id)
    return {"url": f"{hub.url}/{repo_id}"}


def validate_yaml(hub, request):
    return {"errors": [], "warnings": []}


def preupload(hub, request, repo, revision):
    ignored = repo.at(revision).files.get(".gitignore", Blob(b"", False)).content.decode().split()
    files = []
    for file in request.json()["files"]:
        mode = "lfs" if is_lfs(file["path"]) else "regular"
        files.append({"path": file["path"], "uploadMode": mode, "shouldIgnore": file["path"] in ignored})
    return {"files": files}


def lfs_batch(hub, request, repo):
    objects = []
    for wanted in request.json()["objects"]:
        actions = {"upload": {"href": f"{hub.url}/lfs/{wanted['oid']}"}}
        objects.append(wanted | ({} if wanted["oid"] in hub.lfs else {"actions": actions}))
    return {"transfer": "basic", "objects": objects}


def lfs_upload(hub, request, oid):
    assert hashlib.sha256(request.body).hexdigest() == oid
    hub.lfs[oid] = request.body
    return b"", {}


def commit(hub, request, repo, revision):
    is_pull_request = request.asks("create_pr")
    request.may_write(repo.id.split("/")[0], is_pull_request)
    (header, *lines) = [json.loads(line) for line in request.body.splitlines() if line]
    header, changes = header["value"], {}
    base = repo.at(header["parentCommit"] if is_pull_request and "parentCommit" in header else revision)
    if header.get("parentCommit", base.oid) != base.oid:
        raise Refused(412, "A commit has happened since. Please refresh and try again.")
    for line in lines:
        path, value = line["value"]["path"], line["value"]
        if line["key"] == "file":
            changes[path] = Blob(base64.b64decode(value["content"]), lfs=False)
        elif line["key"] == "lfsFile":
            changes[path] = Blob(hub.lfs[value["oid"]], lfs=True)
        else:
            changes[path] = None
    num = len(repo.pull_requests) + 1
    ref = f"refs/pr/{num}" if is_pull_request else revision
    title, author = header["summary"], request.user.name
    made = repo.commit(changes, title, author, ref, parent=base.oid)
    answer = {"success": True, "commitOid": made.oid, "commitUrl": f"{hub.url}/{repo.id}/commit/{made.oid}"}
    if is_pull_request:
        opened = {"num": num, "title": title, "description": header.get("description", ""), "author": author}
        repo.pull_requests[num] = SimpleNamespace(**opened)
        answer["pullRequestUrl"] = f"{hub.url}/{repo.id}/discussions/{num}"
    return answer


def create_tag(hub, request, repo, revision):
    request.may_write(repo.id.split("/")[0])
    repo.tags[request.json()["tag"]] = repo.at(revision).oid
    return {}


def refs(hub, request, repo):
    def listed(names, prefix):
        return [{"name": name, "ref": prefix + name, "targetCommit": oid} for name, oid in names.items()]

    branches = {name: oid for name, oid in repo.branches.items() if not name.startswith("refs/pr/")}
    return {"branches": listed(branches, "refs/heads/"), "converts": [], "tags": listed(repo.tags, "refs/tags/")}


def discussions(hub, request, repo):
    listed = []
    for pull_request in reversed(repo.pull_requests.values()):
        about = {"num": pull_request.num, "title": pull_request.title, "author": {"name": pull_request.author}}
        about |= {"createdAt": DATE, "status": "open", "isPullRequest": True}
        if (request.query["author"], request.query["status"]) == ([pull_request.author], ["open"]):
            listed.append(about | {"repo": {"name": repo.id, "type": repo.kind}})
    return {"discussions": listed, "count": len(listed), "start": 0}


def entries(commit):
    """Files and folders of a tree, at all depths."""
    folders = {"/".join(path.split("/")[:depth]) for path in commit.files for depth in range(1, path.count("/") + 1)}
    listed = [{"type": "directory", "oid": git_oid("tree", path.encode()), "size": 0, "path": path} for path in folders]
    for path, blob in commit.files.items():
        size = len(blob.content)
        lfs = {"lfs": {"oid": blob.sha256, "size": size, "pointerSize": 100}} if blob.lfs else {}
        listed.append({"type": "file", "oid": blob.oid, "size": size, "path": path} | lfs)
    return sorted(listed, key=lambda entry: entry["path"])


def tree(hub, request, repo, revision, path):
    inside = f"{path}/" if path else ""
    listed = [entry for entry in entries(repo.at(revision)) if entry["path"].startswith(inside)]
    if path and not listed:
        raise Refused(404, f"{path} does not exist on {revision}", "EntryNotFound")
    if request.asks("recursive"):
        return listed
    return [entry for entry in listed if "/" not in entry["path"].removeprefix(inside)]


def repo_info(hub, request, repo, revision):
    at = repo.at(revision or "main")
    siblings = [{"rfilename": path} for path in sorted(at.files)]
    return {"id": repo.id, "sha": at.oid, "private": False, "tags": [], "lastModified": DATE, "siblings": siblings}


def resolve(hub, request, repo, revision, path):
    at = repo.at(revision)
    if (blob := at.files.get(path)) is None:
        raise Refused(404, "Entry not found", "EntryNotFound")
    return blob.content, {"X-Repo-Commit": at.oid, "ETag": f'"{blob.sha256 if blob.lfs else blob.oid}"'}


_API = r"/api/(?P<kind>models|datasets|spaces)/(?P<repo_id>[^/]+/[^/]+)"
_PAGE = r"/(?P<kind>datasets/|spaces/|)(?P<repo_id>[^/]+/[^/]+)"
_REVISION = r"/(?P<revision>[^/]+)"
ENDPOINTS = [
    ("GET", r"/api/whoami-v2", whoami),
    ("POST", r"/api/repos/create", create_repo),
    ("POST", r"/api/validate-yaml", validate_yaml),
    ("POST", rf"{_API}/preupload{_REVISION}", preupload),
    ("POST", rf"{_PAGE}\.git/info/lfs/objects/batch", lfs_batch),
    ("PUT", r"/lfs/(?P<oid>[0-9a-f]{64})", lfs_upload),
    ("POST", rf"{_API}/commit{_REVISION}", commit),
    ("POST", rf"{_API}/tag{_REVISION}", create_tag),
    ("GET", rf"{_API}/refs", refs),
    ("GET", rf"{_API}/discussions", discussions),
    ("GET", rf"{_API}/tree{_REVISION}(?:/(?P<path>.+))?", tree),
    ("GET", rf"{_API}(?:/revision{_REVISION})?", repo_info),
    ("GET", rf"{_PAGE}/resolve{_REVISION}/(?P<path>.+)", resolve),
]


class Fault(NamedTuple):
    method: str
    path: str
    status: int = 0
    code: str = ""
    after: bool = False  # whether the request is carried out all the same, and only its answer is lost
    text: str = "Made to fail"
    meanwhile: Callable[[], object] | None = None


class Hub:
    """The Hub. `with Hub() as hub:` starts it on a free port."""

    def __init__(self):
        # Three accounts' tokens: one that may write in ORG, the same with a token that can only read, and somebody
        # without rights in ORG, who can open pull requests.
        self.token, self.read_token, self.other_token = ("hf_" + secrets.token_hex(17) for _ in range(3))
        self.users = {
            self.token: User("maintainer", "write", ("maintainer", "ORG")),
            self.read_token: User("maintainer", "read", ()),
            self.other_token: User("contributor", "write", ("contributor",)),
        }
        self.repos: dict[tuple[str, str], Repo] = {}
        self.lfs: dict[str, bytes] = {}
        self.requests: list[str] = []  # methods and paths
        self.errors: list[str] = []  # tracebacks of the stand-in itself: there should be none
        self.faults: list[Fault] = []
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

    def environment(self):
        """The environment variables that send a new process here, without a token."""
        environment = {"HF_ENDPOINT": self.url, "HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
        return {**environment, "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}

    def repo(self, kind, repo_id):
        """A repository; KeyError if it does not exist."""
        return self.repos[kind, repo_id]

    def create_repo(self, kind, repo_id, files=None):
        """Makes a repository, with a commit of somebody else if there are `files`."""
        repo = self.repos[kind, repo_id] = Repo(kind, repo_id)
        if files:
            repo.commit(files)
        return repo

    def writes(self):
        """The requests that change something."""
        return [line for line in self.requests if line.startswith(("POST", "PUT")) and "validate-yaml" not in line]

    def fail_next(self, method, path, status=500, *, times=1, code="", after=False, text="Made to fail"):
        """The next `times` requests to such a path fail with `status`: not carried out, or with `after` they are."""
        self.faults += [Fault(method, path, status, code, after, text)] * times

    def meanwhile(self, method, path, action):
        """Calls `action` just before the next such request is handled."""
        self.faults.append(Fault(method, path, meanwhile=action))

    def answer(self, method, path, headers, body):
        faults = [fault for fault in self.faults if fault.method == method and re.search(fault.path, path)]
        fault = faults[0] if faults else Fault(method, path)
        if faults:
            self.faults.remove(fault)
        if fault.meanwhile:
            fault.meanwhile()
        if fault.status and not fault.after:
            raise Refused(fault.status, fault.text, fault.code)
        url, token = urlsplit(path), headers.get("Authorization", "").removeprefix("Bearer ")
        request = Request(parse_qs(url.query), body, self.users.get(token))
        for asked, pattern, endpoint in ENDPOINTS:
            if asked == method.replace("HEAD", "GET") and (match := re.fullmatch(pattern, url.path)):
                groups = {name: unquote(value or "") for name, value in match.groupdict().items()}
                if "kind" in groups:
                    kind = groups.pop("kind").rstrip("/").removesuffix("s") or "model"
                    repo = self.repos.get((kind, groups.pop("repo_id")))
                    if repo is None:
                        raise Refused(404, "Repository not found", "RepoNotFound")
                    groups["repo"] = repo
                answer = endpoint(self, request, **groups)
                if fault.after:
                    raise Refused(fault.status, fault.text, fault.code)
                return answer
        raise Refused(404, "Sorry, we can't find the page you are looking for.")


class Handler(http.server.BaseHTTPRequestHandler):
    hub: Hub
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # headers and body are two writes

    def handle_request(self):
        body, headers, status = self.rfile.read(int(self.headers.get("Content-Length", 0))), {}, 200
        with self.hub.lock:
            self.hub.requests.append(f"{self.command} {self.path}")
            try:
                answer = self.hub.answer(self.command, self.path, self.headers, body)
            except Refused as refused:
                status, answer = refused.status, {"error": refused.text, **refused.more}
                headers = {"X-Error-Message": refused.text, "X-Error-Code": refused.code}
            except Exception:  # noqa: BLE001 - the test is told of it, not the console
                self.hub.errors.append(traceback.format_exc())
                status, answer = 500, {}
        if isinstance(answer, tuple):
            content, headers = answer
        else:
            content = json.dumps(answer).encode()
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    do_GET = do_HEAD = do_POST = do_PUT = handle_request

    def log_message(self, *_):
        pass
