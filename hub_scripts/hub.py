"""Writes to repositories of the Hugging Face Hub: a version's files in one commit, and a tag that never moves.

For the publishing scripts. Whatever fails on the way, nothing is half-published: the files are one commit, which the
Hub takes whole or not at all, the tag comes after it, and the same command again does what is still missing. What no
publication wrote is not deleted, and replaced only if that is asked for (see hub_contents.py).
"""

import argparse
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from hub_scripts.addresses import check_repo_id
from hub_scripts.hub_contents import RECORD_FILE, Contents, LocalFile, RepoType, compare, files_at, record
from hub_scripts.hub_errors import AGAIN, LOG_IN, REMEDIES, HubError, reason, status

if TYPE_CHECKING:
    from huggingface_hub import HfApi
    from huggingface_hub.hf_api import GitRefs

# huggingface_hub is imported where it is needed: a script's --help and --dry_run do without.

URL_PREFIXES = {"model": "", "dataset": "datasets/", "space": "spaces/"}
MAIN = "main"
_FEW, _MANY = 5, 50

NO_TOKEN_ERROR = f"there is no Hugging Face token; {LOG_IN}"
WRONG_TOKEN_ERROR = f"{{endpoint}} does not accept the token in use ({{reason}}); {LOG_IN}"
READ_TOKEN_ERROR = f"the token in use, of {{user}}, can only read; {LOG_IN}"
OFFLINE_ERROR = "HF_HUB_OFFLINE is set, so that the Hub cannot be asked; unset it"
NO_HUB_ERROR = (
    "{endpoint} cannot be asked who has the token in use ({reason}); see whether it can be reached, try again"
)
NO_FILES_ERROR = "there are no files to push to {repo}"
TAGGED_PULL_REQUEST_ERROR = "a pull request has no tag, but tag is {tag!r}; leave one of the two out"
NO_REPO_ERROR = (
    "{repo} is not there, or the token in use cannot see it; a pull request needs a repository: check its name and type"
)
MOVED_TAG_ERROR = (
    "{repo} has a tag {tag} already, with other content ({differences}). A tag is never moved. Nothing was written; "
    "publish these files as another version"
)
OTHER_FILES_ERROR = (
    "{repo} holds files that no publication of HolisticBias wrote, or that somebody has changed since: {files}. "
    "Nothing was written; see whether it is the repository you mean. With --among_other_files it goes on: {replaced}, "
    "and what is not in the way stays"
)
STEP_ERROR = "{step} {repo} failed: {reason}. {holds}; {remedy}"
INCOMPLETE_ERROR = (
    "{repo} does not hold what was sent to it: its commit {commit} has other content ({differences}). {then}; see if a "
    ".gitignore in it leaves files out and delete that, then run the same command again"
)

# What the Hub holds after a failure.
NOTHING_WRITTEN = "Nothing was written to {repo}"
NEW_AND_EMPTY = "The new {repo} is there, but none of these files"
OTHERS_COMMIT = "Somebody else has committed to {repo} meanwhile ({commit}); of these files nothing was written"
COMMITTED = "The files are there (commit {commit})"
COMMITTED_NOT_TAGGED = "The files are there (commit {commit}), but not the tag {tag}"
TAGGED = "The files are there, and so is the tag {tag}"
NO_PULL_REQUEST = "No pull request was opened on {repo}"
PULL_REQUEST_OPENED = "The pull request is there ({url})"
UNKNOWN = "What {repo} holds now could not be asked"


class Pushed(NamedTuple):
    """What `push` found or did.

    Attributes:
        commit: The oid of the commit that holds the files.
        url: The page of that commit, or of the pull request.
        written: The paths written, sorted.
        tagged: Whether the tag was set by this call.
        deleted: The paths of an earlier publication that were deleted, sorted.
        kept: The paths of other people's files, which were left as they are, sorted.
    """

    commit: str
    url: str
    written: tuple[str, ...]
    tagged: bool
    deleted: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()

    def summary(self) -> str:
        """What was written, deleted and left alone, in a line."""
        parts = [("written", self.written), ("deleted", self.deleted), ("other people's, left alone", self.kept)]
        return "; ".join(f"{what}: {_few(paths, _MANY)}" for what, paths in parts if paths)


