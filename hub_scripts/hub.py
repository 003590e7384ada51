"""Publishes files to a repository on the Hugging Face Hub in one commit, under a tag that is never changed.

The tag is set after the commit. If a step fails, run the same command again to complete the missing steps.

Each publication writes a record of its files' paths and digests (`RECORD_FILE`). A file is ours if it is in this record
and has not changed since. All other files belong to other people. These files are never deleted, and are replaced only
if the caller allows it.
"""

import argparse
import json
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias
from urllib.parse import urlsplit

import huggingface_hub  # loads HfApi, which --help does not need, only when it is used
from huggingface_hub import constants
from huggingface_hub.errors import HfHubHTTPError, HTTPError, OfflineModeIsEnabled
from huggingface_hub.utils import validate_repo_id
from huggingface_hub.utils.sha import git_hash

from hb_dataset.command_line import CommandParser
from hb_dataset.hub_access import protect_token

Api: TypeAlias = "huggingface_hub.HfApi"
RepoType = Literal["model", "dataset", "space"]
CARD_FILE = "README.md"
RECORD_FILE = ".published_files.json"
ABOUT_RECORD = (
    "The files that the last publication of HolisticBias wrote here. The next publication replaces or deletes these "
    "files. It keeps all other files, and stops if somebody has changed a listed file."
)
HUB_FILES = {".gitattributes"}  # files that the Hub may change with any commit
# The README.md that the Hub writes for a new repository: one-line fields, and for a Space this sentence below them.
_HUB_CARD = re.compile(r"---\n(\w+: [^>|\n]*\n)+---\s*(Check out the configuration reference at \S+)?\s*")
LOG_IN = "log in with `hf auth login`, or set HF_TOKEN, with a token that has write permission"


class HubError(ValueError):
    """Raised when a step on the Hub fails. The message never contains the token."""


class Repository(NamedTuple):
    """A repository as it was when it was opened. `head` is the commit of main. `tags` maps tags to commits."""

    api: Api
    repo_id: str
    repo_type: RepoType
    head: str
    tags: Mapping[str, str]

    def __str__(self) -> str:
        return f"{self.repo_type} {self.repo_id}"

    def files(self, revision: str) -> dict[str, str]:
        """Returns each file's digest in a revision, by path: the SHA-256 in LFS, otherwise the git blob id."""
        entries = self.api.list_repo_tree(self.repo_id, recursive=True, revision=revision, repo_type=self.repo_type)
        files = [entry for entry in entries if isinstance(entry, huggingface_hub.RepoFile)]
        return {str(file.path): file.lfs.sha256 if file.lfs else file.blob_id for file in files}

    def read(self, path: str, revision: str) -> str:
        with tempfile.TemporaryDirectory() as folder:
            file = self.api.hf_hub_download(
                self.repo_id, path, revision=revision, repo_type=self.repo_type, local_dir=folder
            )
            return Path(file).read_text(encoding="utf-8", errors="replace")

    def differing(self, revision: str, contents: Mapping[str, bytes]) -> dict[str, bytes]:
        """Returns the files whose content in a revision is missing or different."""
        present = self.files(revision)
        return {path: content for path, content in contents.items() if present.get(path) not in _digests(content)}

    def page(self, path: str) -> str:
        prefix = constants.REPO_TYPES_URL_PREFIXES.get(self.repo_type, "")
        return f"{self.api.endpoint}/{prefix}{self.repo_id}/{path}"


def endpoint() -> str:
    if "@" in urlsplit(constants.ENDPOINT).netloc:
        raise HubError("HF_ENDPOINT contains a user name or password, which would be published; remove it")
    protect_token()
    return constants.ENDPOINT


def connect() -> Api:
    """Creates a client with the token from `HF_TOKEN` or `hf auth login`."""
    api = huggingface_hub.HfApi(endpoint(), token=huggingface_hub.get_token())
    if api.token is None:
        raise HubError(f"no Hugging Face token is set; {LOG_IN}")
    return api


def open_repository(
    api: Api, repo_id: str, repo_type: RepoType, space_sdk: str | None = None, *, create: bool = True
) -> Repository:
    """Reads the branches and tags of a repository. Creates the repository if it does not exist."""
    with explained(api, f"Reading {repo_type} {repo_id}"):
        if create and not api.repo_exists(repo_id, repo_type=repo_type):
            api.create_repo(repo_id, repo_type=repo_type, space_sdk=space_sdk)
        refs = api.list_repo_refs(repo_id, repo_type=repo_type)
    branches, tags = ({ref.name: ref.target_commit for ref in of} for of in (refs.branches, refs.tags))
    return Repository(api, repo_id, repo_type, branches["main"], tags)


