"""Writes to repositories of the Hugging Face Hub: a version's files in one commit, and a tag that never moves.

For the publishing scripts. Whatever fails, nothing is half-published: the files are one commit, which the Hub takes
completely or not at all, the tag is set after it, and running the same command again does what is still missing. Files
of other people are never deleted, and replaced only if the caller asks for that (see hub_contents.py).
"""

import argparse
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from hub_scripts.addresses import check_repo_id
from hub_scripts.hub_contents import RECORD_FILE, Contents, LocalFile, Repo, RepoType, compare, record
from hub_scripts.hub_errors import AGAIN, LOG_IN, REMEDIES, HubError, reason, status

if TYPE_CHECKING:
    from huggingface_hub import HfApi
    from huggingface_hub.hf_api import GitRefs

# huggingface_hub is imported where it is needed: a script's --help and --dry_run do without it.

MAIN = "main"
_FEW, _MANY = 5, 50  # paths in a message

NO_TOKEN_ERROR = f"there is no Hugging Face token; {LOG_IN}"
WRONG_TOKEN_ERROR = f"{{endpoint}} does not accept the token in use ({{reason}}); {LOG_IN}"
READ_TOKEN_ERROR = f"the token in use, of {{user}}, can only read; {LOG_IN}"
OFFLINE_ERROR = "HF_HUB_OFFLINE is set, so the Hub cannot be reached; unset it"
NO_HUB_ERROR = (
    "{endpoint} did not answer whose token is in use ({reason}); check whether it can be reached, and try again"
)
NO_FILES_ERROR = "there are no files to publish in {repo}"
TAGGED_PULL_REQUEST_ERROR = "a pull request has no tag, but tag is {tag!r}; leave one of the two out"
NO_REPO_ERROR = (
    "{repo} does not exist, or the token in use cannot see it; a pull request needs a repository: check its name and "
    "type"
)
MOVED_TAG_ERROR = (
    "{repo} already has a tag {tag}, with other content ({differences}). A tag is never moved. Nothing was written; "
    "publish these files as another version"
)
OTHER_FILES_ERROR = (
    "{repo} holds files that no publication of HolisticBias wrote, or that somebody has changed since: {files}. "
    "Nothing was written; check whether it is the repository you mean. To publish in it all the same, add "
    "--among_other_files: {replaced}, and all other files of other people stay"
)
STEP_ERROR = "{step} {repo} failed: {reason}. {state}; {remedy}"
INCOMPLETE_ERROR = (
    "{repo} does not hold what was sent to it: its commit {commit} has other content ({differences}). {state}; check "
    "whether a .gitignore in it leaves files out, delete that, and run the same command again"
)

# What the Hub holds after a failure.
NOTHING_WRITTEN = "Nothing was written to {repo}"
NEW_AND_EMPTY = "The new {repo} was created, but has none of these files"
OTHERS_COMMIT = "Somebody else has committed to {repo} meanwhile ({commit}), and none of these files was written"
COMMITTED = "The files are published (commit {commit})"
COMMITTED_NOT_TAGGED = "The files are published (commit {commit}), but the tag {tag} is not set"
TAGGED = "The files are published, and the tag {tag} is set"
NO_PULL_REQUEST = "No pull request was opened on {repo}"
PULL_REQUEST_OPENED = "The pull request is open ({url})"
UNKNOWN = "What {repo} holds now is not known"


