"""The endpoints of the Hub stand-in, as `huggingface_hub` asks them; the table of them is at the end."""

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple
from urllib.parse import parse_qs

import yaml

from tests.hub_scripts.hub_repositories import Blob, PullRequest, Refused, Repo, git_oid, is_lfs
from tests.hub_scripts.hub_xet import store_shard, store_xorb, write_token

SPACE_COLORS = ("red", "yellow", "green", "blue", "indigo", "purple", "pink", "gray")
URL_PREFIXES = {"model": "", "dataset": "datasets/", "space": "spaces/"}


class User(NamedTuple):
    name: str
    role: Literal["read", "write"]
    namespaces: tuple[str, ...]  # where the user may write


class Request(NamedTuple):
    method: str
    path: str
    query: dict[str, list[str]]
    headers: dict
    body: bytes
    user: User | None

    def json(self):
        return json.loads(self.body)

    def asks(self, name):
        return self.query.get(name, ["false"])[0].lower() in ("1", "true")


class Answer(NamedTuple):
    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = MappingProxyType({})


def as_json(value, status=200):
    return Answer(status, json.dumps(value).encode(), {"Content-Type": "application/json; charset=utf-8"})


def may_write(request, namespace, pull_request=False):
    if request.user is None:
        raise Refused(401, "Invalid username or password.")
    if request.user.role != "write":
        raise Refused(403, "Forbidden: your token has no write permission")
    if not pull_request and namespace not in request.user.namespaces:
        raise Refused(403, f"Forbidden: you have no write access to the namespace {namespace!r}")


def may_write_to(request, repo):
    may_write(request, repo.id.split("/")[0], pull_request=request.asks("create_pr"))


def whoami(hub, request):
    if request.user is None:
        raise Refused(401, "Invalid username or password.")
    name, role, namespaces = request.user
    access = {"type": "access_token", "accessToken": {"displayName": "a token", "role": role}}
    orgs = [{"type": "org", "name": namespace} for namespace in namespaces if namespace != name]
    return as_json({"type": "user", "name": name, "fullname": name, "orgs": orgs, "auth": access})


def create_repo(hub, request):
    wanted = request.json()
    kind, name = wanted.get("type", "model"), wanted["name"]
    may_write(request, namespace := wanted.get("organization") or (request.user.name if request.user else ""))
    repo_id = f"{namespace}/{name}"
    url = f"{hub.url}/{URL_PREFIXES[kind]}{repo_id}"
    if (kind, repo_id) in hub.repos:
        return as_json({"error": f"You already created this {kind} repo", "url": url}, status=409)
    hub.repos[kind, repo_id] = Repo(kind, repo_id, wanted.get("sdk"))
    return as_json({"url": url, "name": repo_id})


def card_faults(content, kind):
    """What is wrong with the front matter of a README.md, as far as this project's cards could have it wrong."""
    match = re.match(r"---\r?\n(.*?)\r?\n---\r?(\n|$)", content, re.DOTALL)
    try:
        card = yaml.safe_load(match[1]) if match else None
    except yaml.YAMLError as error:
        return [f"YAML metadata is not valid: {error}"]
    if not isinstance(card, dict):
        card = {}
        if kind == "space":
            return ["Missing configuration in README"]
    faults = []
    if kind == "space":
        faults += ['"sdk" is required'] if "sdk" not in card else []
        for key in ("colorFrom", "colorTo"):
            if card.get(key, "red") not in SPACE_COLORS:
                faults.append(f'"{key}" must be one of [{", ".join(SPACE_COLORS)}]')
    if len(card.get("short_description", "")) > 60:
        faults.append('"short_description" length must be less than or equal to 60 characters long')
    return faults


def eval_faults(hub, content):
    """What is wrong with a dataset's eval.yaml."""
    document = yaml.safe_load(content)
    faults = [key for key in ("name", "description") if not document.get(key)]
    if hub.evaluation_frameworks and document.get("evaluation_framework") not in hub.evaluation_frameworks:
        faults.append("evaluation_framework")
    ids = [task.get("id") for task in document.get("tasks", [])]
    return faults + ([] if ids and None not in ids and len(set(ids)) == len(ids) else ["tasks"])


def validate_yaml(hub, request):
    content, kind = request.json()["content"], request.json()["repoType"]
    faults = card_faults(content, kind)
    bare = [] if content.startswith("---") else [{"message": "empty or missing yaml metadata in repo card"}]
    return as_json({"errors": [{"message": text} for text in faults], "warnings": bare}, status=400 if faults else 200)


