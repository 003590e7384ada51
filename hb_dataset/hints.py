import difflib
from collections.abc import Iterable


def did_you_mean(name: str, allowed: Iterable[str], *, cutoff: float = 0.6) -> str:
    """Returns `"did you mean 'ability'? "` if an allowed name is similar, otherwise `""`."""
    close = difflib.get_close_matches(name, list(allowed), n=1, cutoff=cutoff)
    return f"did you mean '{close[0]}'? " if close else ""