class Pushed(NamedTuple):
    """What `push` did.

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
        return "; ".join(f"{what}: {_listed(paths, _MANY)}" for what, paths in parts if paths)


def connect() -> "HfApi":
    """Makes a client with the token in use: `HF_TOKEN`, or that of `hf auth login`.

    Raises:
        HubError: If there is no token, it can only read, the Hub does not accept it, or the Hub does not answer.
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
    """Adds the option that lets `push` write to a repository that holds other people's files."""
    parser.add_argument(
        "--among_other_files",
        action="store_true",
        help="Publish also in a repository with files that this project did not publish, or that were changed since. "
        "Those at a path that is published are replaced, the others stay. Without this option they are listed, and "
        "nothing is written.",
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
    keep_theirs: Collection[str] = (),
) -> Pushed:
    """Makes a repository hold these files and a record of them, in one commit, and tags it.

    The repository is created if it does not exist. The same commit deletes the files that an earlier publication wrote
    and that are no longer among the files, and nothing else. If main already has this content, there is no commit. If
    the tag already has it, nothing is done: main, which may be at a later version by then, is left alone.

    Files of other people stay. If one of them is at a path to write, or if the repository has only such files, nothing
    is written.

    Args:
        api: From `connect`.
        repo_id: "ORG/name".
        files: Path in the repository → the local file, or its content.
        repo_type: The kind of repository.
        message: The first line of the commit message; the title of a pull request.
        description: The rest of the commit message; the text of a pull request.
        tag: The tag to set on the commit; `None` for no tag.
        pull_request: Whether to open a pull request instead. It deletes nothing. An open one by the same account, with
            this title and these files in it, is returned instead of opening another.
        space_sdk: What a new Space runs on, such as "gradio".
        among_other_files: Whether to publish also where there are other people's files, and to replace those at a path
            to write.
        keep_theirs: Paths that are not written where there is a file of other people.

    Raises:
        HubError: If there are other people's files, or the tag exists with other content (before anything is written),
            or if a step fails.
        ValueError: If there are no files, or a tag for a pull request.
    """
    repo = Repo(api, repo_id, repo_type)
    if not files:
        raise ValueError(NO_FILES_ERROR.format(repo=repo))
    if pull_request and tag is not None:
        raise ValueError(TAGGED_PULL_REQUEST_ERROR.format(tag=tag))
    check_repo_id(repo_id)
    local = {path: LocalFile.of(files[path]) for path in sorted(files)}
    if not pull_request:
        local[RECORD_FILE] = LocalFile.of(record(local))
    target = _Target(repo, local, tag, keep_theirs)
    with _explained(target, "Reading", NOTHING_WRITTEN):
        refs = _refs(repo)
        if pull_request:
            return _open_pull_request(target, _head(refs), message, description)
        if (done := _already_tagged(target, refs)) is not None:
            return done
    is_new = refs is None
    if is_new:
        with _explained(target, "Creating", lambda: _state(target, None, is_new)):
            api.create_repo(repo_id, repo_type=repo_type, space_sdk=space_sdk, exist_ok=True)
    with _explained(target, "Reading", NEW_AND_EMPTY if is_new else NOTHING_WRITTEN):
        head = _head(_refs(repo) if is_new else refs)
        contents = target.compare(head)
        if not among_other_files:
            _check_other_files(target, contents)
    commit = head
    if commit is None or contents.missing or contents.outdated:
        with _explained(target, "Committing to", lambda: _state(target, head, is_new)):
            commit, _ = _commit(target, head, message, description, contents.missing, contents.outdated)
    if tag is not None:
        with _explained(target, "Tagging", lambda: _state(target, commit, is_new)):
            api.create_tag(repo_id, tag=tag, revision=commit, repo_type=repo_type)
    written, deleted, kept = map(tuple, (contents.missing, contents.outdated, contents.others))
    return Pushed(commit, repo.page(f"commit/{commit}"), written, tag is not None, deleted, kept)


# --- comparing --------------------------------------------------------------------------------------------------------


class _Target(NamedTuple):
    """A repository, and what it is to hold."""

    repo: Repo
    files: dict[str, LocalFile]
    tag: str | None
    keep_theirs: Collection[str]

    def compare(self, revision: str | None) -> Contents:
        return compare(self.repo, revision, self.files, self.keep_theirs)

    def differences(self, revision: str, deleted: Collection[str] = ()) -> list[str]:
        """The paths of files that a revision lacks or has otherwise, and of those deleted that it still has."""
        present = self.repo.files(revision)
        lacking = [
            path
            for path, file in self.files.items()
            if path not in present or not (path in self.keep_theirs or file.digests.match(present[path]))
        ]
        return lacking + sorted(present.keys() & set(deleted))

    def text(self, message: str, **values: str | None) -> str:
        return message.format(repo=self.repo, tag=self.tag, **values)


def _refs(repo: Repo) -> "GitRefs | None":
    """The repository's branches and tags; `None` if it does not exist."""
    from huggingface_hub.errors import RepositoryNotFoundError

    try:
        return repo.api.list_repo_refs(repo.repo_id, repo_type=repo.repo_type)
    except RepositoryNotFoundError as error:
        if error.response.status_code == 401:  # the token was not accepted, so it may well exist
            raise
        return None


def _head(refs: "GitRefs | None") -> str | None:
    """The commit of main; `None` if there is none."""
    return next((branch.target_commit for branch in refs.branches if branch.name == MAIN), None) if refs else None


def _check_other_files(target: _Target, contents: Contents) -> None:
    """Checks that no file of other people would be replaced, and that the repository does not have only such files.

    Raises:
        HubError: Otherwise; the message lists their files.
    """
    files = sorted(contents.in_the_way if contents.is_published else [*contents.in_the_way, *contents.others])
    if files:
        replaced = f"{_listed(contents.in_the_way)} would be" if contents.in_the_way else "nothing would be"
        raise HubError(target.text(OTHER_FILES_ERROR, files=_listed(files, _MANY), replaced=f"{replaced} replaced"))


def _already_tagged(target: _Target, refs: "GitRefs | None") -> Pushed | None:
    """What `push` returns if the tag exists with this content; `None` if there is no such tag.

    Raises:
        HubError: If it exists with other content.
    """
    commit = next((tag.target_commit for tag in refs.tags if tag.name == target.tag), None) if refs else None
    if commit is None:
        return None
    contents = target.compare(commit)
    # The record follows from the files, and earlier publications have none.
    if differences := sorted({*contents.missing, *contents.outdated} - {RECORD_FILE}):
        raise HubError(target.text(MOVED_TAG_ERROR, differences=_listed(differences)))
    return Pushed(commit, target.repo.page(f"commit/{commit}"), (), False, kept=tuple(contents.others))


