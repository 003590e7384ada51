"""The overview of several runs, and the comparison of two, of measurements that have nothing to show but figures."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from hb_metrics.display.change_figure import Change, change_figure
from hb_metrics.display.figures import plain
from hb_metrics.display.parts import Comparison, Figure, Section, Tile, written, written_change, written_interval
from hb_metrics.display.rendering import render
from hb_metrics.display.runs_figures import Value, runs_figure

_FOLDER = Path(__file__).parent
_TICKS = {"share": ".1~%", "small_share": ".2~%"}  # of Plotly; other forms are plain numbers


def overview_section(id: str, title: str, runs: Sequence[Sequence[Figure]], names: Sequence[str]) -> Section | None:
    """A table of the figures of several runs, one column per run, and a plot of each figure with its intervals.

    Args:
        id: Id of the section.
        title: Its heading.
        runs: [runs][figures]; empty for a run that did not measure them.
        names: [runs] what they are called.

    Returns:
        The section; `None`: fewer than two runs have a figure in common.
    """
    by_run = [{figure.name: figure for figure in figures if figure.value is not None} for figures in runs]
    shared = [name for name in _names(runs) if sum(name in figures for figures in by_run) > 1]
    if not shared:
        return None
    by_figure = [(name, [figures.get(name) for figures in by_run]) for name in shared]
    plots = []
    for name, cells in by_figure:
        values = {
            run: Value(cell.value, cell.interval) for run, cell in zip(names, cells, strict=True) if cell is not None
        }
        form = next(cell.form for cell in cells if cell is not None)
        plots.append(plain(runs_figure(values, name, _TICKS.get(form))))
    rows = [
        (name, [None if cell is None else (cell.shown, cell.shown_interval) for cell in cells])
        for name, cells in by_figure
    ]
    context = {
        "id": id,
        "title": title,
        "names": names,
        "figures": shared,
        "rows": rows,
        "meanings": [meaning for name, cells in by_figure for meaning in _meanings(name, cells, names)],
        "levels": _levels(cell for _, cells in by_figure for cell in cells if cell is not None),
    }
    html = render(_FOLDER / "figures_overview.html.jinja", context)
    return Section(f"overview-{id}", title, html, {f"runs-{id}": plots})


def comparison(
    id: str, title: str, first: Sequence[Figure], second: Sequence[Figure], names: tuple[str, str]
) -> Comparison:
    """A table of the figures of two runs with their changes, and a plot if all figures have the same form."""
    changes = figure_changes(first, second)
    forms = {figure.name: figure.form for figure in (*first, *second)}
    rows = [
        {
            "name": change.name,
            "first": written(change.first, form),
            "first_interval": None if change.first_interval is None else written_interval(change.first_interval, form),
            "second": written(change.second, form),
            "second_interval": None
            if change.second_interval is None
            else written_interval(change.second_interval, form),
            "change": written_change(change.change, form),
            "apart": change.apart,
        }
        for change in changes
        for form in [forms[change.name]]
    ]
    figures = {}
    if changes and len(set(forms.values())) == 1:
        ticks = _TICKS.get(next(iter(forms.values())))
        figures = {f"change-{id}": [plain(change_figure(changes, title, names, ticks))]}
    levels = _levels((*first, *second))
    context = {"id": id, "title": title, "rows": rows, "has_plot": bool(figures), "levels": levels}
    html = render(_FOLDER / "figures_comparison.html.jinja", context)
    tiles = [
        Tile(change.name, " → ".join(written(value, forms[change.name]) for value in (change.first, change.second)))
        for change in changes[:2]
    ]
    return Comparison([Section(id, title, html, figures)], tiles)


def figure_changes(first: Sequence[Figure], second: Sequence[Figure]) -> list[Change]:
    """The changes from the first run's figures to the second's, by name; also of those that only one of them has."""
    sides = [{figure.name: figure for figure in figures} for figures in (first, second)]
    missing = Figure("", None, "bias", "")
    return [
        Change(name, before.value, after.value, before.interval, after.interval)
        for name in _names([first, second])
        for before, after in [[side.get(name, missing) for side in sides]]
    ]


def _meanings(name: str, cells: Sequence[Figure | None], runs: Sequence[str]) -> list[tuple[str, str]]:
    """A figure's meaning: one for each run if they differ, such as in the number of replies."""
    meanings = {run: cell.meaning for run, cell in zip(runs, cells, strict=True) if cell is not None}
    if len(set(meanings.values())) == 1:
        return [(name, next(iter(meanings.values())))]
    return [(f"{name}, {run}", meaning) for run, meaning in meanings.items()]


def _levels(figures: Iterable[Figure]) -> str:
    """The confidence levels of the figures' intervals, as text; empty: there are no intervals."""
    levels = {figure.confidence_level for figure in figures if figure.interval is not None}
    return " or ".join(f"{level:.0%}" for level in sorted(level for level in levels if level is not None))


def _names(runs: Sequence[Sequence[Figure]]) -> list[str]:
    return list(dict.fromkeys(figure.name for figures in runs for figure in figures))
