from collections.abc import Sequence
from pathlib import Path

from hb_dataset.markdown_table import escape_markdown, markdown_table
from hb_metrics.layout.figure import Figure
from hb_metrics.layout.numbers import MISSING, share
from hb_metrics.measurements import MEASUREMENTS
from hb_metrics.measurements.results import read_run
from hb_metrics.report.changes import changes_markdown, comparable_figures, run_changes
from hb_metrics.report.comparison import comparison_warnings, differing_settings
from hb_metrics.report.run_names import run_names
from hb_metrics.report.sides import both_sides, sides_markdown


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
    rows: list[list[str]] = []
    sentences: list[str] = []
    levels: set[float] = set()
    for measurement in MEASUREMENTS:
        found = [measurement.figures(run) for run in results]
        by_run = []
        for figures in comparable_figures(found):
            main = {figure.name: figure for figure in figures if figure.is_main and figure.value is not None}
            by_run.append(main)
            levels |= {figure.confidence_level or 0.0 for figure in main.values() if figure.interval is not None}
        for name in dict.fromkeys(name for main in by_run for name in main):
            rows.append([escape_markdown(name), *(cell(main.get(name)) for main in by_run)])
        notes = {}
        for name, of_run in zip(called, results, strict=True):
            if measurement.name in of_run.measured:
                notes[name] = measurement.card_sentences(of_run)
        for name, listed in notes.items():
            for note in listed:
                is_shared = all(note in of_other for of_other in notes.values())
                sentences.append(note if is_shared else f"{name}: {note}")
    if levels:
        sentences.insert(0, f"Brackets contain {' or '.join(share(level, 0) for level in sorted(levels))} intervals.")
    sentences += comparison_warnings(differing_settings([run.record for run in results]), results)
    table = markdown_table(["", *map(escape_markdown, called)], rows, numbers=range(1, len(called) + 1))
    parts = [f"{table}\n\n{' '.join(map(escape_markdown, dict.fromkeys(sentences)))}\n"]
    others = zip(finished[1:], called[1:], strict=True)
    compared = [run_changes(finished[0], run, (called[0], name)) for run, name in others]
    if compared and (sides := both_sides(finished, compared)) is not None:
        parts.insert(0, sides_markdown(sides))
    parts += [changes_markdown(changes) for changes in compared if changes.main]
    return "\n".join(parts)


def cell(figure: Figure | None) -> str:
    if figure is None:
        return MISSING
    return f"{figure.shown} ({figure.shown_interval})" if figure.interval is not None else figure.shown
