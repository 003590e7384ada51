import hashlib
import re
from collections import Counter
from collections.abc import Sequence
from typing import Protocol

import numpy as np

MISSING = "–"
_MINUS = "−"
_LONGEST_TEMPLATE = 100


def slot(template: str) -> str:
    """Writes the slots of a template in readable brackets ("I love [plural noun phrase]."), in one line.

    A long template is cut, and ends in a digest that tells it from others.
    """
    text = re.sub(r"\{(\w+)\}", lambda match: f"[{match[1].replace('_', ' ')}]", " ".join(template.split()))
    if len(text) <= _LONGEST_TEMPLATE:
        return text
    return f"{text[:_LONGEST_TEMPLATE].rstrip()}… ({hashlib.sha256(template.encode()).hexdigest()[:4]})"


def axis_label(axis: str) -> str:
    """Writes the name of an axis in plain English, such as "Gender and sex" for "gender_and_sex"."""
    return axis.replace("race_eth", "race_and_eth").replace("_", " ").replace("+", " + ").capitalize()


class Named(Protocol):
    """A term, such as `DescriptorKey`."""

    @property
    def axis(self) -> str | None: ...

    @property
    def descriptor(self) -> str: ...


def term_names(terms: Sequence[Named], known: Sequence[Named]) -> list[str]:
    """Returns the names of terms. If a name is on several axes in `known`, its axis is added: "Māori (Nationality)"."""
    num_axes = Counter(term.descriptor for term in known)
    names = []
    for term in terms:
        name, axis = term.descriptor, axis_label(str(term.axis))
        names.append(f"{name} ({axis})" if num_axes[name] > 1 else name)
    return names


def axis_groups(
    name: str, codes: np.ndarray, axes: Sequence[str], *, whole: str | None = None
) -> dict[str, np.ndarray]:
    """Returns the rows of all terms and of each axis, by the name of the figure. `codes` contains each row's axis."""
    groups = {whole or name: np.ones(len(codes), bool)}
    for code, axis in enumerate(axes):
        if (codes == code).any():
            groups[f"{name}, {axis_label(axis)}"] = codes == code
    return groups


def share(value: float | None, digits: int = 1) -> str:
    return MISSING if value is None else _signs(f"{value:.{digits}%}")


def points(value: float | None) -> str:
    """Formats a difference of two shares in points of 100."""
    return MISSING if value is None else f"{fixed(100 * value, 1)} points"


def p_value(value: float | None) -> str:
    return MISSING if value is None else "< 0.001" if value < 0.001 else f"{value:.3f}"


def p_words(value: float | None) -> str:
    """Writes a p-value for a sentence: "p = 0.012" or "p < 0.001"."""
    return "p " + (p_value(value) if value is not None and value < 0.001 else f"= {p_value(value)}")


def bias(value: float | None) -> str:
    """Formats a Gen Bias value (×1000) or a perplexity: two decimals below 10, one below 100, otherwise none."""
    if value is None:
        return MISSING
    return _signs(f"{value:,.{_digits(value)}f}")


def interval(bounds: tuple[float, float] | None) -> str:
    """Formats an interval. The end that is farther from 0 determines the number of decimals of both ends."""
    if bounds is None:
        return MISSING
    digits = _digits(max(map(abs, bounds)))
    low, high = (_signs(f"{bound:,.{digits}f}") for bound in bounds)
    return f"{low} to {high}"


def signed_share(value: float | None, digits: int = 1) -> str:
    return MISSING if value is None else _signs(f"{100 * value:+.{digits}f}")


def signed_bias(value: float | None) -> str:
    return MISSING if value is None else _signs(f"{value:+,.{_digits(value)}f}")


def fixed(value: float | None, digits: int, sign: str = "-") -> str:
    return MISSING if value is None else _signs(f"{value:{sign}.{digits}f}")


def count(value: float | None) -> str:
    return MISSING if value is None else _signs(f"{value:,.0f}")


def counted(number: int, what: str) -> tuple[str, ...]:
    return (f"{number:,} {what}",) if number else ()


def and_list(names: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def _digits(value: float) -> int:
    return 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2


def _signs(text: str) -> str:
    return text.replace("-", _MINUS) if any(digit in text for digit in "123456789") else text.lstrip("+-")
