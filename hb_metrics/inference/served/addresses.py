"""Where a model is served, and which key is sent there: no secret is part of an address, and none goes to strangers."""

import ipaddress
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import SplitResult, urlsplit

KEY_VARIABLE = "HOLISTIC_BIAS_API_KEY"
# Keys that other programs use, and the hosts that gave them out: nobody else is sent them.
_OWN_KEYS = {"HF_TOKEN": ("huggingface.co",), "OPENAI_API_KEY": ("api.openai.com",)}
HUB_PROVIDER_VARIABLES = (KEY_VARIABLE, "HF_TOKEN")

FORM_ERROR = (
    "base_url '{url}' is no address of a server; give one such as http://localhost:8000/v1 or https://example.com/v1"
)


@dataclass(frozen=True)
class Key:
    """What is sent to prove who asks.

    Attributes:
        value: The key; shown nowhere.
        variable: The environment variable that it is from.
    """

    value: str = field(repr=False)
    variable: str

    def __str__(self) -> str:
        """Never the key."""
        return f"the key in {self.variable}"


def check_addresses(urls: Sequence[str]) -> list[str]:
    """Addresses as they are used and recorded: without a slash at the end.

    Raises:
        ValueError: One is no address, has a user, a password, a query or a fragment, or is given twice.
    """
    checked: list[str] = []
    for url in urls:
        parts = _split(url)
        plain = parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl().rstrip("/")
        for part, given in (
            ("user or password", "@" in parts.netloc),
            ("query", "?" in url),
            ("fragment", "#" in url),
        ):
            if given:
                raise ValueError(
                    f"base_url has a {part}, which would be written into the record of the run; give '{plain}', "
                    f"and the key in the environment variable {KEY_VARIABLE}"
                )
        if plain in checked:
            raise ValueError(f"base_url '{plain}' was given twice; give each address once")
        checked.append(plain)
    return checked


def choose_key(url: str, environment: Mapping[str, str] | None = None) -> Key | None:
    """The key for an address: that of `KEY_VARIABLE`, else one whose owner the host is; `None`: none is sent.

    Args:
        url: A checked address.
        environment: Environment variables; `None`: those of this process.

    Raises:
        ValueError: The key would travel unencrypted through a foreign network, or is no key.
    """
    environment = os.environ if environment is None else environment
    parts = _split(url)
    host = parts.hostname or ""
    for variable in (KEY_VARIABLE, *_OWN_KEYS):
        value = environment.get(variable, "").strip()
        if not value:
            continue
        if variable != KEY_VARIABLE and not (parts.scheme == "https" and _is_of(host, _OWN_KEYS[variable])):
            continue
        check_key(value, variable)
        if parts.scheme == "http" and not is_near(host):
            raise ValueError(
                f"the key in {variable} would be sent to {host} without encryption; give https://, unset "
                f"{variable} if the server needs no key, or open a tunnel (ssh -L "
                f"8000:{host}:{parts.port or 80} …) and give http://localhost:8000"
            )
        return Key(value, variable)
    return None


def provider_key(environment: Mapping[str, str] | None = None) -> Key | None:
    """The key for an Inference Provider, which huggingface_hub sends to the Hub's router or to that provider."""
    environment = os.environ if environment is None else environment
    for variable in HUB_PROVIDER_VARIABLES:
        if value := environment.get(variable, "").strip():
            check_key(value, variable)
            return Key(value, variable)
    return None


def check_key(value: str, variable: str) -> None:
    """Raises a ValueError, without the key, if it cannot be a header's value."""
    if not value.isascii() or not value.isprintable() or " " in value:
        raise ValueError(
            f"the key in {variable} has characters that no key has (spaces, line breaks, or others than ASCII)"
        )


def is_near(host: str) -> bool:
    """Whether a host is this machine or of one's own network: loopback, private addresses, names without a dot."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return "." not in host or host.endswith((".localhost", ".local", ".internal"))
    return address.is_loopback or address.is_private or address.is_link_local


def near_hosts(urls: Sequence[str]) -> list[str]:
    """The near hosts among addresses: no proxy may stand before them, since over plain HTTP it would read the key."""
    hosts = [urlsplit(url).hostname or "" for url in urls]
    return [f"[{host}]" if ":" in host else host for host in hosts if is_near(host)]


def _split(url: str) -> SplitResult:
    parts = urlsplit(url.strip())
    try:
        known = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number
        known = False
    if not known:
        shown = parts.netloc.rpartition("@")[2] if "@" in url else url.partition("?")[0].partition("#")[0]
        raise ValueError(FORM_ERROR.format(url=shown))
    return parts


def _is_of(host: str, owners: Sequence[str]) -> bool:
    return any(host == owner or host.endswith(f".{owner}") for owner in owners)
