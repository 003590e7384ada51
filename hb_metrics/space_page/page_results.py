"""A metric's results as tables, and the text above them."""

import html
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

FIGURES = ("figure",)  # the rows of the table of single figures
# Result → the figure of each of its entries that the headline shows, for metrics without a single figure.
HEADLINES = {"gaps": "gap", "by_group": "mean"}
MAX_HEADLINES = 5
# Results that repeat the keys of others → suffix of the columns in which their values are shown beside those.
BESIDE = {"intervals": " interval", "no_intervals": " without interval", "fixed": " fixed"}

# Result → what its keys are, level by level; the keys below the last level become columns.
LEVELS: Mapping[str, tuple[str, ...]] = {
    "partial_gen_bias": ("cluster",),
    "summed_cluster_gen_bias": ("cluster",),
    "noise_floor": ("cluster",),
    "clusters": ("cluster",),
    "by_style": ("style",),
    "by_axis": ("axis",),
    "bh_by_axis": ("axis",),
    "effect_size_by_axis": ("axis",),
    "num_tests_by_axis": ("axis",),
    "num_pairs_by_axis": ("axis",),
    "lowest_descriptors": ("axis",),
    "highest_descriptors": ("axis",),
    "by_template": ("template",),
    "by_axis_and_template": ("axis", "template"),
    "median_perplexity": ("axis", "descriptor"),
    "by_descriptor": ("axis", "descriptor"),
    "by_descriptor_and_template": ("axis", "descriptor", "template"),
    "gaps": ("pair",),
    "verdicts": ("pair",),
    "pairs": ("pair",),
    "largest_gap": ("pair",),
    "smallest_gap": ("pair",),
    "by_group": ("group",),
    "num_other": ("group",),
    "by_structure": ("structure",),
    "kl_divergence": ("row group", "column group"),
    "verdict_over": FIGURES,
    "robustness": FIGURES,
}
# Result → name of its column, where that is neither the metric's name (results named "by_…") nor the result's own.
VALUES = {"by_descriptor_and_template": "mean", "bh_by_axis": "bh_likelihood_bias", "clusters": "styles"}
# All possible tables, by what their rows are, in the order of the page; the last two: offensiveness without axes.
TABLES = (("cluster",), ("pair",), FIGURES, *LEVELS.values(), ("descriptor",), ("descriptor", "template"))
TABLES = tuple(dict.fromkeys(TABLES))
DIGITS = 6  # significant ones that are shown
DECIMALS = 9  # below are traces of rounding: probabilities are kept in steps of 10⁻¹²

ROW_HINT = "rows are counted from 0, empty ones left out"


class Table(NamedTuple):
    """A table of results."""

    headers: list[str]
    rows: list[list[Any]]


def tables_of(results: Mapping[str, Any]) -> dict[tuple[str, ...], Table]:
    """Sorts results into tables: one of single figures, and one for all results with the same kind of keys.

    Returns:
        What the rows of a table are, such as ("axis", "descriptor") → the table. Numbers are rounded.
    """
    metric = next(iter(results))
    has_axes = results.get("by_axis") is not None
    entries: list[tuple[str, Any, str]] = []  # result, value, suffix of its columns
    for key, value in results.items():
        if key in BESIDE:
            entries += [(repeated, other, BESIDE[key]) for repeated, other in (value or {}).items()]
        elif LEVELS.get(key) == FIGURES and isinstance(value, Mapping):
            entries += [(name, cell, "") for name, cell in _flat({key: value}).items()]
        else:
            entries.append((key, value, ""))
    cells: dict[tuple[str, ...], dict[tuple[str, ...], dict[str, Any]]] = {}
    for key, value, suffix in entries:
        column = VALUES.get(key, metric if key.startswith("by_") else key) + suffix
        if value is None and key.startswith("by_"):
            continue  # there were no axes, or no labels
        if isinstance(value, Mapping):
            levels = tuple(level for level in LEVELS[key] if has_axes or level != "axis")
            column = column.removesuffix("_by_axis").replace("_", " ")  # a narrow column's heading breaks at spaces
        else:
            levels, value, column = FIGURES, {column: value}, "value"
        for names, inner in _rows(value, len(levels)):
            row = cells.setdefault(levels, {}).setdefault(names, {})
            if isinstance(inner, Mapping):
                row.update({f"{name}{suffix}": cell for name, cell in _flat(inner).items()})
            elif inner is not None:
                row[column] = inner
    return {levels: _table(levels, cells[levels]) for levels in TABLES if levels in cells}


def message(results: Mapping[str, Any], notes: Sequence[str], source: str) -> str:
    """The text above the tables: the headline, what it was computed from, and warnings."""
    lines = [f"## {headline(results)}", f"From {source}: {notes[0]}.", *(f"⚠️ {note}" for note in notes[1:])]
    return "\n\n".join(html.escape(line, quote=False) for line in lines)


def headline(results: Mapping[str, Any]) -> str:
    """The metric's figure, or those of each pair, group or cluster; the largest, if they are many."""
    name, value = next(iter(results.items()))
    if name in HEADLINES:
        result = next((key for key in HEADLINES if results.get(key)), name)
        name = HEADLINES[result]
        value = {key: figures[name] for key, figures in (results[result] or {}).items()}
    if not isinstance(value, Mapping):
        return f"{name.replace('_', ' ')}: {_cell(value)}"
    known = sorted((key for key in value if value[key] is not None), key=lambda key: -abs(value[key]))
    shown = [f"{' '.join(key.split())} {_cell(value[key])}" for key in known[:MAX_HEADLINES]]
    more = [f"{len(value) - len(shown)} more below"] if len(value) > len(shown) else []
    return f"{name.replace('_', ' ')}: {', '.join([*shown, *more]) or '–'}"


def refusal(error: ValueError) -> str:
    """The text in place of figures if nothing was computed."""
    text = str(error) + (f" ({ROW_HINT})" if re.search(r"\brow \d", str(error)) else "")
    return f"## Not computed\n\n{html.escape(text, quote=False)}"


def _rows(value: Any, depth: int) -> list[tuple[tuple[str, ...], Any]]:
    """The keys of nested mappings down to a depth, each with the value below them."""
    if depth == 0:
        return [((), value)]
    return [((name, *names), below) for name, inner in value.items() for names, below in _rows(inner, depth - 1)]


def _flat(values: Mapping[str, Any]) -> dict[str, Any]:
    """Nested mappings as one, whose keys are those of all levels joined by spaces."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, Mapping):
            flat.update({f"{key} {name}": cell for name, cell in _flat(value).items()})
        else:
            flat[key] = value
    return flat


def _table(levels: tuple[str, ...], rows: Mapping[tuple[str, ...], Mapping[str, Any]]) -> Table:
    columns = list(dict.fromkeys(name for row in rows.values() for name in row))
    cells = [[*names, *(_cell(row.get(name)) for name in columns)] for names, row in rows.items()]
    return Table([*levels, *columns], cells)


def _cell(value: Any) -> Any:
    """A value as a table shows it: rounded, lists as text, a dash for what is missing."""
    if value is None or (isinstance(value, Sequence) and len(value) == 0):
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return round(float(f"{value:.{DIGITS}g}"), DECIMALS)
    if isinstance(value, Sequence) and not isinstance(value, str):
        are_bounds = len(value) == 2 and all(isinstance(bound, float) for bound in value)
        return (" to " if are_bounds else ", ").join(str(_cell(part)) for part in value)
    return value
