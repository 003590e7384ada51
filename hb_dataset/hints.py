import difflib
from collections.abc import Collection, Iterable

AXIS_CUTOFF = 0.75  # for names of axes, which must be more alike, so that no term is taken for an axis


def did_you_mean(name: str, allowed: Iterable[str], *, cutoff: float = 0.6) -> str:
    """Returns `"did you mean 'ability'? "` if an allowed name is similar, otherwise `""`."""
    close = difflib.get_close_matches(name, list(allowed), n=1, cutoff=cutoff)
    return f"did you mean '{close[0]}'? " if close else ""


def check_known(name: str, allowed: Collection[str], fault: str, *, cutoff: float = 0.6) -> None:
    """Raises a ValueError if a name is not allowed. `fault` is the first part of its message."""
    if name not in allowed:
        raise ValueError(f"{fault}; {did_you_mean(name, allowed, cutoff=cutoff)}allowed: {', '.join(allowed)}")
