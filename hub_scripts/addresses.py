"""Names of repositories and addresses of pages, as somebody gave them to a script."""

import tomllib
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path
from urllib.parse import urlsplit

from hub_scripts.hub_errors import HubError

PROJECT_FILE = Path(__file__).parent.parent / "pyproject.toml"
DISTRIBUTION = "holistic-bias"
WHEEL_LABEL = "Source, "  # a wheel's Project-URL is a label and an address

REPO_ID_ERROR = "{option} '{repo_id}' is not the name of a repo; write OWNER/NAME"
ADDRESS_ERROR = (
    "{option} {address!r} is not the address of a page that everybody may follow; write it from https:// (or http://) "
    "on, without spaces and without a user name or password"
)


def check_repo_id(repo_id: str, option: str = "repo_id") -> None:
    """Sees that a name can be that of a repository.

    Raises:
        HubError: It cannot; the message names the `option` it was given as.
    """
    from huggingface_hub.utils import HFValidationError, validate_repo_id

    try:
        validate_repo_id(repo_id)
    except HFValidationError:
        raise HubError(REPO_ID_ERROR.format(option=option, repo_id=repo_id)) from None
    if "/" not in repo_id:
        raise HubError(REPO_ID_ERROR.format(option=option, repo_id=repo_id))


def check_address(address: str, option: str) -> None:
    """Sees that an address is one of the web, which can be published as a link.

    Raises:
        HubError: It is not; the message names the `option` it was given as.
    """
    is_plain = address.isprintable() and not set(address) & set(' "<>\\^`{|}')
    try:
        parts = urlsplit(address)
        is_page = parts.scheme in ("https", "http") and bool(parts.hostname) and "@" not in parts.netloc
    except ValueError:
        is_page = False
    if not (is_plain and is_page):
        raise HubError(ADDRESS_ERROR.format(option=option, address=address))


def project_source() -> str | None:
    """The address of the source repository, if set: `Source` of `[project.urls]` in pyproject.toml.

    Read in this checkout, or, where the package was installed from a wheel, in what pip has kept of it.
    """
    if PROJECT_FILE.is_file():
        return tomllib.loads(PROJECT_FILE.read_text(encoding="utf-8"))["project"].get("urls", {}).get("Source")
    try:
        urls = metadata(DISTRIBUTION).get_all("Project-URL", [])
    except PackageNotFoundError:
        return None
    return next((url.removeprefix(WHEEL_LABEL) for url in urls if url.startswith(WHEEL_LABEL)), None)
