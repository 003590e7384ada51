"""The page of a metric's Space: rows in a table or a file, a button, the figures.

It runs in the folder of a published metric, beside the metric's own files (`publish_metrics.py --dry_run spaces` writes
such folders):

    python spaces/full_gen_bias/app.py

The page is the same for all metrics: the card's title names the metric, the metric defines the columns and settings,
and the first case of tests.py fills the table. `evaluate.utils.launch_gradio_widget` needs gradio 3.
"""

import json
import re
import runpy
import warnings
from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter, Signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from huggingface_hub import SpaceCard

# A Space runs this file as a script, beside the other two; in this project all three are in a package.
if TYPE_CHECKING or __package__:
    from . import page_inputs, page_results
else:
    import page_inputs
    import page_results

if TYPE_CHECKING:
    import evaluate

# evaluate takes seconds to import, and gradio comes with the Space: both are imported where they are needed.

FOLDER = Path(__file__).parent
MAX_FILE_SIZE = "200mb"
FILES_KEPT = 3600  # seconds that a visitor's file is kept
# The highest values of settings: more would take the whole machine for minutes.
MAX_SETTINGS = {"n_halves": 10_000, "n_shuffles": 1_000}
SEARCHED_FROM = 12  # rows from which a table has a search field
MAX_HEIGHT = 820  # pixels of a table
# On a phone the card's tables are as wide as the page, and long names break.
STYLE = """
@media (max-width: 640px) {
  .prose table { table-layout: fixed; width: 100%; }
  .prose th:first-child { width: 35%; }
  .prose td, .prose td code { overflow-wrap: anywhere; white-space: normal; }
}
"""

NO_METRIC_ERROR = (
    "README.md has the title '{title}', but there is no {name}.py beside it; make the title the metric's name"
)


def main() -> None:
    """Shows the page."""
    page().launch(max_file_size=MAX_FILE_SIZE, css=STYLE)


def metric_name(card: SpaceCard) -> str:
    """The name of the metric that a card describes.

    Raises:
        ValueError: There is no such metric beside the card.
    """
    title = str(card.data.get("title"))
    name = re.sub(r"\W", "_", title.lower())
    if not (FOLDER / f"{name}.py").is_file():
        raise ValueError(NO_METRIC_ERROR.format(title=title, name=name))
    return name


def load_metric(name: str) -> "evaluate.Metric":
    """Loads the metric from the file beside this one: the folder of a Space has another name than the Space."""
    import evaluate

    return evaluate.load(str(FOLDER / f"{name}.py"), keep_in_memory=True)


def first_case() -> dict[str, Any]:
    """Reads the first test case."""
    return runpy.run_path(str(FOLDER / "tests.py"))["test_cases"][0]


def compute(
    metric: "evaluate.Metric", rows: pd.DataFrame, settings: Mapping[str, Any], expected: page_inputs.MetricInputs
) -> tuple[list[str], dict[str, Any]]:
    """Computes the metric of a visitor's rows.

    Returns:
        Notes for the visitor (how the rows were read, warnings), and the results.

    Raises:
        ValueError: The rows or settings are not as the metric needs them.
    """
    inputs, notes = page_inputs.rows_to_inputs(rows, expected)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", UserWarning)
        results = metric.compute(**inputs, **page_inputs.read_settings(settings, expected))
    return [", ".join(notes), *(str(warning.message) for warning in caught)], results


def page() -> Any:
    """Builds the page.

    Returns:
        A `gradio.Blocks`, to be launched.
    """
    import gradio as gr

    card = SpaceCard.load(FOLDER / "README.md")
    name = metric_name(card)
    metric = load_metric(name)
    expected, case = page_inputs.metric_inputs(metric), first_case()
    example = page_inputs.example_rows(case, expected)

    def show(rows: pd.DataFrame, path: str | None, *values: Any) -> list[Any]:
        try:
            rows = rows if path is None else page_inputs.read_file(path, expected)
            # A new metric each time, so that nothing of a visitor's rows stays behind after an error.
            notes, results = compute(
                load_metric(name), rows, dict(zip(expected.settings, values, strict=True)), expected
            )
        except ValueError as error:  # raised as gradio's own error, it would leave the earlier figures on the page
            hidden = [gr.Dataframe(visible=False) for _ in page_results.TABLES]
            return [page_results.refusal(error), *hidden, gr.Accordion(visible=False), None]
        tables = page_results.tables_of(results)
        shown = [
            gr.Dataframe(**_contents(tables[levels]), visible=True) if levels in tables else gr.Dataframe(visible=False)
            for levels in page_results.TABLES
        ]
        source = "the table" if path is None else Path(path).name
        return [page_results.message(results, notes, source), *shown, gr.Accordion(visible=True), results]

    with gr.Blocks(title=card.data.title, delete_cache=(FILES_KEPT, FILES_KEPT)) as blocks:
        gr.Markdown(f"# {card.data.emoji} {card.data.title}\n\n{card.data.description}")
        gr.Markdown(_how_to(expected))
        contents = page_results.Table([str(header) for header in example.columns], example.values.tolist())
        table = gr.Dataframe(**_contents(contents), label="Rows", interactive=True)
        file = gr.File(label="Or a file: CSV or Parquet", file_types=[".csv", ".parquet"], height=120)
        with gr.Accordion("Settings", open=False):
            settings = _settings(gr, _argument_texts(metric.inputs_description), expected, case)
        button = gr.Button("Compute", variant="primary")
        above = gr.Markdown(label="message")
        shown = [
            gr.Dataframe(
                label=_title(levels),
                visible=False,
                interactive=False,
                max_height=MAX_HEIGHT,
                # Long names would push the values out of a phone's page.
                **({"wrap": True, "column_widths": ["60%", "40%"]} if levels == page_results.FIGURES else {}),
            )
            for levels in page_results.TABLES
        ]
        with gr.Accordion("All results, as compute returns them", open=False, visible=False) as everything:
            results = gr.JSON(label="results", show_label=False)
        gr.Markdown("---")
        gr.Markdown(card.text)
        # While there is a file, its rows count: the table is put away.
        file.change(lambda path: gr.Dataframe(visible=path is None), file, table, api_visibility="private")
        _name_inputs(show, ("rows", "file", *expected.settings))
        button.click(show, [table, file, *settings], [above, *shown, everything, results], api_name="compute")
    return blocks


