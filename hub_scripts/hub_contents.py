"""What a repository of the Hub holds, and which of its files a publication of this project wrote.

A publication leaves a record of its files in the repository (`RECORD_FILE`): paths with digests. A file is a
publication's own if the record has it with the content that it has now. Whatever else is there, somebody else put or
changed, and no publication deletes it. The publications of before the record made a repository hold their files and
nothing else, so that theirs are the files of the last commit with the title of one, if there are no others in it.
"""

import json
import re
import tempfile
from collections.abc import Collection, Mapping
from hashlib import sha1, sha256
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from huggingface_hub import HfApi
    from huggingface_hub.hf_api import RepoFile

RepoType = Literal["model", "dataset", "space"]
RECORD_FILE = ".published_files.json"
RECORD_TEXT = (
    "The files that the last publication of HolisticBias wrote here. The next one replaces them, and deletes those it "
    "no longer has; it leaves other files alone, and stops if one of these was changed by somebody else."
)
HUB_FILES = frozenset({".gitattributes"})  # the Hub's own: it may change them with any commit
CARD_FILE = "README.md"

# Publications of before the record: their titles ({name}: that of the repository), and the files they can have written.
_EARLIER = {
    "dataset": (r"HolisticBias v\d+\.\d+", r"README\.md|LICENSE|croissant\.json|data/[^/]+/test\.parquet"),
    "space": (r"Metric {name}", r"README\.md|requirements\.txt|\w+\.py"),
}
# What the Hub writes into the card of a new repository.
_NEW_CARD_KEYS = {"title", "emoji", "colorFrom", "colorTo", "sdk", "sdk_version", "python_version", "app_file"}
_NEW_CARD_KEYS |= {"pinned", "license", "short_description"}
_NEW_CARD_TEXT = re.compile(r"\s*(Check out the configuration reference at https://\S+)?\s*")


class Digests(NamedTuple):
    """By what the Hub knows a file's content: the oid of its git blob, or in LFS the SHA-256."""

    git: str
    sha256: str

    def are_of(self, there: "RepoFile") -> bool:
        """Whether a file of the Hub has this content."""
        return there.lfs.sha256 == self.sha256 if there.lfs else there.blob_id == self.git


class LocalFile(NamedTuple):
    """A file to push."""

    source: Path | bytes
    digests: Digests

    @classmethod
    def of(cls, source: Path | bytes) -> "LocalFile":
        """The file of a path or of a content."""
        content = source if isinstance(source, bytes) else source.read_bytes()
        git = sha1(b"blob %d\0" % len(content) + content).hexdigest()
        return cls(source, Digests(git, sha256(content).hexdigest()))


class Contents(NamedTuple):
    """A revision of a repository, compared with the files that it is to hold.

    Attributes:
        missing: Paths that it lacks, or has with other content.
        outdated: Paths that a publication wrote and that are not among the files.
        in_the_way: Those of `missing` where it has something that no publication wrote.
        others: Other paths that no publication wrote.
        is_published: Whether a publication wrote any of it.
    """

    missing: list[str]
    outdated: list[str]
    in_the_way: list[str]
    others: list[str]
    is_published: bool


def record(files: Mapping[str, LocalFile]) -> bytes:
    """The content of the record of these files."""
    digests = {path: file.digests._asdict() for path, file in sorted(files.items())}
    return (json.dumps({"about": RECORD_TEXT, "files": digests}, indent=1) + "\n").encode()


