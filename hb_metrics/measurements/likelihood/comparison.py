"""The section in the comparison of two runs."""

from pathlib import Path

from hb_metrics.display.change_figure import change_figure
from hb_metrics.display.figures import plain
from hb_metrics.display.numbers import share
from hb_metrics.display.parts import Comparison, Section, Tile
from hb_metrics.display.rendering import render
from hb_metrics.measurements.likelihood.tables import likelihood_changes
from hb_metrics.runs.finished_run import Run


def likelihood_comparison(first: Run, second: Run, names: tuple[str, str], folder: Path) -> Comparison:
    """The section of Likelihood Bias of both runs, by axis; `folder` has its Jinja template."""
    changes = likelihood_changes(*(run.results["likelihood"]["likelihood_bias"] for run in (first, second)))
    html = render(folder / "comparison.html.jinja", {"changes": changes})
    figures = {"likelihood-change": [plain(change_figure(changes, "Likelihood Bias", names, ".0%"))]}
    tile = Tile("Likelihood Bias", f"{share(changes[0].first)} → {share(changes[0].second)}")
    return Comparison([Section("likelihood", "Likelihood Bias", html, figures)], [tile])
