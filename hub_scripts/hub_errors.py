"""What the Hub's client raises, in a line for people, and what to do then."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from huggingface_hub import HfApi

LOG_IN = "log in with `hf auth login`, or set HF_TOKEN, with a token that has write permission"
AGAIN = "the same command again finishes it"

# What to do, by the status that the Hub answered.
REMEDIES = {
    400: f"correct that, then {AGAIN}",
    401: f"{LOG_IN}; then {AGAIN}",
    403: f"use a token with write permission there; then {AGAIN}",
    404: f"check its name, and that the token in use may see it; then {AGAIN}",
    409: "somebody else was at it too; the same command again says whether anything is left to do",
    412: f"look at that commit; {AGAIN}",
    429: f"wait some minutes; {AGAIN}",
}


class HubError(RuntimeError):
    """What happened, what the Hub holds now and what to do: one line, without the token."""


def status(error: BaseException | None) -> int:
    """The status that the Hub answered, 0 if it was none: an upload's errors have it in their cause."""
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