def preupload(hub, request, repo, revision):
    may_write_to(request, repo)
    there = repo.at(revision).files
    ignored = [line for line in request.json().get("gitIgnore", "").splitlines() if line]
    if ".gitignore" in there and not ignored:
        ignored = there[".gitignore"].content.decode().split()

    def mode(path, size, sample):
        blob = there.get(path)
        lfs = is_lfs(path, size, base64.b64decode(sample))
        oid = blob and (blob.sha256 if blob.lfs else blob.oid)
        return {
            "path": path,
            "uploadMode": "lfs" if lfs else "regular",
            "shouldIgnore": path in ignored,
            **({"oid": oid} if oid else {}),
        }

    return as_json({"files": [mode(**file) for file in request.json()["files"]]})


def lfs_batch(hub, request, repo):
    # The client does not say here that it is for a pull request: that needs no more than an account that can write.
    may_write(request, repo.id.split("/")[0], pull_request=True)

    def action(oid, size):
        if oid in hub.lfs:
            return {"oid": oid, "size": size}
        return {"oid": oid, "size": size, "actions": {"upload": {"href": f"{hub.url}/lfs/{oid}?size={size}"}}}

    objects = [action(**wanted) for wanted in request.json()["objects"]]
    return as_json({"transfer": "basic", "objects": objects})


def lfs_upload(hub, request, oid):
    right = hashlib.sha256(request.body).hexdigest() == oid and str(len(request.body)) == request.query["size"][0]
    if not right:
        raise Refused(400, "The uploaded object is not the one that was announced")
    hub.lfs[oid] = request.body
    return Answer(headers={"ETag": f'"{oid}"'})


def xet_write_token(hub, request, repo, revision):
    may_write_to(request, repo)
    token = write_token(hub, request.user)
    names = {"accessToken": "X-Xet-Access-Token", "exp": "X-Xet-Token-Expiration", "casUrl": "X-Xet-Cas-Url"}
    answer = as_json(token)  # in the headers for huggingface_hub 1
    return answer._replace(headers={**answer.headers, **{names[key]: str(value) for key, value in token.items()}})


def xet_grant(hub, request, digest):
    may_write(request, "", pull_request=True)
    grant = {"id": digest[:8], "method": "PUT", "url": f"{hub.url}/xet/{digest}", "headers": {"X-Granted": "yes"}}
    return as_json(grant, status=201)


def xet_upload(hub, request, digest):
    if request.headers.get("X-Granted") != "yes":
        raise Refused(403, "There is no grant for this")
    store_xorb(hub, digest, request.body)
    return Answer()


def xet_xorb(hub, request, digest, grant=None):
    """A xorb that was uploaded with a grant, or as clients did before there were grants."""
    may_write(request, "", pull_request=True)
    if grant is None:
        store_xorb(hub, digest, request.body)
    if digest not in hub.xorbs:
        raise Refused(404, "Nothing was uploaded for this grant")
    return as_json({"was_inserted": True})


def xet_shard(hub, request, version):
    may_write(request, "", pull_request=True)
    store_shard(hub, request.body)
    return as_json({"result": 1} if version == "1" else {"type": "result"})


def commit(hub, request, repo, revision):
    may_write_to(request, repo)
    lines = [json.loads(line) for line in request.body.splitlines() if line]
    header, changes = lines[0]["value"], {}
    pull_request = request.asks("create_pr")
    base = repo.at(header.get("parentCommit") if pull_request and "parentCommit" in header else revision)
    if not pull_request and header.get("parentCommit", base.oid) != base.oid:
        raise Refused(412, "A commit has happened since. Please refresh and try again.")
    for line in lines[1:]:
        key, value = line["key"], line["value"]
        path = value["path"]
        if key == "file":
            changes[path] = Blob(base64.b64decode(value["content"]), lfs=False)
        elif key == "lfsFile":
            if value["oid"] not in hub.lfs:
                raise Refused(400, f"LFS pointer of {path} points to a file that does not exist: {value['oid']}")
            changes[path] = Blob(hub.lfs[value["oid"]], lfs=True)
        elif key == "deletedFile" and path in base.files:
            changes[path] = None
        elif key == "deletedFolder" and any(name.startswith(f"{path}/") for name in base.files):
            changes |= dict.fromkeys(name for name in base.files if name.startswith(f"{path}/"))
        else:
            raise Refused(404, f"A file with this name doesn't exist: {path}", "EntryNotFound")
    readme = changes.get("README.md")
    if readme and (faults := card_faults(readme.content.decode(), repo.kind)):
        raise Refused(400, "Invalid metadata in README.md: " + "; ".join(faults))
    eval_file = changes.get("eval.yaml") if repo.kind == "dataset" else None
    if eval_file and (faults := eval_faults(hub, eval_file.content)):
        raise Refused(400, f"Invalid eval.yaml: Invalid input at {', '.join(faults)}")
    num = len(repo.pull_requests) + 1
    ref = f"refs/pr/{num}" if pull_request else revision
    title, description, author = header["summary"], header.get("description", ""), request.user.name
    made = repo.commit(changes, title, description, author, ref, parent=base.oid)
    page = f"{hub.url}/{URL_PREFIXES[repo.kind]}{repo.id}"
    answer = {"success": True, "commitOid": made.oid, "commitUrl": f"{page}/commit/{made.oid}", "hookOutput": ""}
    if pull_request:
        repo.pull_requests[num] = PullRequest(num, title, description, author, "open", made.date)
        answer["pullRequestUrl"] = f"{page}/discussions/{num}"
    return as_json(answer)


