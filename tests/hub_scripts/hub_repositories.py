"""The repositories of the Hub stand-in: immutable commits with whole trees, and names that point to them, as in git."""

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

from hub_scripts.hub_contents import RECORD_FILE

LFS_SUFFIXES = (".parquet", ".arrow", ".bin", ".safetensors", ".png", ".zip", ".gz", ".zst")
LFS_SIZE = 10 * 1024 * 1024  # bytes; at most this much goes into git itself
GITATTRIBUTES = "".join(f"*{suffix} filter=lfs diff=lfs merge=lfs -text\n" for suffix in LFS_SUFFIXES).encode()
SPACE_README = b"---\ntitle: New\nemoji: \xf0\x9f\x9a\x80\ncolorFrom: blue\ncolorTo: green\nsdk: %s\n---\n"


class Refused(Exception):
    """What the Hub answers instead: status, text, and the X-Error-Code by which clients tell the 404s apart."""

    def __init__(self, status, text, code=None):
        super().__init__(text)
        self.status, self.text, self.code = status, text, code


class Blob(NamedTuple):
    """One file of a commit."""

    content: bytes
    lfs: bool

    @property
    def sha256(self):
        return hashlib.sha256(self.content).hexdigest()

    @property
    def pointer(self):
        """What git itself holds of a file in LFS."""
        return (
            f"version https://git-lfs.github.com/spec/v1\noid sha256:{self.sha256}\nsize {len(self.content)}\n".encode()
        )

    @property
    def oid(self):
        return git_oid("blob", self.pointer if self.lfs else self.content)


class Commit(NamedTuple):
    oid: str
    parent: str | None
    files: dict[str, Blob]
    title: str
    message: str
    author: str
    date: str


@dataclass
class PullRequest:
    num: int
    title: str
    description: str
    author: str
    status: str  # draft, open, closed or merged
    date: str


def git_oid(kind, content):
    return hashlib.sha1(f"{kind} {len(content)}\0".encode() + content).hexdigest()


def now():
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def is_lfs(path, size, sample=b""):
    return path.endswith(LFS_SUFFIXES) or size > LFS_SIZE or b"\0" in sample


class Repo:
    """A repository: immutable commits, and names that point to them."""

    def __init__(self, kind, repo_id, sdk=None):
        self.kind, self.id, self.sdk = kind, repo_id, sdk
        self.commits: dict[str, Commit] = {}
        self.branches: dict[str, str] = {}
        self.tags: dict[str, str] = {}
        self.pull_requests: dict[int, PullRequest] = {}
        first = {".gitattributes": GITATTRIBUTES}
        if kind == "space":
            first["README.md"] = SPACE_README % sdk.encode()
        if sdk == "static":
            first |= {"index.html": b"<h1>Welcome to your static Space!</h1>\n", "style.css": b"body {}\n"}
        self.commit(first, "initial commit", author="system")

    def commit(self, changes, title="Somebody's commit", message="", author="somebody", ref="main", parent=None):
        """Writes `changes` (path → content; None deletes) as one commit on a branch or refs/pr/N."""
        parent = parent or self.branches.get(ref)
        files = dict(self.commits[parent].files) if parent else {}
        for path, content in changes.items():
            if content is None:
                del files[path]
            else:
                files[path] = content if isinstance(content, Blob) else Blob(content, is_lfs(path, len(content)))
        date = now()
        tree = "".join(f"{path} {blob.oid}\n" for path, blob in sorted(files.items()))
        oid = git_oid("commit", f"tree {tree}parent {parent}\nauthor {author} {date}\n\n{title}\n\n{message}".encode())
        self.commits[oid] = Commit(oid, parent, files, title, message, author, date)
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
        kept = (".gitattributes", RECORD_FILE)
        return {path: blob.content for path, blob in self.at(revision).files.items() if path not in kept}

    def history(self, revision="main"):
        """The commits of a revision, newest first."""
        commits = [self.at(revision)]
        while commits[-1].parent:
            commits.append(self.commits[commits[-1].parent])
        return commits

    def merge(self, num):
        """Merges pull request `num` into main: its changes on top of what main is by now."""
        head = self.at(f"refs/pr/{num}")
        base = next(commit for commit in self.history(f"refs/pr/{num}") if commit in self.history("main"))
        changes = {path: blob for path, blob in head.files.items() if base.files.get(path) != blob}
        changes |= dict.fromkeys(base.files.keys() - head.files.keys())
        self.pull_requests[num].status = "merged"
        return self.commit(changes, f"{self.pull_requests[num].title} (#{num})", author="somebody")