# --- writing ----------------------------------------------------------------------------------------------------------


def _commit(
    target: _Target,
    parent: str | None,
    message: str,
    description: str,
    added: Sequence[str],
    deleted: Sequence[str] = (),
    pull_request: bool = False,
) -> tuple[str, str | None]:
    """Commits to main, or to a new pull request; the commit's oid, and the address of the pull request.

    The Hub refuses a commit to main if main is no longer at `parent`. A pull request starts from `parent`.

    Raises:
        HubError: If the commit does not hold the files: without an error, the client leaves out those that a .gitignore
            in the repository names.
    """
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete

    info = target.repo.api.create_commit(
        target.repo.repo_id,
        [
            *(CommitOperationAdd(path, target.files[path].source) for path in added),
            *(CommitOperationDelete(path, is_folder=False) for path in deleted),
        ],
        commit_message=message,
        commit_description=description,
        repo_type=target.repo.repo_type,
        parent_commit=parent,
        create_pr=pull_request,
    )
    if differences := target.differences(info.oid, deleted):
        state = target.text(PULL_REQUEST_OPENED, url=info.pr_url) if pull_request else "No tag was set"
        raise HubError(target.text(INCOMPLETE_ERROR, commit=info.oid, differences=_listed(differences), state=state))
    return info.oid, info.pr_url


def _open_pull_request(target: _Target, head: str | None, message: str, description: str) -> Pushed:
    """Opens a pull request with the files that main lacks or has otherwise, if there is no such one yet."""
    if head is None:
        raise HubError(target.text(NO_REPO_ERROR))
    with _explained(target, "Reading", NO_PULL_REQUEST):
        written = target.differences(head)
        if not written:
            return Pushed(head, target.repo.page(f"commit/{head}"), (), False)
        if (opened := _opened_pull_request(target, message)) is not None:
            return opened
    with _explained(target, "Opening a pull request on", lambda: _pull_request_state(target, message)):
        commit, url = _commit(target, head, message, description, written, pull_request=True)
    return Pushed(commit, str(url), tuple(written), False)


def _opened_pull_request(target: _Target, title: str) -> Pushed | None:
    """The open pull request of this account that has this title and these files."""
    api, repo_id, repo_type = target.repo
    discussions = api.get_repo_discussions(
        repo_id, author=api.whoami(cache=True)["name"], discussion_type="pull_request", repo_type=repo_type
    )
    for discussion in discussions:
        if discussion.title != title or discussion.status not in ("open", "draft"):
            continue
        commit = api.repo_info(repo_id, repo_type=repo_type, revision=f"refs/pr/{discussion.num}").sha
        if commit is not None and not target.differences(commit):
            return Pushed(commit, target.repo.page(f"discussions/{discussion.num}"), (), False)
    return None


# --- failing ----------------------------------------------------------------------------------------------------------


@contextmanager
def _explained(target: _Target, step: str, state: str | Callable[[], str]) -> Iterator[None]:
    """Turns what the client raises into a HubError; `state` is what the Hub holds then, or a function to ask it."""
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
            holds = target.text(state) if isinstance(state, str) else state()
        except errors:
            holds = target.text(UNKNOWN)
        remedy = REMEDIES.get(status(error), AGAIN)
        # The client's error is not shown as the cause: it would put the request on the console.
        raise HubError(
            target.text(STEP_ERROR, step=step, reason=reason(error, target.repo.api), state=holds, remedy=remedy)
        ) from None


def _state(target: _Target, head_before: str | None, is_new: bool) -> str:
    """What the Hub holds after a failure. It is asked, since a request that failed may have been carried out."""
    refs = _refs(target.repo)
    head = _head(refs)
    if refs is None or head is None:
        return target.text(NOTHING_WRITTEN)
    if any(tag.name == target.tag and not target.differences(tag.target_commit) for tag in refs.tags):
        return target.text(TAGGED)
    if not target.differences(head):
        return target.text(COMMITTED_NOT_TAGGED if target.tag else COMMITTED, commit=head)
    if head_before is not None and head != head_before:
        return target.text(OTHERS_COMMIT, commit=head)
    return target.text(NEW_AND_EMPTY if is_new else NOTHING_WRITTEN)


def _pull_request_state(target: _Target, title: str) -> str:
    opened = _opened_pull_request(target, title)
    return target.text(PULL_REQUEST_OPENED, url=opened.url) if opened else target.text(NO_PULL_REQUEST)


def _listed(paths: Sequence[str], most: int = _FEW) -> str:
    shown = [path if path.isprintable() else ascii(path) for path in paths[:most]]
    return ", ".join(shown) + (f" and {len(paths) - most} more" if len(paths) > most else "")
