import ipaddress
import os
import socket
from urllib.parse import urlsplit


def protect_token() -> None:
    """Ensures that the token of the Hugging Face Hub is sent with encryption, or only within the local network.

    Raises:
        ValueError: The token would be sent without encryption to a host outside of the local network.
    """
    from huggingface_hub import constants, get_token

    address = urlsplit(constants.ENDPOINT)
    if address.scheme == "https" or constants.is_offline_mode() or get_token() is None:
        return
    host = address.hostname or ""
    if not is_local_host(host):
        raise ValueError(
            f"HF_ENDPOINT is not an https:// address, so the Hub's token would be sent to {host} without encryption; "
            "set HF_ENDPOINT to an https:// address, or unset HF_TOKEN and run `hf auth logout`"
        )
    for name in ("NO_PROXY", "no_proxy"):  # a proxy could read the token
        os.environ[name] = ",".join(sorted({*os.environ.get(name, host).split(","), host}))


def is_local_host(host: str) -> bool:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        try:
            address = ipaddress.ip_address(socket.inet_aton(host))  # other notations, such as one number
        except OSError:
            return "." not in host or host.endswith((".localhost", ".local", ".internal"))
    address = getattr(address, "ipv4_mapped", None) or address
    return address.is_loopback or address.is_private or address.is_link_local