def compare(
    api: "HfApi",
    repo_id: str,
    repo_type: RepoType,
    revision: str | None,
    files: Mapping[str, LocalFile],
    yielding: Collection[str] = (),
) -> Contents:
    """Compares a revision with the files that it is to hold.

    Args:
        api: The client.
        repo_id: "ORG/name".
        repo_type: The kind of repository.
        revision: A commit; `None`: there is none yet.
        files: By path in the repository.
        yielding: Paths among them that are not missing where there is somebody else's file.
    """
    repo = _Repo(api, repo_id, repo_type)
    there = files_at(api, repo_id, repo_type, revision)
    published = _published(repo, revision, there) if revision is not None else None
    own = {path for path, digests in (published or {}).items() if path in there and digests.are_of(there[path])}
    own |= HUB_FILES | ({RECORD_FILE} if published is not None else set())

    equal = {path for path in files.keys() & there.keys() if files[path].digests.are_of(there[path])}
    kept = (there.keys() - own) & set(yielding)
    missing = sorted(files.keys() - equal - kept)
    in_the_way = [path for path in missing if path in there and path not in own]
    if CARD_FILE in in_the_way and published is None and revision is not None and repo.has_new_card(revision):
        in_the_way.remove(CARD_FILE)
    others = sorted(there.keys() - own - equal - set(missing))
    outdated = sorted((there.keys() & own) - files.keys() - HUB_FILES - {RECORD_FILE})
    return Contents(missing, outdated, in_the_way, others, published is not None)


def files_at(api: "HfApi", repo_id: str, repo_type: RepoType, revision: str | None) -> dict[str, "RepoFile"]:
    """The files of a revision, by path; none if the revision is `None`."""
    from huggingface_hub.hf_api import RepoFile

    if revision is None:
        return {}
    entries = api.list_repo_tree(repo_id, recursive=True, revision=revision, repo_type=repo_type)
    return {entry.path: entry for entry in entries if isinstance(entry, RepoFile)}


class _Repo(NamedTuple):
    api: "HfApi"
    repo_id: str
    repo_type: RepoType

    def read(self, path: str, revision: str) -> str:
        """A text that it holds."""
        with tempfile.TemporaryDirectory() as folder:
            found = self.api.hf_hub_download(
                self.repo_id, path, revision=revision, repo_type=self.repo_type, local_dir=folder
            )
            return Path(found).read_text(encoding="utf-8", errors="replace")

    def has_new_card(self, revision: str) -> bool:
        """Whether its card is one that the Hub wrote when the repository was made."""
        import yaml
        from huggingface_hub import RepoCard

        try:
            card = RepoCard(self.read(CARD_FILE, revision), ignore_metadata_errors=True)
        except (ValueError, yaml.YAMLError):
            return False
        return card.data.to_dict().keys() <= _NEW_CARD_KEYS and _NEW_CARD_TEXT.fullmatch(card.text) is not None


def _published(repo: _Repo, revision: str, there: Mapping[str, "RepoFile"]) -> dict[str, Digests] | None:
    """What the last publication wrote, by path; `None`: there was none, or its record cannot be read."""
    if RECORD_FILE in there:
        return _recorded(repo.read(RECORD_FILE, revision))
    if repo.repo_type not in _EARLIER:
        return None
    title, file_of_ours = _EARLIER[repo.repo_type]
    title = title.format(name=re.escape(repo.repo_id.rpartition("/")[2]))
    commits = repo.api.list_repo_commits(repo.repo_id, repo_type=repo.repo_type, revision=revision)
    last = next((commit.commit_id for commit in commits if re.fullmatch(title, commit.title)), None)
    if last is None:
        return None
    wrote = files_at(*repo, last)
    if RECORD_FILE in wrote:  # somebody has deleted it since
        return _recorded(repo.read(RECORD_FILE, last))
    wrote = {path: file for path, file in wrote.items() if path not in HUB_FILES}
    if not all(re.fullmatch(file_of_ours, path) for path in wrote):  # somebody else's commit with such a title
        return None
    return {path: Digests(file.blob_id, file.lfs.sha256 if file.lfs else "") for path, file in wrote.items()}


def _recorded(text: str) -> dict[str, Digests] | None:
    try:
        return {path: Digests(found["git"], found["sha256"]) for path, found in json.loads(text)["files"].items()}
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None
