"""A sweep of learning rates in words, as a table and as a page, which `sweep.html.jinja` lays out."""

import math
from pathlib import Path
from typing import Any

import plotly.graph_objects as go

from hb_dataset.markdown_table import markdown_table
from hb_metrics.report import rendering
from hb_metrics.report.plots import BLUE, GREY, ORANGE, finished, plain

_MOST_TICKS = 8
_SCALE = 3  # a perplexity more than 3 times that of the untuned model is drawn at the upper edge


def remarks(sweep: dict[str, Any]) -> list[str]:
    """What a reader should know of a sweep that has a best run, in sentences, from the content of sweep.json."""
    best, before, runs = sweep["best"], sweep["validation_perplexity_before_tuning"], sweep["runs"]
    perplexity = _perplexity(best["best_validation_perplexity"])
    lines = [f"Best: {best['learning_rate']:.2e}, with a validation perplexity of {perplexity}."]
    if before is not None:
        lines[0] = lines[0][:-1] + f" ({_perplexity(before)} before tuning)."
        if best["best_validation_perplexity"] >= before:
            lines.append("No rate made it lower than before tuning.")
    if sweep["best_at_end"] is not None:
        end, beyond = ("lowest", "below") if sweep["best_at_end"] == "lowest" else ("highest", "above")
        lines.append(f"It is the {end} rate of the grid: the optimum may lie {beyond} it; sweep on there.")
    num_to_repeat = sum(run["failed"] is not None and not run["diverged"] for run in runs)
    if num_to_repeat:
        lines.append(
            f"{num_to_repeat} of {len(runs)} runs failed without diverging; the same command tries them again."
        )
    return lines


def sweep_table(sweep: dict[str, Any]) -> str:
    """The runs as a table in Markdown."""
    rows = []
    for run in sweep["runs"]:
        remark = "**best**" if run == sweep["best"] else (run["failed"] or "").replace("|", r"\|")
        steps = ("–" if run[name] is None else f"{run[name]:,}" for name in ("best_step", "num_steps"))
        rows.append([f"{run['learning_rate']:.2e}", _perplexity(run["best_validation_perplexity"]), *steps, remark])
    header = ["learning rate", "best validation perplexity", "at step", "steps", ""]
    return markdown_table(header, rows, numbers=range(4))


def sweep_figure(sweep: dict[str, Any]) -> go.Figure:
    """Best validation perplexity by learning rate; runs without one, or with one far too high, at the upper edge."""
    runs, best, before = sweep["runs"], sweep["best"], sweep["validation_perplexity_before_tuning"]
    lowest = best["best_validation_perplexity"]
    limit = _SCALE * max(lowest, before or lowest)
    inside = [run for run in runs if (run["best_validation_perplexity"] or math.inf) <= limit]
    values = [run["best_validation_perplexity"] for run in inside] + ([] if before is None else [before])
    pad = 0.08 * (max(values) - min(values) or lowest)
    edge = max(values) + 2 * pad
    figure = go.Figure()
    figure.add_scatter(
        x=[run["learning_rate"] for run in runs],
        y=[run["best_validation_perplexity"] if run in inside else None for run in runs],
        mode="lines+markers",
        name="best of a run",
        line={"color": BLUE, "width": 1},
        marker={"size": 8, "color": BLUE},
        hovertemplate="%{x:.2e}: %{y:,.3f}<extra></extra>",
    )
    figure.add_scatter(
        x=[best["learning_rate"]],
        y=[lowest],
        mode="markers",
        name="best of all",
        marker={"size": 14, "color": ORANGE, "symbol": "star"},
        hovertemplate="%{x:.2e}: %{y:,.3f}<extra></extra>",
    )
    beyond = [run for run in runs if run not in inside and run["failed"] is None]
    failed = [run for run in runs if run["failed"] is not None]
    for name, symbol, at_edge in (("higher than shown", "triangle-up", beyond), ("failed", "x", failed)):
        if at_edge:
            figure.add_scatter(
                x=[run["learning_rate"] for run in at_edge],
                y=[edge] * len(at_edge),
                customdata=[run["failed"] or _perplexity(run["best_validation_perplexity"]) for run in at_edge],
                mode="markers",
                name=name,
                marker={"size": 9, "color": GREY, "symbol": symbol},
                hovertemplate="%{x:.2e}: %{customdata}<extra></extra>",
            )
    if before is not None:
        figure.add_hline(before, line={"color": GREY, "dash": "dash", "width": 1})
        figure.add_annotation(text="before tuning", x=1, xref="x domain", y=before, yshift=9, showarrow=False)
    ticks = sweep["grid"][:: math.ceil(len(sweep["grid"]) / _MOST_TICKS)]
    figure.update_xaxes(
        type="log",
        tickvals=ticks,
        ticktext=[f"{rate:.2e}".replace(".00e", "e") for rate in ticks],
        title="learning rate (log scale)",
    )
    figure.update_yaxes(
        range=[max(0, min(values) - pad), edge + pad], zeroline=False, title="best validation perplexity"
    )
    return finished(figure, height=420)


def write_page(path: Path, sweep: dict[str, Any]) -> None:
    """Writes the page of a sweep: one file that loads nothing, with the look of the report.

    Args:
        path: The HTML file to write.
        sweep: The content of sweep.json.
    """
    figures = {} if sweep["best"] is None else {"sweep-plot": [plain(sweep_figure(sweep))]}
    context = {
        "sweep": sweep,
        "remarks": [] if sweep["best"] is None else remarks(sweep),
        "perplexity": _perplexity,
    }
    rendering.write_page(Path(__file__).parent / "sweep.html.jinja", path, context, figures)


def _perplexity(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,.3f}" if value < 1e6 else f"{value:.3g}"
