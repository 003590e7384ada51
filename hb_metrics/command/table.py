"""Prints the figures of one or more runs as a table for a paper, a README or a spreadsheet.

    holistic-bias table runs/gpt2 runs/opt --format latex > table.tex
    holistic-bias table runs/gpt2 --by axis --figure axes.svg

Each run is a column and each figure is a row, with its interval. A star marks a change since the first run that is
beyond chance after Holm's adjustment. Figures of the whole run are adjusted together, and so are the parts of a figure.
"""

import json
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pandas as pd

from hb_dataset.command_line import CommandParser
from hb_dataset.whole_files import write_text
from hb_metrics.layout.figure import EXPORTED, OF_PLAIN, Figure, by_part
from hb_metrics.layout.plots import figures_plot, runs_plot
from hb_metrics.measurements.results import Run, read_run
from hb_metrics.report.changes import run_changes
from hb_metrics.report.compared_runs import comparison_warnings, differing_settings, run_names
from hb_metrics.report.markdown import figure_rows, intervals_note, markdown_with_note, shown_figures
from hb_metrics.run.record import CONFIDENCE_LEVEL

FORMATS = ("md", "csv", "latex", "json")
_LATEX = str.maketrans(
    {character: f"\\{character}" for character in "&%$#_{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": "$<$", ">": "$>$"}
    | {"−": "$-$", "–": "--", "×": r"$\times$", "“": "``", "”": "''", "ρ": r"$\rho$"}
)


def main(argv: Sequence[str] | None = None) -> None:
    parser = CommandParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="The folders of finished runs.")
    parser.add_argument(
        "--names", nargs="+", metavar="NAME", help="The names of the runs, in the order of the folders."
    )
    parser.add_argument(
        "--format", choices=FORMATS, default="md", help="The format of the table. Default: %(default)s."
    )
    parser.add_argument(
        "--by", help="Show figures by axis, cluster, template or another part. Default: figures of the whole run."
    )
    parser.add_argument("--figure", type=Path, metavar="FILE.svg", help="Also draw the first figure by axis as SVG.")
    arguments = parser.parse_args(argv)
    if arguments.figure is not None and arguments.figure.suffix != ".svg":
        parser.error(f"--figure is '{arguments.figure}'; pass a file that ends in .svg, which browsers convert to PNG")
    runs = [read_run(folder) for folder in arguments.runs]
    names = run_names(runs, arguments.names)
    if arguments.figure is not None:
        write_text(arguments.figure, chart(runs, names, arguments.by or "axis"))
    print(table(runs, names, arguments.format, arguments.by))
    warnings = comparison_warnings(differing_settings([run.record for run in runs]), [run.results for run in runs])
    for sentence in warnings:  # a CSV file has no place for them
        print(f"warning: {sentence}", file=sys.stderr)


def table(runs: Sequence[Run], names: Sequence[str], format: str = "md", by: str | None = None) -> str:
    """Returns the table of the runs' figures in one of `FORMATS`.

    Raises:
        ValueError: No run has figures by this part.
    """
    listed = dict(zip(names, shown_figures(runs, partial(_is_shown, by)), strict=True))
    if not any(listed.values()):
        raise ValueError(f"no run has figures by '{by}'; pass --by axis, cluster or template, or omit --by")
    changed = {name: _changed(runs[0], run, listed[name]) for name, run in zip(names, runs, strict=True)}
    if format in ("csv", "json"):
        long = [
            _row(name, figure, figure.title in changed[name]) for name, figures in listed.items() for figure in figures
        ]
        if format == "json":
            return json.dumps(long, indent=1, ensure_ascii=False)
        return pd.DataFrame(long, dtype=object).to_csv(index=False, lineterminator="\n").rstrip("\n")
    note = intervals_note(listed)
    if any(changed.values()):
        note += f" * The change from {names[0]} is beyond chance after Holm's adjustment."
    write = latex if format == "latex" else markdown_with_note
    return write(["", *names], figure_rows(listed, changed), note.strip())


def _is_shown(by: str | None, figure: Figure) -> bool:
    if by is None:
        return figure.is_main and not figure.part_of
    return figure.part_of.removesuffix(OF_PLAIN).endswith((f" by {by}", f" on each {by}"))


def chart(runs: Sequence[Run], names: Sequence[str], by: str) -> str:
    """Draws the first figure that has intervals by this part as an SVG file.

    Raises:
        ValueError: The first run has no figures by this part.
    """
    parts = [by_part(figures) for figures in shown_figures(runs, partial(_is_shown, by))]
    if not parts[0]:
        raise ValueError(f"{names[0]} has no figures by '{by}'; pass --by axis, cluster or template, or omit --figure")
    headings = [heading for heading, figures in parts[0].items() if any(figure.interval for figure in figures)]
    heading = (headings or list(parts[0]))[0]
    drawn = {name: of_run.get(heading, []) for name, of_run in zip(names, parts, strict=True)}
    svg = runs_plot(drawn, heading) if len(runs) > 1 else figures_plot(parts[0][heading], heading)
    return str(svg).replace('width="100%"', 'width="800"', 1)


def latex(header: Sequence[str], rows: Sequence[Sequence[str]], note: str) -> str:
    """Writes a tabular for the package booktabs."""
    lines = [" & ".join(cell.translate(_LATEX) for cell in row) + r" \\" for row in (header, *rows)]
    top = [rf"\begin{{tabular}}{{l{'r' * (len(header) - 1)}}}", r"\toprule", lines[0], r"\midrule"]
    comment = [f"% {note}"] if note else []
    return "\n".join([r"% \usepackage{booktabs}", *comment, *top, *lines[1:], r"\bottomrule", r"\end{tabular}"])


def _changed(first: Run, run: Run, figures: Sequence[Figure]) -> set[str]:
    if run is first:
        return set()
    names = {figure.title for figure in figures}
    changed = {row.figure.title for row in run_changes(first, run, ("", "")).rows if row.beyond_chance}
    return changed & names


def _row(run: str, figure: Figure, is_changed: bool) -> dict[str, object]:
    low, high = figure.interval or (None, None)
    level = None if figure.interval is None else CONFIDENCE_LEVEL
    bounds = {"low": low, "high": high, "confidence_level": level, "no_interval": figure.no_interval}
    return {
        "run": run,
        "figure": figure.title,
        "value": figure.value,
        "unit": EXPORTED[figure.unit],
        **bounds,
        "changed": is_changed,
    }