def create_tag(hub, request, repo, revision):
    may_write_to(request, repo)
    name = request.json()["tag"]
    target = repo.at(revision).oid
    if name in repo.tags:
        raise Refused(409, f"Tag reference exists already: refs/tags/{name}")
    repo.tags[name] = target
    return Answer(201)


def delete_tag(hub, request, repo, revision):
    may_write_to(request, repo)
    if repo.tags.pop(revision, None) is None:
        raise Refused(404, f"Tag {revision} not found", "RevisionNotFound")
    return Answer(204)


def refs(hub, request, repo):
    def listed(names, prefix):
        return [{"name": name, "ref": prefix + name, "targetCommit": oid} for name, oid in names.items()]

    pull_requests = {name: oid for name, oid in repo.branches.items() if name.startswith("refs/pr/")}
    branches = {name: oid for name, oid in repo.branches.items() if name not in pull_requests}
    answer = {"branches": listed(branches, "refs/heads/"), "converts": [], "tags": listed(repo.tags, "refs/tags/")}
    return as_json(answer | ({"pullRequests": listed(pull_requests, "")} if request.asks("include_prs") else {}))


def commits(hub, request, repo, revision):
    def listed(commit):
        author = {"user": commit.author}
        return {
            "id": commit.oid,
            "authors": [author],
            "date": commit.date,
            "title": commit.title,
            "message": commit.message,
        }

    return as_json([listed(commit) for commit in repo.history(revision)])


def entry(path, blob):
    listed = {"type": "file", "oid": blob.oid, "size": len(blob.content), "path": path}
    lfs = {"oid": blob.sha256, "size": len(blob.content), "pointerSize": len(blob.pointer)}
    return listed | ({"lfs": lfs} if blob.lfs else {})


def entries(files):
    """Files and folders of a tree, at all depths."""
    folders = {"/".join(path.split("/")[:depth]) for path in files for depth in range(1, path.count("/") + 1)}
    listed = [{"type": "directory", "oid": git_oid("tree", path.encode()), "size": 0, "path": path} for path in folders]
    return sorted(listed + [entry(path, blob) for path, blob in files.items()], key=lambda entry: entry["path"])


def with_last_commit(entry, commit):
    return entry | {"lastCommit": {"id": commit.oid, "title": commit.title, "date": commit.date}}


def tree(hub, request, repo, revision, path):
    at = repo.at(revision)
    inside = f"{path}/" if path else ""
    listed = [entry for entry in entries(at.files) if entry["path"].startswith(inside)]
    if path and not listed:
        raise Refused(404, f"{path} does not exist on {revision}", "EntryNotFound")
    if not request.asks("recursive"):
        listed = [entry for entry in listed if "/" not in entry["path"].removeprefix(inside)]
    return as_json([with_last_commit(entry, at) for entry in listed] if request.asks("expand") else listed)


def paths_info(hub, request, repo, revision):
    asked = parse_qs(request.body.decode())
    if request.headers.get("Content-Type", "").startswith("application/json"):
        asked = {"paths": request.json()["paths"], "expand": [str(request.json().get("expand", False))]}
    at = repo.at(revision)
    listed = [entry for entry in entries(at.files) if entry["path"] in asked.get("paths", [])]
    expand = asked.get("expand", ["False"])[0].lower() == "true"
    return as_json([with_last_commit(entry, at) for entry in listed] if expand else listed)


def repo_info(hub, request, repo, revision):
    at = repo.at(revision or "main")

    def sibling(path, blob):
        listed = entry(path, blob)
        blobs = {"size": listed["size"], "blobId": listed["oid"]}
        if blob.lfs:
            blobs["lfs"] = {"sha256": blob.sha256, "size": listed["size"], "pointerSize": listed["lfs"]["pointerSize"]}
        return {"rfilename": path, **(blobs if request.asks("blobs") else {})}

    first = repo.history("main")[-1]
    info = {"id": repo.id, "author": repo.id.split("/")[0], "sha": at.oid, "private": False, "gated": False}
    info |= {"disabled": False, "downloads": 0, "likes": 0, "tags": []}
    info |= {"createdAt": first.date, "lastModified": at.date, **({"sdk": repo.sdk} if repo.sdk else {})}
    return as_json(info | {"siblings": [sibling(path, blob) for path, blob in sorted(at.files.items())]})


