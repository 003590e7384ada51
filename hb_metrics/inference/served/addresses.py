"""The addresses and keys of served models. No address contains a secret, and no key is sent to another host."""

import ipaddress
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

KEY_VARIABLE = "HOLISTIC_BIAS_API_KEY"
# The keys of other programs, and the hosts that issued them. A key is never sent to another host.
_ISSUERS = {"HF_TOKEN": "huggingface.co", "OPENAI_API_KEY": "api.openai.com"}


@dataclass(frozen=True)
class Key:
    """A key for a server, and the environment variable that contains it. The key is never shown."""

    value: str = field(repr=False)
    variable: str

    def __str__(self) -> str:
        return f"the key in {self.variable}"


def check_address(url: str) -> str:
    """Normalises an address, and removes a slash at its end.

    Raises:
        ValueError: The address is not valid, or contains a user, a password, a query or a fragment.
    """
    parts = urlsplit(url.strip())
    try:
        known = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # the port is not a number
        known = False
    if not known:
        shown = parts.netloc.rpartition("@")[2] if "@" in url else url.partition("?")[0].partition("#")[0]
        raise ValueError(
            f"base_url '{shown}' is not the address of a server; pass an address such as http://localhost:8000/v1 or "
            "https://example.com/v1"
        )
    plain = parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl().rstrip("/")
    if "@" in parts.netloc or "?" in url or "#" in url:
        raise ValueError(
            "base_url contains a user, a password, a query or a fragment, which the run would record; set it to "
            f"'{plain}', and the environment variable {KEY_VARIABLE} to the key"
        )
    return plain


def choose_key(url: str, environment: Mapping[str, str] | None = None) -> Key | None:
    """Chooses the key for a checked address: the key in `KEY_VARIABLE`, or else a key that the host issued, or `None`.

    Raises:
        ValueError: The key would be sent unencrypted through a foreign network, or it is not valid.
    """
    environment = os.environ if environment is None else environment
    parts = urlsplit(url)
    host = parts.hostname or ""
    for variable in (KEY_VARIABLE, *_ISSUERS):
        value = environment.get(variable, "").strip()
        if not value:
            continue
        issuer = _ISSUERS.get(variable)
        if issuer is not None and not (parts.scheme == "https" and f".{host}".endswith(f".{issuer}")):
            continue
        if not value.isascii() or not value.isprintable() or " " in value:  # the message does not show the key
            raise ValueError(f"the key in {variable} contains invalid characters; set it to ASCII without spaces")
        if parts.scheme == "http" and not is_near(host):
            raise ValueError(
                f"the key in {variable} would be sent to {host} without encryption; use https://, unset {variable} "
                f"if the server does not need a key, or open a tunnel (ssh -L 8000:{host}:{parts.port or 80} …) and "
                "use http://localhost:8000"
            )
        return Key(value, variable)
    return None


def is_near(host: str) -> bool:
    """Returns whether a host is in this machine's network: the loopback, a private address, or a name without a dot."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return "." not in host or host.endswith((".localhost", ".local", ".internal"))
    return address.is_loopback or address.is_private or address.is_link_local
