"""How numbers, names and templates become text, and how a page becomes one file that loads nothing."""

import json
from pathlib import Path
from typing import Any

import jinja2
from plotly.offline import get_plotlyjs

from hb_dataset.whole_files import write_text
from hb_metrics.report.figures import axis_label

MISSING = "–"
_MINUS = "−"


def write_page(template: str, path: Path, context: dict[str, Any], figures: dict[str, Any], terms: Any = None) -> None:
    """Renders a page with its styles, scripts and data inline.

    Args:
        template: A Jinja template of this package.
        path: The HTML file to write, whole or not at all.
        context: What the template shows.
        figures: Id of an element → the figures to draw in it, of which one is chosen where there are several.
        terms: What the chooser of terms shows; `None`: there is none.
    """
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("hb_metrics", "report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "axis_label": axis_label,
        "slot": slot,
        "share": share,
        "bias": bias,
        "printed": printed,
        "interval": interval,
        "signed_share": signed_share,
        "signed_bias": signed_bias,
        "rho": rho,
        "fixed": fixed,
        "count": count,
    }
    html = environment.get_template(template).render(
        **context,
        shade=_shade,
        plotly_js=get_plotlyjs(),
        figures=_for_script(figures),
        terms=_for_script(terms),
    )
    write_text(path, html)


def slot(template: str) -> str:
    """A sentence template as people read it: "I love [plural noun phrase]."."""
    return template.replace("{", "[").replace("}", "]").replace("_", " ")


def share(value: float | None, digits: int = 1) -> str:
    """A share from 0 to 1 as a percentage."""
    return MISSING if value is None else _signs(f"{value:.{digits}%}")


def bias(value: float | None) -> str:
    """A Gen Bias value (×1000) or a perplexity with the digits that tell something."""
    if value is None:
        return MISSING
    return _signs(f"{value:,.{_digits(value)}f}")


def printed(value: float | None) -> str:
    """A Gen Bias value of the paper, as it prints it."""
    return MISSING if value is None else f"{value:.2f}"


def interval(bounds: tuple[float, float] | None) -> str:
    """Lowest and highest, with as many digits as the larger needs."""
    if bounds is None:
        return MISSING
    digits = _digits(max(map(abs, bounds)))
    low, high = (_signs(f"{bound:,.{digits}f}") for bound in bounds)
    return f"{low} to {high}"


def signed_share(value: float | None, digits: int = 1) -> str:
    """A change of a share, in percentage points."""
    return MISSING if value is None else _signs(f"{100 * value:+.{digits}f}")


def signed_bias(value: float | None) -> str:
    """A change of a Gen Bias value."""
    return MISSING if value is None else _signs(f"{value:+,.{_digits(value)}f}")


def rho(value: float | None) -> str:
    """A correlation."""
    return MISSING if value is None else _signs(f"{value:.2f}")


def fixed(value: float, digits: int, sign: str = "-") -> str:
    """A number with so many digits; `sign` "+" also shows that of a rise."""
    return _signs(f"{value:{sign}.{digits}f}")


def count(value: float | None) -> str:
    """A whole number."""
    return MISSING if value is None else f"{value:,.0f}"


def _digits(value: float) -> int:
    return 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2


def _signs(text: str) -> str:
    """The text with a typographic minus, and without one before zero."""
    return text.replace("-", _MINUS) if any(digit in text for digit in "123456789") else text.lstrip("+-")


def _for_script(content: Any) -> str:
    """JSON that can stand inside a <script> element, whatever the terms in it."""
    return json.dumps(content, separators=(",", ":"), ensure_ascii=False).translate(_ESCAPES)


# Line and paragraph separators end a line for readers of the page's text, though not for JavaScript.
_ESCAPES = {ord("<"): "\\u003c", 0x2028: "\\u2028", 0x2029: "\\u2029", 0x85: "\\u0085"}


def _shade(value: float) -> str:
    """Cell colours for a share from 0 to 1: background from white to blue, and text that can be read on it."""
    red, green, blue = (round(255 + (target - 255) * value) for target in (0, 114, 178))
    return f"background:rgb({red},{green},{blue});color:{'white' if value > 0.9 else '#111827'}"