def resolve(hub, request, repo, revision, path):
    at = repo.at(revision)
    if (blob := at.files.get(path)) is None:
        raise Refused(404, "Entry not found", "EntryNotFound")
    headers = {"X-Repo-Commit": at.oid, "Accept-Ranges": "bytes", "Content-Type": "application/octet-stream"}
    headers["ETag"] = f'"{blob.sha256 if blob.lfs else blob.oid}"'
    if blob.lfs:  # the real Hub sends clients on to a storage server, with these
        headers |= {"X-Linked-Size": str(len(blob.content)), "X-Linked-Etag": headers["ETag"]}
    wanted = re.fullmatch(r"bytes=(\d*)-(\d*)", request.headers.get("Range", ""))
    if not wanted:
        return Answer(200, blob.content, headers)
    size = len(blob.content)
    start = int(wanted[1]) if wanted[1] else max(0, size - int(wanted[2]))
    end = min(size, int(wanted[2]) + 1) if wanted[1] and wanted[2] else size
    if start >= size:
        return Answer(416, b"", {"Content-Range": f"bytes */{size}"})
    return Answer(206, blob.content[start:end], headers | {"Content-Range": f"bytes {start}-{end - 1}/{size}"})


def listed_discussion(repo, pull_request):
    about = {
        "num": pull_request.num,
        "title": pull_request.title,
        "author": {"name": pull_request.author},
        "createdAt": pull_request.date,
    }
    return about | {"status": pull_request.status, "isPullRequest": True, "repo": {"name": repo.id, "type": repo.kind}}


def discussions(hub, request, repo):
    kind, status, author = (request.query.get(name, ["all"])[0] for name in ("type", "status", "author"))
    statuses = {"all": ("open", "draft", "closed", "merged"), "open": ("open", "draft"), "closed": ("closed", "merged")}
    listed = [
        listed_discussion(repo, pull_request)
        for pull_request in reversed(repo.pull_requests.values())
        if kind != "discussion" and author in ("all", pull_request.author) and pull_request.status in statuses[status]
    ]
    return as_json({"discussions": listed, "count": len(listed), "start": 0, "numClosedDiscussions": 0})


def discussion(hub, request, repo, num):
    if (pull_request := repo.pull_requests.get(int(num))) is None:
        raise Refused(404, "Discussion not found")
    author = {"name": pull_request.author}
    comment = {"id": "0", "type": "comment", "createdAt": pull_request.date, "author": author}
    comment["data"] = {"edited": False, "hidden": False, "latest": {"raw": pull_request.description}}
    more = {"changes": {"base": "refs/heads/main"}, "filesWithConflicts": [], "events": [comment], "diff": ""}
    return as_json(listed_discussion(repo, pull_request) | more)


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
    ("GET", rf"{_API}/xet-write-token{_REVISION}", xet_write_token),
    ("POST", r"/v1/xorb-grants/default/(?P<digest>[0-9a-f]{64})", xet_grant),
    ("PUT", r"/xet/(?P<digest>[0-9a-f]{64})", xet_upload),
    ("POST", r"/v1/xorb-commits/default/(?P<digest>[0-9a-f]{64})/grant/(?P<grant>.+)", xet_xorb),
    ("POST", r"/v1/xorbs/default/(?P<digest>[0-9a-f]{64})", xet_xorb),
    ("POST", r"/v(?P<version>[12])/shards", xet_shard),
    ("POST", rf"{_API}/commit{_REVISION}", commit),
    ("POST", rf"{_API}/tag{_REVISION}", create_tag),
    ("DELETE", rf"{_API}/tag{_REVISION}", delete_tag),
    ("GET", rf"{_API}/refs", refs),
    ("GET", rf"{_API}/commits{_REVISION}", commits),
    ("GET", rf"{_API}/tree{_REVISION}(?:/(?P<path>.+))?", tree),
    ("POST", rf"{_API}/paths-info{_REVISION}", paths_info),
    ("GET", rf"{_API}/discussions", discussions),
    ("GET", rf"{_API}/discussions/(?P<num>\d+)", discussion),
    ("GET", rf"{_API}(?:/revision{_REVISION})?", repo_info),
    ("GET", rf"{_PAGE}/resolve{_REVISION}/(?P<path>.+)", resolve),
]