def connect() -> "HfApi":
    """The client of the token in use: `HF_TOKEN`, or that of `hf auth login`.

    Raises:
        HubError: If there is no token, the Hub does not accept it or it can only read, or the Hub cannot be asked.
    """
    import huggingface_hub
    from huggingface_hub.errors import HTTPError, OfflineModeIsEnabled

    token = huggingface_hub.get_token()
    if token is None:
        raise HubError(NO_TOKEN_ERROR)
    api = huggingface_hub.HfApi(token=token)
    try:
        account = api.whoami(cache=True)
    except OfflineModeIsEnabled:
        raise HubError(OFFLINE_ERROR) from None
    except (HTTPError, OSError, ValueError) as error:
        message = WRONG_TOKEN_ERROR if status(error) in (401, 403) else NO_HUB_ERROR
        raise HubError(message.format(endpoint=api.endpoint, reason=reason(error, api))) from None
    if account.get("auth", {}).get("accessToken", {}).get("role") == "read":
        raise HubError(READ_TOKEN_ERROR.format(user=account["name"]))
    return api


def add_other_files_option(parser: argparse.ArgumentParser) -> None:
    """Adds the option that lets `push` into a repository that holds other people's files."""
    parser.add_argument(
        "--among_other_files",
        action="store_true",
        help="go on where the repo holds files that no publication of this project wrote, or that were changed since: "
        "those in the way are replaced, the others stay (without it: they are listed, and nothing is written)",
    )


def push(
    api: "HfApi",
    repo_id: str,
    files: Mapping[str, Path | bytes],
    *,
    repo_type: RepoType,
    message: str,
    description: str = "",
    tag: str | None = None,
    pull_request: bool = False,
    space_sdk: str | None = None,
    among_other_files: bool = False,
    yielding: Collection[str] = (),
) -> Pushed:
    """Makes a repository hold these files and a record of them, in one commit, and tags it.

    The repository is made if it is not there. The same commit deletes what an earlier publication wrote and is not
    among the files, and nothing else. If main has this content already there is no commit, and if the tag has it there
    is nothing to do: main is left alone, which may be at a later version by then.

    Files that no publication wrote stay. If one is in the way, or there is nothing else, nothing is written.

    Args:
        api: From `connect`.
        repo_id: "ORG/name".
        files: Path in the repository → the local file, or its content.
        repo_type: The kind of repository.
        message: The first line of the commit message; the title of a pull request.
        description: The rest of it; the text of a pull request.
        tag: The tag to set on the commit; `None`: none.
        pull_request: Whether to open a pull request instead. It deletes nothing. An open one by the same account, with
            this title and these files in it, is returned instead of opening another.
        space_sdk: What a new Space runs on, such as "gradio".
        among_other_files: Whether to go on where there are other people's files, and to replace those in the way.
        yielding: Paths that are not written where there is somebody else's file.

    Raises:
        HubError: If there are other people's files, or the tag is there with other content (before anything is
            written), or if a step fails.
        ValueError: If there are no files, or a tag for a pull request.
    """
    if not files:
        raise ValueError(NO_FILES_ERROR.format(repo=f"{repo_type} {repo_id}"))
    if pull_request and tag is not None:
        raise ValueError(TAGGED_PULL_REQUEST_ERROR.format(tag=tag))
    check_repo_id(repo_id)
    local = {path: LocalFile.of(files[path]) for path in sorted(files)}
    if not pull_request:
        local[RECORD_FILE] = LocalFile.of(record(local))
    target = _Target(api, repo_id, repo_type, local, tag, yielding)
    with _explained(target, "Looking at", lambda: target.says(NOTHING_WRITTEN)):
        refs = _refs(target)
    if pull_request:
        return _open_pull_request(target, refs, message, description)

    is_new = refs is None
    if refs is not None:
        with _explained(target, "Looking at", lambda: target.says(NOTHING_WRITTEN)):
            if (done := _already_tagged(target, refs)) is not None:
                return done
    else:
        with _explained(target, "Making", lambda: _holds_now(target, None, is_new)):
            api.create_repo(repo_id, repo_type=repo_type, space_sdk=space_sdk, exist_ok=True)
    with _explained(target, "Looking at", lambda: target.says(NEW_AND_EMPTY if is_new else NOTHING_WRITTEN)):
        head = _head(refs or _refs(target))
        found = target.compare(head)
        if not among_other_files:
            _check_other_files(target, found)
    commit = head
    if commit is None or found.missing or found.outdated:
        with _explained(target, "Committing to", lambda: _holds_now(target, head, is_new)):
            commit = _commit(target, found, message, description, parent=head)
            _check_commit(target, commit, then="No tag was set", deleted=found.outdated)
    if tag is not None:
        with _explained(target, "Tagging", lambda: _holds_now(target, commit, is_new)):
            api.create_tag(repo_id, tag=tag, revision=commit, repo_type=repo_type)
    page = target.page(f"commit/{commit}")
    written, deleted, kept = map(tuple, (found.missing, found.outdated, found.others))
    return Pushed(commit, page, written, tag is not None, deleted, kept)