def publish(
    repository: Repository,
    files: Mapping[str, bytes],
    *,
    message: str,
    tag: str | None = None,
    among_other_files: bool = False,
) -> str:
    """Commits files and their record to main, and tags the commit. Returns a sentence that lists the changes.

    The commit also deletes files of an earlier publication that are not in `files`. If main already has this content,
    no commit is made. If the tag already has this content, nothing is done, because main may contain a later version.
    If somebody has changed main since the repository was opened, the Hub rejects the commit.

    If the repository contains other people's files, `HubError` is raised before anything is written. With
    `among_other_files`, no error is raised. Other people's files are then kept, but files at the same paths are
    replaced. If the tag exists with other content, `HubError` is always raised.
    """
    wanted = {path: _digests(content) for path, content in files.items()}
    record = (json.dumps({"about": ABOUT_RECORD, "files": wanted}, indent=1, sort_keys=True) + "\n").encode()
    contents, wanted[RECORD_FILE] = {**files, RECORD_FILE: record}, _digests(record)
    at = repository.tags.get(tag or "", repository.head)
    with explained(repository.api, f"Reading {repository}"):
        present = repository.files(at)
        ours = _ours(repository, at, present)
    missing = sorted(path for path in wanted if present.get(path) not in wanted[path])
    outdated = sorted(ours - wanted.keys())
    kept = sorted(present.keys() - ours - wanted.keys() - HUB_FILES)
    if tag in repository.tags:
        if missing or outdated:
            raise HubError(
                f"{repository} already has a tag {tag}, with other content ({', '.join([*missing, *outdated])}). "
                "Nothing was written; publish these files as another version"
            )
        return f"nothing to do ({repository.page(f'commit/{at}')})"
    in_the_way = [path for path in missing if path in present and path not in ours]
    theirs = in_the_way if RECORD_FILE in ours else in_the_way + kept
    if theirs and not among_other_files:
        raise HubError(
            f"{repository} contains files that no publication of HolisticBias wrote, or that somebody has changed "
            f"since: {', '.join(sorted(theirs))}. Nothing was written; set the right repository, or "
            f"--among_other_files, which replaces {', '.join(in_the_way) or 'no file'} and keeps every other file"
        )
    commit = at
    if missing or outdated:
        commit = _commit(repository, {path: contents[path] for path in missing}, outdated, message)
    if tag is not None:
        with explained(repository.api, f"The files are published (commit {commit}). Setting the tag {tag}"):
            repository.api.create_tag(repository.repo_id, tag=tag, revision=commit, repo_type=repository.repo_type)
    parts = {"written": missing, "deleted": outdated, "other people's files, left unchanged": kept}
    listed = "; ".join(f"{what}: {', '.join(paths)}" for what, paths in parts.items() if paths)
    return f"published as {repository.page(f'commit/{commit}')} ({listed or 'no changes'})"


def propose(repository: Repository, files: Mapping[str, bytes], *, title: str, description: str) -> tuple[str, bool]:
    """Opens a pull request that writes files to a model's repository. Returns its page, and whether it is new.

    If this account already has an open pull request with the same title and content, that request's page is returned.
    A new request starts at `repository.head`, on which the contents are based, so later commits by the owners are kept.
    """
    api, repo_id = repository.api, repository.repo_id
    with explained(api, f"Opening a pull request on {repository}"):
        opened = api.get_repo_discussions(
            repo_id, author=api.whoami(cache=True)["name"], discussion_type="pull_request", discussion_status="open"
        )
        for pull_request in opened:
            if pull_request.title == title and not repository.differing(f"refs/pr/{pull_request.num}", files):
                return repository.page(f"discussions/{pull_request.num}"), False
        info = api.create_commit(
            repo_id,
            [huggingface_hub.CommitOperationAdd(path, content) for path, content in files.items()],
            commit_message=title,
            commit_description=description,
            parent_commit=repository.head,
            create_pr=True,
        )
    return repository.page(f"discussions/{info.pr_num}"), True


