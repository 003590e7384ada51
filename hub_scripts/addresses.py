"""Checks of the repository names and web addresses that are given to the scripts as options."""

import tomllib
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path
from urllib.parse import urlsplit

from hub_scripts.hub_errors import HubError

PROJECT_FILE = Path(__file__).parent.parent / "pyproject.toml"
DISTRIBUTION = "holistic-bias"
WHEEL_LABEL = "Source, "  # a wheel's Project-URL is a label and an address

REPO_ID_ERROR = "{option} '{repo_id}' is not the name of a repository; write OWNER/NAME"
ADDRESS_ERROR = (
    "{option} {address!r} is not the address of a web page; write all of it, beginning with https:// (or http://), "
    "without spaces and without a user name or password"
)


def check_repo_id(repo_id: str, option: str = "repo_id") -> None:
    """Checks that a name is a valid OWNER/NAME of a repository of the Hub.

    Raises:
        HubError: If it is not; the message names the `option` it was given as.
    """
    if not is_repo_id(repo_id):
        raise HubError(REPO_ID_ERROR.format(option=option, repo_id=repo_id))


def is_repo_id(repo_id: str) -> bool:
    """Whether a name is a valid OWNER/NAME of a repository of the Hub."""
    from huggingface_hub.utils import HFValidationError, validate_repo_id

    try:
        validate_repo_id(repo_id)
    except HFValidationError:
        return False
    return "/" in repo_id


def check_address(address: str, option: str) -> None:
    """Checks that an address is that of a web page, so that it can be published as a link.

    Raises:
        HubError: If it is not; the message names the `option` it was given as.
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

    It is read from this checkout, or, if the package was installed from a wheel, from the metadata that pip keeps.
    """
    if PROJECT_FILE.is_file():
        return tomllib.loads(PROJECT_FILE.read_text(encoding="utf-8"))["project"].get("urls", {}).get("Source")
    try:
        urls = metadata(DISTRIBUTION).get_all("Project-URL", [])
    except PackageNotFoundError:
        return None
    return next((url.removeprefix(WHEEL_LABEL) for url in urls if url.startswith(WHEEL_LABEL)), None)