# --- comparing --------------------------------------------------------------------------------------------------------


class _Target(NamedTuple):
    """A repository, and what it is to hold."""

    api: "HfApi"
    repo_id: str
    repo_type: RepoType
    files: dict[str, LocalFile]
    tag: str | None
    yielding: Collection[str] = ()

    def compare(self, revision: str | None) -> Contents:
        return compare(self.api, self.repo_id, self.repo_type, revision, self.files, self.yielding)

    def differences(self, revision: str, deleted: Collection[str] = ()) -> list[str]:
        """The paths of files that a revision lacks or has otherwise, and of those deleted that it still has."""
        there = files_at(self.api, self.repo_id, self.repo_type, revision)
        lacking = [
            path
            for path, file in self.files.items()
            if path not in there or not (path in self.yielding or file.digests.are_of(there[path]))
        ]
        return lacking + sorted(there.keys() & set(deleted))

    def says(self, text: str, **values: str | None) -> str:
        return text.format(repo=f"{self.repo_type} {self.repo_id}", tag=self.tag, **values)

    def page(self, path: str) -> str:
        return f"{self.api.endpoint}/{URL_PREFIXES[self.repo_type]}{self.repo_id}/{path}"


def _refs(target: _Target) -> "GitRefs | None":
    """The repository's branches and tags; `None` if it is not there."""
    from huggingface_hub.errors import RepositoryNotFoundError

    try:
        return target.api.list_repo_refs(target.repo_id, repo_type=target.repo_type)
    except RepositoryNotFoundError as error:
        if error.response.status_code == 401:  # not asked as anybody, so that it may well be there
            raise
        return None


def _head(refs: "GitRefs | None") -> str | None:
    """The commit of main; `None` if there is none."""
    return next((branch.target_commit for branch in refs.branches if branch.name == MAIN), None) if refs else None


def _check_other_files(target: _Target, found: Contents) -> None:
    """Sees that nothing of other people would be replaced, and that this is no repository of something else.

    Raises:
        HubError: Otherwise; the message lists their files.
    """
    files = sorted(found.in_the_way if found.is_published else [*found.in_the_way, *found.others])
    if files:
        replaced = f"{_few(found.in_the_way)} would be replaced" if found.in_the_way else "nothing would be replaced"
        raise HubError(target.says(OTHER_FILES_ERROR, files=_few(files, _MANY), replaced=replaced))


def _already_tagged(target: _Target, refs: "GitRefs") -> Pushed | None:
    """What there is to say if the tag is there and has this content; `None` if there is no such tag.

    Raises:
        HubError: If it has other content.
    """
    commit = next((tag.target_commit for tag in refs.tags if tag.name == target.tag), None)
    if commit is None:
        return None
    found = target.compare(commit)
    # The record follows from the files, and earlier publications have none.
    if differences := sorted({*found.missing, *found.outdated} - {RECORD_FILE}):
        raise HubError(target.says(MOVED_TAG_ERROR, differences=_few(differences)))
    return Pushed(commit, target.page(f"commit/{commit}"), (), False, kept=tuple(found.others))


# --- writing ----------------------------------------------------------------------------------------------------------


def _commit(target: _Target, found: Contents, message: str, description: str, parent: str | None) -> str:
    """Commits to main; the oid. Refused by the Hub if main is no longer at `parent`."""
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete

    info = target.api.create_commit(
        target.repo_id,
        [
            *(CommitOperationAdd(path, target.files[path].source) for path in found.missing),
            *(CommitOperationDelete(path, is_folder=False) for path in found.outdated),
        ],
        commit_message=message,
        commit_description=description,
        repo_type=target.repo_type,
        parent_commit=parent,
    )
    return info.oid


