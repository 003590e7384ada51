"""An overview of runs as a Markdown table, for a model's card."""

from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path

from hb_dataset.markdown_table import escape_markdown, markdown_table
from hb_metrics.display.numbers import MISSING
from hb_metrics.display.parts import Figure
from hb_metrics.display.run_changes import changes_markdown
from hb_metrics.measurements import MEASUREMENTS
from hb_metrics.report.comparison import comparison_warnings, run_changes
from hb_metrics.report.differences import differing_settings
from hb_metrics.report.run_names import run_names
from hb_metrics.runs.finished_run import read_run


def overview_markdown(runs: Sequence[Path], names: Sequence[str] | None = None) -> str:
    """The figures of runs as a table in GitHub's Markdown.

    Args:
        runs: Folders of finished runs, such as before and after tuning.
        names: What to call the runs; `None`: by their models, tags or folders.

    Returns:
        A table with one column per run, and notes on reading it. Rows without a value in any run are left out.

    Raises:
        ValueError: A folder is not that of a finished run, or there is not one distinct name per run.
    """
    finished = [read_run(folder) for folder in runs]
    called = run_names(finished, names)
    results = [run.results for run in finished]
    rows: list[tuple[str, list[str]]] = []
    sentences: list[str] = []
    levels: set[float] = set()
    for measurement in MEASUREMENTS:
        by_run = [{figure.name: figure for figure in figures} for figures in measurement.overview_figures(results)]
        levels |= {
            figure.confidence_level
            for figures in by_run
            for figure in figures.values()
            if figure.interval is not None and figure.confidence_level is not None
        }
        labels = dict.fromkeys(name for figures in by_run for name in figures)
        rows += [(label, [_cell(figures.get(label)) for figures in by_run]) for label in labels]
        sentences += _notes(
            {
                name: measurement.overview_notes(run)
                for name, run in zip(called, results, strict=True)
                if measurement.name in run
            }
        )
    if levels:
        level = " or ".join(f"{value:.0%}" for value in sorted(levels))
        sentences.insert(
            0, f"In brackets: {level} intervals; where two overlap, they leave open whether there is a difference."
        )
    sentences += comparison_warnings(differing_settings([run["run"] for run in results]), results)
    table = markdown_table(
        ["", *map(escape_markdown, called)],
        [[escape_markdown(label), *cells] for label, cells in rows if any(cell != MISSING for cell in cells)],
        numbers=range(1, len(called) + 1),
    )
    parts = [f"{table}\n\n{' '.join(map(escape_markdown, dict.fromkeys(sentences)))}\n"]
    changes = [
        run_changes(finished[0], run, (called[0], name)) for run, name in zip(finished[1:], called[1:], strict=True)
    ]
    parts += [changes_markdown(of_run) for of_run in changes if any(row.is_main for row in of_run.rows)]
    return "\n".join(parts)


def _notes(by_run: Mapping[str, Sequence[str]]) -> list[str]:
    """The notes of runs; those that are not the same in all of them say whose they are."""
    shared = [
        note for note in dict.fromkeys(chain(*by_run.values())) if all(note in notes for notes in by_run.values())
    ]
    return shared + [f"{name}: {note}" for name, notes in by_run.items() for note in notes if note not in shared]


def _cell(figure: Figure | None) -> str:
    if figure is None:
        return MISSING
    return figure.shown + (f" ({figure.shown_interval})" if figure.interval is not None else "")