@contextmanager
def explained(api: Api, step: str) -> Iterator[None]:
    # If the connection breaks, the HTTP library raises HTTPError and not OSError. A failed upload raises RuntimeError,
    # and a rejected README.md raises ValueError.
    try:
        yield
    except OfflineModeIsEnabled:
        raise HubError("HF_HUB_OFFLINE is set, so the Hub cannot be reached; unset it") from None
    except (HTTPError, OSError, ValueError, RuntimeError) as error:
        response = getattr(error, "response", None) or getattr(error.__cause__, "response", None)
        log_in = f"{LOG_IN}, and " if response is not None and response.status_code in (401, 403) else ""
        # `from None` hides the client's error, because its traceback would print the request.
        raise HubError(
            f"{step} failed: {_reason(error, api)}; {log_in}run the same command again to complete the missing steps"
        ) from None


def _reason(error: BaseException, api: Api) -> str:
    if isinstance(error, HfHubHTTPError):
        text = f"HTTP {error.response.status_code}, {error.server_message or str(error).splitlines()[0]}"
    else:
        text = f"{type(error).__name__}: {error}"
        text += f" ({_reason(error.__cause__, api)})" if error.__cause__ is not None else ""
    text = " ".join(text.replace(str(api.token), "…").split())
    return re.sub(r"\?[^\s'\")]*", "?…", text).rstrip(".")  # a signed address has its signature after the "?"


def _digests(content: bytes) -> list[str]:
    """Returns both digests that the Hub may use for a file: the git blob id, and the SHA-256 (for files in LFS)."""
    return [git_hash(content), sha256(content).hexdigest()]


def _ours(repository: Repository, revision: str, present: Mapping[str, str]) -> set[str]:
    """Returns the paths of files that the last publication wrote and that nobody has changed since.

    If there was no publication, a README.md without a text of its own may be replaced.
    """
    if RECORD_FILE in present:
        files = json.loads(repository.read(RECORD_FILE, revision))["files"]
        return {RECORD_FILE} | {path for path in files if path in present and present[path] in files[path]}
    if CARD_FILE in present and _HUB_CARD.fullmatch(repository.read(CARD_FILE, revision)):
        return {CARD_FILE}
    return set()


def _commit(repository: Repository, added: Mapping[str, bytes], outdated: Sequence[str], message: str) -> str:
    operations: list[huggingface_hub.CommitOperationAdd | huggingface_hub.CommitOperationDelete] = []
    operations += [huggingface_hub.CommitOperationAdd(path, content) for path, content in added.items()]
    operations += [huggingface_hub.CommitOperationDelete(path, is_folder=False) for path in outdated]
    with explained(repository.api, f"Committing to {repository}"):
        commit = repository.api.create_commit(
            repository.repo_id,
            operations,
            commit_message=message,
            repo_type=repository.repo_type,
            parent_commit=repository.head,
        ).oid
        lacking = repository.differing(commit, added)
    if lacking:  # the client silently skips files that a .gitignore in the repository excludes
        raise HubError(
            f"commit {commit} of {repository} lacks {', '.join(lacking)}, so no tag was set; delete the repository's "
            ".gitignore, which excludes these files, and run the same command again"
        )
    return commit


def repo_id(text: str) -> str:
    try:
        validate_repo_id(text)
    except ValueError as error:  # argparse shows only the messages of its own errors
        raise argparse.ArgumentTypeError(str(error)) from error
    if "/" not in text:
        raise argparse.ArgumentTypeError(f"{text!r} has no owner; write OWNER/NAME, as on the repository's page")
    return text


def new_folder(text: str) -> Path:
    folder = Path(text)
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise argparse.ArgumentTypeError(f"'{text}' is not an empty folder; set a new folder, or empty it")
    return folder


def publishing_parser(description: str | None, *, other_files: bool = True) -> CommandParser:
    """Returns a parser with the options that scripts which publish share."""
    parser = CommandParser(description=description)
    parser.add_argument(
        "--dry_run",
        type=new_folder,
        metavar="DIR",
        help="Write the files to this new or empty folder instead of publishing them. This needs neither a token nor "
        "a network connection.",
    )

    if other_files:
        parser.add_argument(
            "--among_other_files",
            action="store_true",
            help="Publish even if the repository contains other people's files, or files that somebody changed after "
            "publication. The published files overwrite files with the same names, and all other files are kept.",
        )
    return parser


def write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    for path, content in files.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
