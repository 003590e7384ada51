"""Errors of the publishing scripts: what the Hub's client raises as one line for people, and what to do about it."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from huggingface_hub import HfApi

LOG_IN = "log in with `hf auth login`, or set HF_TOKEN, with a token that has write permission"
AGAIN = "run the same command again to finish"

# What to do, by the status that the Hub answered.
REMEDIES = {
    400: f"correct that, then {AGAIN}",
    401: f"{LOG_IN}, then {AGAIN}",
    403: f"use a token with write permission there, then {AGAIN}",
    404: f"check its name, and that the token in use may see it, then {AGAIN}",
    409: "somebody else was writing to it too; run the same command again to see whether anything is left to do",
    412: f"look at that commit, then {AGAIN}",
    429: f"wait some minutes, then {AGAIN}",
}


class HubError(RuntimeError):
    """What happened, what the Hub holds now and what to do: one line, without the token."""


def status(error: BaseException | None) -> int:
    """The HTTP status that the Hub answered, 0 if there was no answer. An upload's errors have it in their cause."""
    while error is not None:
        if (response := getattr(error, "response", None)) is not None:
            return int(response.status_code)
        error = error.__cause__
    return 0


def reason(error: BaseException, api: "HfApi") -> str:
    """An error in one line, without the token."""
    from huggingface_hub.errors import HfHubHTTPError

    if isinstance(error, HfHubHTTPError):
        text = f"HTTP {error.response.status_code}, {error.server_message or str(error).strip().splitlines()[0]}"
    elif isinstance(error, RuntimeError) and error.__cause__ is not None:
        text = f"{error} {reason(error.__cause__, api)}"
    else:
        text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    if isinstance(api.token, str):
        text = text.replace(api.token, "…").replace(repr(api.token)[1:-1], "…")
    return " ".join(text.split()).rstrip(".")
