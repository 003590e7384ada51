import os
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from hb_dataset.hub_access import is_local_host

KEY_VARIABLE = "HOLISTIC_BIAS_API_KEY"
# Environment variables with keys for other programs, and the hosts that issued these keys. A key is sent only to the
# host that issued it.
_ISSUERS = {"HF_TOKEN": "huggingface.co", "OPENAI_API_KEY": "api.openai.com"}


@dataclass(frozen=True)
class Key:
    """A server's key, and the environment variable that contains it. Printing this object never shows the key."""

    value: str = field(repr=False)
    variable: str


def choose_key(url: str) -> Key | None:
    """Returns the key to send to an address, or `None` if there is no key.

    The key in `KEY_VARIABLE` has priority. Any other key is used only if the address's host issued it.

    Raises:
        ValueError: The key is not valid, or would be sent without encryption to a host outside of the local network.
    """
    parts = urlsplit(url)
    host = parts.hostname or ""
    for variable in (KEY_VARIABLE, *_ISSUERS):
        value = os.environ.get(variable, "").strip()
        issuer = _ISSUERS.get(variable)
        is_for_host = issuer is None or (parts.scheme == "https" and f".{host}".endswith(f".{issuer}"))
        if not value or not is_for_host:
            continue
        if not value.isascii() or not value.isprintable() or " " in value:  # the message does not show the key
            raise ValueError(f"the key in {variable} contains spaces or non-ASCII characters; correct it")
        if parts.scheme == "http" and not is_local_host(host):
            raise ValueError(
                f"the key in {variable} would be sent to {host} without encryption; use an https:// address, or open a "
                f"tunnel (ssh -L 8000:{host}:{parts.port or 80} …) and use http://localhost:8000. If the server does "
                f"not need a key, unset {variable}"
            )
        return Key(value, variable)
    return None
