"""What a repository of the Hub holds, and which of its files a publication of this project wrote.

A publication leaves a record of its files in the repository (`RECORD_FILE`): their paths and digests. A file belongs to
a publication if it is in the record and still has the recorded content. All other files were added or changed by other
people, and no publication deletes them. Publications from before there was a record made a repository hold their files
and nothing else. Theirs are the files of the last commit with the title of a publication, unless that commit has a file
that no publication writes.
"""

import json
import re
import tempfile
from collections.abc import Collection, Mapping
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from huggingface_hub import HfApi
    from huggingface_hub.hf_api import RepoFile

RepoType = Literal["model", "dataset", "space"]
CARD_FILE = "README.md"
RECORD_FILE = ".published_files.json"
RECORD_TEXT = (
    "The files that the last publication of HolisticBias wrote here. The next one replaces them, and deletes those it "
    "no longer has; it leaves other files alone, and stops if one of these was changed by somebody else."
)
HUB_FILES = frozenset({".gitattributes"})  # the Hub's own: it may change them with any commit

# Publications from before the record: their titles ({name}: that of the repository), and the files they may have.
_EARLIER = {
    "dataset": (r"HolisticBias v\d+\.\d+", r"README\.md|LICENSE|croissant\.json|data/[^/]+/test\.parquet"),
    "space": (r"Metric {name}", r"README\.md|requirements\.txt|\w+\.py"),
}
# What the Hub writes into the card of a new repository.
_NEW_CARD_KEYS = {"title", "emoji", "colorFrom", "colorTo", "sdk", "sdk_version", "python_version", "app_file"}
_NEW_CARD_KEYS |= {"pinned", "license", "short_description"}
# What it writes beside the card into a new static Space, and a sentence of that page.
_NEW_STATIC_FILES, _NEW_STATIC_SENTENCE = frozenset({"index.html", "style.css"}), "Welcome to your static Space!"
_NEW_CARD_TEXT = re.compile(r"\s*(Check out the configuration reference at https://\S+)?\s*")


class Digests(NamedTuple):
    """How the Hub identifies a file's content: the oid of its git blob, and for a file in LFS its SHA-256."""

    git: str
    sha256: str

    def match(self, file: "RepoFile") -> bool:
        """Whether a file on the Hub has this content."""
        return file.lfs.sha256 == self.sha256 if file.lfs else file.blob_id == self.git


class LocalFile(NamedTuple):
    """A file to publish."""

    source: Path | bytes
    digests: Digests

    @classmethod
    def of(cls, source: Path | bytes) -> "LocalFile":
        """Makes one from a path or from the content itself."""
        from huggingface_hub.utils.sha import git_hash

        content = source if isinstance(source, bytes) else source.read_bytes()
        return cls(source, Digests(git_hash(content), sha256(content).hexdigest()))


class Repo(NamedTuple):
    """A repository of the Hub, and the client to ask for it. Printed as "dataset ORG/name"."""

    api: "HfApi"
    repo_id: str
    repo_type: RepoType

    def __str__(self) -> str:
        return f"{self.repo_type} {self.repo_id}"

    def page(self, path: str) -> str:
        """The address of one of its pages, such as "commit/…"."""
        from huggingface_hub.constants import REPO_TYPES_URL_PREFIXES

        return f"{self.api.endpoint}/{REPO_TYPES_URL_PREFIXES.get(self.repo_type, '')}{self.repo_id}/{path}"

    def files(self, revision: str | None) -> dict[str, "RepoFile"]:
        """The files of a revision by path; none if the revision is `None`."""
        from huggingface_hub.hf_api import RepoFile

        if revision is None:
            return {}
        entries = self.api.list_repo_tree(self.repo_id, recursive=True, revision=revision, repo_type=self.repo_type)
        return {entry.path: entry for entry in entries if isinstance(entry, RepoFile)}

    def read_text(self, path: str, revision: str) -> str:
        """The content of a text file; bytes that are not UTF-8 are replaced."""
        with tempfile.TemporaryDirectory() as folder:
            file = self.api.hf_hub_download(
                self.repo_id, path, revision=revision, repo_type=self.repo_type, local_dir=folder
            )
            return Path(file).read_text(encoding="utf-8", errors="replace")