def _name_inputs(function: Callable[..., Any], names: Sequence[str]) -> None:
    """Names the inputs of a function for clients of the page's API; `None` stands for an input's default."""
    inputs = [Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, default=None) for name in names]
    function.__signature__ = Signature(inputs)  # type: ignore[attr-defined]


def _how_to(expected: page_inputs.MetricInputs) -> str:
    texts = ", ".join(f"`{name}`" + (" (may be empty)" if name in expected.optional else "") for name in expected.texts)
    numbers = (
        "one column of probabilities for each style, named as the style"
        if expected.is_per_style
        else " and ".join(f"`{name}`" for name in expected.numbers)
    )
    columns = ", and ".join(part for part in (texts, numbers) if part)
    return (
        f"Edit the rows, or choose a file with these columns: {columns}.{page_inputs.other_names(expected)} "
        "The metric's card is below the figures."
    )


def _settings(
    gr: Any, texts: Mapping[str, str], expected: page_inputs.MetricInputs, case: Mapping[str, Any]
) -> list[Any]:
    """The fields of the settings, in their order; those of numbers are shown side by side, below the others."""
    are_numbers = {name: isinstance(parameter.default, (int, float)) for name, parameter in expected.settings.items()}

    def make(of_numbers: bool) -> dict[str, Any]:
        names = [name for name in expected.settings if are_numbers[name] == of_numbers]
        return {name: _setting(gr, name, expected.settings[name].default, texts.get(name, ""), case) for name in names}

    fields = make(of_numbers=False)
    with gr.Row():
        fields |= make(of_numbers=True)
    return [fields[name] for name in expected.settings]


def _setting(gr: Any, name: str, default: Any, text: str, case: Mapping[str, Any]) -> Any:
    """The field of a setting."""
    if isinstance(default, bool):
        return gr.Checkbox(default, label=name, info=text)
    if isinstance(default, (int, float)):
        precision = 0 if isinstance(default, int) and name != "scale" else None
        return gr.Number(default, label=name, info=text, precision=precision, maximum=MAX_SETTINGS.get(name))
    if isinstance(default, str):
        return gr.Textbox(default, label=name, info=text)
    if isinstance(default, frozenset):
        return gr.Textbox("\n".join(sorted(default)), label=name, info=f"{text} One in a line.", lines=3)
    return gr.Textbox(json.dumps(case[name]) if name in case else "", label=name, info=f"{text} As JSON.", lines=2)


def _argument_texts(description: str) -> dict[str, str]:
    """The explanation of each argument in a metric's description."""
    arguments = re.findall(r"^    (\w+) \([^\n]*?\): (.*(?:\n {8}.*)*)", description.split("Returns:")[0], re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in arguments}


def _contents(table: page_results.Table) -> dict[str, Any]:
    """A table as the arguments of a `gradio.Dataframe`, which sorts columns of numbers by number."""
    is_number = [all(isinstance(cell, (int, float)) for cell in column) for column in zip(*table.rows, strict=True)]
    return {
        "value": {"headers": table.headers, "data": table.rows},
        "headers": table.headers,
        "show_search": "search" if len(table.rows) >= SEARCHED_FROM else "none",
        "datatype": ["number" if number else "str" for number in is_number],
    }


def _title(levels: tuple[str, ...]) -> str:
    return "Figures" if levels == page_results.FIGURES else f"By {' and '.join(levels)}"


if __name__ == "__main__":
    main()
