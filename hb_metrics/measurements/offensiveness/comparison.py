"""The section in the comparison of two runs."""

from pathlib import Path

from hb_metrics.display.change_figure import change_figure
from hb_metrics.display.figures import plain
from hb_metrics.display.numbers import share
from hb_metrics.display.parts import Comparison, Section, Tile
from hb_metrics.display.rendering import render
from hb_metrics.measurements.offensiveness.tables import offensiveness_changes
from hb_metrics.runs.finished_run import Run


def offensiveness_comparison(first: Run, second: Run, names: tuple[str, str], folder: Path) -> Comparison:
    """The section of both runs' shares, by axis and by template; `folder` has its Jinja template."""
    changes = offensiveness_changes(first.results["offensiveness"], second.results["offensiveness"])
    by_axis = {heading: rows for heading, rows in changes.items() if heading.endswith("by axis")}
    html = render(folder / "comparison.html.jinja", {"offensiveness": changes})
    plots = [plain(change_figure(rows, heading, names, ".1~%")) for heading, rows in by_axis.items()]
    tiles = [
        Tile(heading.removesuffix(" by axis"), f"{share(rows[0].first)} → {share(rows[0].second)}")
        for heading, rows in by_axis.items()
    ]
    return Comparison([Section("offensiveness", "Offensiveness", html, {"offensiveness-change": plots})], tiles)