def _check_commit(target: _Target, commit: str, then: str, deleted: Collection[str] = ()) -> None:
    """Sees whether a commit holds the files: the client leaves out without a word what a .gitignore names."""
    if differences := target.differences(commit, deleted):
        raise HubError(target.says(INCOMPLETE_ERROR, commit=commit, differences=_few(differences), then=then))


def _open_pull_request(target: _Target, refs: "GitRefs | None", message: str, description: str) -> Pushed:
    """Opens a pull request with the files that main lacks or has otherwise, if there is no such one yet."""
    from huggingface_hub import CommitOperationAdd

    if (head := _head(refs)) is None:
        raise HubError(target.says(NO_REPO_ERROR))
    with _explained(target, "Looking at", lambda: target.says(NO_PULL_REQUEST)):
        written = target.differences(head)
        if not written:
            return Pushed(head, target.page(f"commit/{head}"), (), False)
        if (opened := _opened_pull_request(target, message)) is not None:
            return opened
    with _explained(target, "Opening a pull request on", lambda: _pull_request_now(target, message)):
        info = target.api.create_commit(
            target.repo_id,
            [CommitOperationAdd(path, target.files[path].source) for path in written],
            commit_message=message,
            commit_description=description,
            repo_type=target.repo_type,
            parent_commit=head,
            create_pr=True,
        )
        _check_commit(target, info.oid, then=target.says(PULL_REQUEST_OPENED, url=info.pr_url))
    return Pushed(info.oid, str(info.pr_url), tuple(written), False)


def _opened_pull_request(target: _Target, title: str) -> Pushed | None:
    """The open pull request of this account that has this title and these files."""
    api, repo_id, repo_type = target[:3]
    account = api.whoami(cache=True)["name"]
    found = api.get_repo_discussions(repo_id, author=account, discussion_type="pull_request", repo_type=repo_type)
    for discussion in found:
        if discussion.title != title or discussion.status not in ("open", "draft"):
            continue
        commit = api.repo_info(repo_id, repo_type=repo_type, revision=f"refs/pr/{discussion.num}").sha
        if commit is not None and not target.differences(commit):
            return Pushed(commit, target.page(f"discussions/{discussion.num}"), (), False)
    return None


# --- failing ----------------------------------------------------------------------------------------------------------


@contextmanager
def _explained(target: _Target, step: str, holds: Callable[[], str]) -> Iterator[None]:
    """Turns what the client raises into a HubError; `holds` says what the Hub holds then."""
    from huggingface_hub.errors import HTTPError

    # HTTPError is that of the HTTP library in use: a connection that breaks is no OSError there. What goes wrong in an
    # upload comes as RuntimeError, and a README.md that the Hub refuses as ValueError.
    errors = (HTTPError, OSError, ValueError, RuntimeError)
    try:
        yield
    except HubError:
        raise
    except errors as error:
        try:
            there = holds()
        except errors:
            there = target.says(UNKNOWN)
        # The client's error is not shown as the cause: it would put the request on the console.
        raise HubError(
            target.says(
                STEP_ERROR,
                step=step,
                reason=reason(error, target.api),
                holds=there,
                remedy=REMEDIES.get(status(error), AGAIN),
            )
        ) from None


def _holds_now(target: _Target, head_before: str | None, is_new: bool) -> str:
    """What the Hub holds after a failure; asked, since a request that failed may have been carried out all the same."""
    refs = _refs(target)
    head = _head(refs)
    if refs is None or head is None:
        return target.says(NOTHING_WRITTEN)
    if any(tag.name == target.tag and not target.differences(tag.target_commit) for tag in refs.tags):
        return target.says(TAGGED)
    if not target.differences(head):
        return target.says(COMMITTED_NOT_TAGGED if target.tag else COMMITTED, commit=head)
    if head_before is not None and head != head_before:
        return target.says(OTHERS_COMMIT, commit=head)
    return target.says(NEW_AND_EMPTY if is_new else NOTHING_WRITTEN)


def _pull_request_now(target: _Target, title: str) -> str:
    opened = _opened_pull_request(target, title)
    return target.says(PULL_REQUEST_OPENED, url=opened.url) if opened else target.says(NO_PULL_REQUEST)


def _few(paths: Sequence[str], most: int = _FEW) -> str:
    shown = [path if path.isprintable() else ascii(path) for path in paths[:most]]
    return ", ".join(shown) + (f" and {len(paths) - most} more" if len(paths) > most else "")
