"""Shows the page of a metric's Space. Visitors can edit a table of rows and compute the metric.

`publish metrics` writes this file as app.py beside the metric's own files. It replaces
`evaluate.utils.launch_gradio_widget`, which requires gradio 3.
"""

import html
import json
import re
import runpy
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from huggingface_hub import SpaceCard

if TYPE_CHECKING:
    import evaluate

FOLDER = Path(__file__).parent
PREDICTIONS = "predictions"


def load_metric(title: str) -> "evaluate.Metric":
    import evaluate

    name = re.sub(r"\W", "_", title.lower())
    return evaluate.load(str(FOLDER / f"{name}.py"), keep_in_memory=True)


def columns_of(metric: "evaluate.Metric") -> dict[str, Any]:
    features: Any = metric.features
    return dict(features[0] if isinstance(features, list) else features)


def example(metric: "evaluate.Metric") -> tuple[pd.DataFrame, dict[str, object]]:
    """Returns the first test case: its rows, and the other arguments of `compute`. Each style has a column."""
    case = dict(runpy.run_path(str(FOLDER / "tests.py"))["test_cases"][0])
    del case["result"]
    rows = {name: case.pop(name) for name in columns_of(metric) if name in case}
    if "labels" in case:
        rows |= zip(case.pop("labels"), zip(*rows.pop(PREDICTIONS), strict=True), strict=True)
    return pd.DataFrame(rows), case


def inputs_of(rows: pd.DataFrame, metric: "evaluate.Metric") -> dict[str, list[Any]]:
    columns = columns_of(metric)
    rows = rows.replace(r"^\s*$", None, regex=True).dropna(how="all").dropna(axis="columns", how="all")
    inputs: dict[str, list[Any]] = {}
    for name in columns.keys() & {*rows.columns}:
        is_text = "string" in str(columns[name].dtype)
        column = rows[name].astype(object).where(rows[name].notna(), None) if is_text else rows[name].astype(float)
        inputs[name] = column.tolist()
    if PREDICTIONS not in inputs:  # there is a column for each style
        styles = [name for name in rows.columns if name not in columns]
        inputs |= {PREDICTIONS: rows[styles].astype(float).to_numpy().tolist(), "labels": styles}
    return inputs


def figures_of(results: Mapping[str, object], above: str = "") -> list[list[str]]:
    figures = []
    for name, value in results.items():
        if isinstance(value, Mapping):
            figures += figures_of(value, f"{above}{name} / ")
        else:
            figures.append([f"{above}{name}", f"{value:.6g}" if isinstance(value, float) else str(value)])
    return figures


def compute(title: str, rows: pd.DataFrame, settings: str) -> tuple[str, list[list[str]]]:
    """Computes the metric. Returns a text (the main figure and warnings, or the error) and a table of all figures."""
    metric = load_metric(title)  # a new instance for each call, so no visitor's rows remain in it
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            inputs = inputs_of(rows, metric)
            results = metric.compute(**inputs, **json.loads(settings or "{}"))
    except (ValueError, TypeError) as error:  # if gradio showed the error, earlier figures would remain on the page
        return f"## Not computed\n\n{html.escape(str(error), quote=False)}", []
    figures = figures_of(results)
    notes = [html.escape(str(warning.message), quote=False) for warning in caught]
    name, value = next(figure for figure in figures if re.search(r"\d", figure[1]))
    lines = [f"## {name.replace('_', ' ')}: {value}", f"From {len(inputs[PREDICTIONS]):,} rows.", *notes]
    return "\n\n".join(lines), figures


def main() -> None:
    import gradio as gr

    card = SpaceCard.load(FOLDER / "README.md")
    title = str(card.data.title)
    metric = load_metric(title)
    rows, settings = example(metric)
    with gr.Blocks(title=title) as page:
        gr.Markdown(f"# {card.data.emoji} {title}\n\n{card.data.description}")
        table = gr.Dataframe(rows, label="Rows", interactive=True)
        other = gr.Textbox(json.dumps(settings), label="Other arguments of compute, as JSON")
        button = gr.Button("Compute", variant="primary")
        above = gr.Markdown(label="message")
        figures = gr.Dataframe(headers=["figure", "value"], label="Figures", wrap=True, show_search="search")
        gr.Markdown(f"---\n\n{card.text}")
        button.click(lambda *given: compute(title, *given), [table, other], [above, figures], api_name="compute")
    page.launch()


if __name__ == "__main__":
    main()
