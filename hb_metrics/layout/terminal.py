import shutil
import textwrap
from collections.abc import Sequence

from hb_metrics.layout.figure import OF_PLAIN, Figure, by_part, table_notes
from hb_metrics.run.record import CONFIDENCE_LEVEL

_LONGEST = 100  # wider lines are hard to read
_INDENT = "  "
# Some terminals cannot show these characters.
_PLAIN = str.maketrans({"−": "-", "–": "-", "×": "x", "“": '"', "”": '"', "ρ": "rho"})


def plain_text(text: str) -> str:
    return text.translate(_PLAIN)


def filled(text: str, indent: str = "") -> str:
    width = min(shutil.get_terminal_size().columns, _LONGEST) - 1
    return textwrap.fill(
        plain_text(text), width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def figure_lines(figures: Sequence[Figure]) -> list[str]:
    parts = by_part([figure for figure in figures if figure.value is not None])
    whole = parts.pop("", [])
    lines = []
    for figure in whole:
        lines.append(filled(", ".join(filter(None, [f"{figure.name}: {figure.words}", figure.detail])), _INDENT))
    for heading, rows in parts.items():
        if heading.removesuffix(OF_PLAIN).endswith("by axis") or not whole:
            has_intervals = any(row.interval is not None for row in rows)
            intervals = f", with {CONFIDENCE_LEVEL:.0%} intervals" if has_intervals else ""
            lines.append(f"{_INDENT}{heading}{intervals}:".translate(_PLAIN))
            for row in sorted(rows, key=lambda figure: -(figure.value or 0.0)):
                bounds = row.shown_interval if row.interval is not None else "none" if has_intervals else ""
                lines.append(f"{2 * _INDENT}{row.label:<24} {row.shown:>7}  {bounds}".rstrip().translate(_PLAIN))
            lines += [filled(f"{2 * _INDENT}{note}", 2 * _INDENT) for note in table_notes(rows)]
            break
    return lines