class Contents(NamedTuple):
    """A revision of a repository, compared with the files to publish.

    Attributes:
        missing: Paths of files to publish that the revision lacks, or has with other content.
        outdated: Paths that a publication wrote and that are not among the files to publish.
        in_the_way: Those of `missing` where the revision has a file of other people.
        others: Other paths with files of other people.
        is_published: Whether a publication wrote any file of the revision.
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
    repo: Repo, revision: str | None, files: Mapping[str, LocalFile], keep_theirs: Collection[str] = ()
) -> Contents:
    """Compares a revision with the files to publish.

    Args:
        repo: The repository.
        revision: A commit; `None` if there is none yet.
        files: The files by path in the repository.
        keep_theirs: Paths among them that do not count as missing where there is a file of other people.
    """
    present = repo.files(revision)
    published = None if revision is None else _published(repo, revision, present)
    own = {path for path, digests in (published or {}).items() if path in present and digests.match(present[path])}
    own |= HUB_FILES | ({RECORD_FILE} if published is not None else set())
    if published is None and revision is not None and _is_new_static_space(repo, revision, present):
        own |= _NEW_STATIC_FILES

    equal = {path for path in files.keys() & present.keys() if files[path].digests.match(present[path])}
    kept = (present.keys() - own) & set(keep_theirs)
    missing = sorted(files.keys() - equal - kept)
    in_the_way = [path for path in missing if path in present and path not in own]
    if CARD_FILE in in_the_way and published is None and revision is not None and _has_new_card(repo, revision):
        in_the_way.remove(CARD_FILE)
    others = sorted(present.keys() - own - equal - set(missing))
    outdated = sorted((present.keys() & own) - files.keys() - HUB_FILES - {RECORD_FILE})
    return Contents(missing, outdated, in_the_way, others, published is not None)


def _has_new_card(repo: Repo, revision: str) -> bool:
    """Whether the card is the one that the Hub wrote when the repository was created."""
    import yaml
    from huggingface_hub import RepoCard

    try:
        card = RepoCard(repo.read_text(CARD_FILE, revision), ignore_metadata_errors=True)
    except (ValueError, yaml.YAMLError):
        return False
    return card.data.to_dict().keys() <= _NEW_CARD_KEYS and _NEW_CARD_TEXT.fullmatch(card.text) is not None


def _is_new_static_space(repo: Repo, revision: str, present: Mapping[str, "RepoFile"]) -> bool:
    """Whether a Space has nothing but the sample page with which the Hub creates a static one."""
    if repo.repo_type != "space" or "index.html" not in present:
        return False
    if not present.keys() <= _NEW_STATIC_FILES | HUB_FILES | {CARD_FILE}:
        return False
    # In a second commit somebody may have written over the sample.
    if len(list(repo.api.list_repo_commits(repo.repo_id, repo_type=repo.repo_type, revision=revision))) > 1:
        return False
    return _NEW_STATIC_SENTENCE in repo.read_text("index.html", revision)


def _published(repo: Repo, revision: str, present: Mapping[str, "RepoFile"]) -> dict[str, Digests] | None:
    """What the last publication wrote, by path; `None` if there was none, or if its record cannot be read."""
    if RECORD_FILE in present:
        return _read_record(repo.read_text(RECORD_FILE, revision))
    if repo.repo_type not in _EARLIER:
        return None
    title, our_file = _EARLIER[repo.repo_type]
    title = title.format(name=re.escape(repo.repo_id.rpartition("/")[2]))
    commits = repo.api.list_repo_commits(repo.repo_id, repo_type=repo.repo_type, revision=revision)
    last = next((commit.commit_id for commit in commits if re.fullmatch(title, commit.title)), None)
    if last is None:
        return None
    files = repo.files(last)
    if RECORD_FILE in files:  # somebody has deleted it since
        return _read_record(repo.read_text(RECORD_FILE, last))
    files = {path: file for path, file in files.items() if path not in HUB_FILES}
    if not all(re.fullmatch(our_file, path) for path in files):  # somebody else's commit with such a title
        return None
    return {path: Digests(file.blob_id, file.lfs.sha256 if file.lfs else "") for path, file in files.items()}


def _read_record(text: str) -> dict[str, Digests] | None:
    try:
        return {path: Digests(file["git"], file["sha256"]) for path, file in json.loads(text)["files"].items()}
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None
