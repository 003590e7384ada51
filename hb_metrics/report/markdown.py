from collections.abc import Callable, Mapping, Sequence, Set
from pathlib import Path

from hb_dataset.markdown_table import escape_markdown, markdown_table
from hb_metrics.layout.figure import Figure, missing_intervals
from hb_metrics.layout.numbers import MISSING, share
from hb_metrics.measurements import MEASUREMENTS
from hb_metrics.measurements.results import Run, read_run
from hb_metrics.report.changes import changes_markdown, comparable_figures, run_changes
from hb_metrics.report.compared_runs import comparison_warnings, differing_settings, run_names
from hb_metrics.report.sides import both_sides, sides_markdown
from hb_metrics.run.record import CONFIDENCE_LEVEL


def overview_markdown(runs: Sequence[Path], names: Sequence[str] | None = None) -> str:
    """Returns Markdown for a model card: tables of the runs' main figures and their changes since the first run.

    Args:
        runs: The folders of finished runs, such as one before and one after tuning.
        names: The names of the runs. Default: their models, tags or folders.

    Raises:
        ValueError: A folder contains no finished run, or a name is missing or occurs twice.
    """
    finished = [read_run(folder) for folder in runs]
    called = run_names(finished, names)
    results = [run.results for run in finished]
    listed = dict(zip(called, shown_figures(finished, lambda figure: figure.is_main), strict=True))
    sentences = [intervals_note(listed)]
    for measurement in MEASUREMENTS:
        notes = {
            name: measurement.card_sentences(of_run)
            for name, of_run in zip(called, results, strict=True)
            if measurement.name in of_run.measured
        }
        for name, of_run in notes.items():
            for note in of_run:
                is_shared = all(note in of_other for of_other in notes.values())
                sentences.append(note if is_shared else f"{name}: {note}")
    sentences += comparison_warnings(differing_settings([run.record for run in results]), results)
    note = " ".join(filter(None, dict.fromkeys(sentences)))
    parts = [markdown_with_note(["", *called], figure_rows(listed), note) + "\n"]
    others = zip(finished[1:], called[1:], strict=True)
    compared = [run_changes(finished[0], run, (called[0], name)) for run, name in others]
    if compared and (sides := both_sides(finished, compared)) is not None:
        parts.insert(0, sides_markdown(sides))
    parts += [changes_markdown(changes) for changes in compared if changes.main]
    return "\n".join(parts)


def shown_figures(runs: Sequence[Run], is_wanted: Callable[[Figure], bool]) -> list[list[Figure]]:
    """Returns the wanted figures of each run that have a value."""
    shown: list[list[Figure]] = [[] for _ in runs]
    for measurement in MEASUREMENTS:
        figures_of_runs = comparable_figures([measurement.figures(run.results) for run in runs])
        for of_run, figures in zip(shown, figures_of_runs, strict=True):
            of_run += [figure for figure in figures if is_wanted(figure) and figure.value is not None]
    return shown


def figure_rows(
    listed: Mapping[str, Sequence[Figure]], changed: Mapping[str, Set[str]] | None = None
) -> list[list[str]]:
    """Returns a row for each figure, with the values of the runs. Changed values have a star."""
    by_run = {name: {figure.title: figure for figure in figures} for name, figures in listed.items()}
    rows = []
    for label in dict.fromkeys(figure.title for figures in listed.values() for figure in figures):
        cells = []
        for name, figures in by_run.items():
            figure = figures.get(label)
            value = MISSING if figure is None else figure.shown
            bounds = f" ({figure.shown_interval})" if figure is not None and figure.interval is not None else ""
            cells.append(value + bounds + "*" * (label in (changed or {}).get(name, ())))
        rows.append([label, *cells])
    return rows


def intervals_note(listed: Mapping[str, Sequence[Figure]]) -> str:
    """States the level of the intervals, and why each run lacks some of them."""
    has_intervals = any(figure.interval for figures in listed.values() for figure in figures)
    levels = [f"Brackets contain {share(CONFIDENCE_LEVEL, 0)} intervals."] if has_intervals else []
    missing = [f"{name}: {note}" for name, figures in listed.items() for note in missing_intervals(figures)]
    return " ".join([*levels, *missing])


def markdown_with_note(header: Sequence[str], rows: Sequence[Sequence[str]], note: str) -> str:
    head, *body = [[*map(escape_markdown, row)] for row in (header, *rows)]
    return f"{markdown_table(head, body, numbers=range(1, len(head)))}\n\n{escape_markdown(note)}".rstrip()
