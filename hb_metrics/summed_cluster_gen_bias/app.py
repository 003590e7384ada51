"""The page of a metric's Space: rows in a table or a file, a button, the figures.

    python app.py

One file for all metrics: the card beside it says which metric it is, the metric which columns and settings there are,
and the first case of tests.py what the table shows at first. `evaluate.utils.launch_gradio_widget` needs gradio 3.
"""

import json
import re
import runpy
from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter, Signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from huggingface_hub import SpaceCard

# A Space runs this file as a script, beside the other; this project holds both in a package.
if TYPE_CHECKING or __package__:
    from . import app_tables as tables
else:
    import app_tables as tables

if TYPE_CHECKING:
    import evaluate

# Importing evaluate takes seconds, and gradio comes with the Space: both wait for the functions that need them.

FOLDER = Path(__file__).parent
MAX_FILE_SIZE = "200mb"
FILES_KEPT = 3600  # seconds
# More would take the whole machine for minutes.
MAX_SETTINGS = {"n_resamples": 10_000, "n_halves": 10_000, "n_shuffles": 1_000}
SEARCHED_FROM = 12  # rows
MAX_HEIGHT = 820  # pixels of a table
# On a phone the card's tables are as wide as the page, and long names break.
STYLE = """
@media (max-width: 640px) {
  .prose table { table-layout: fixed; width: 100%; }
  .prose th:first-child { width: 35%; }
  .prose td, .prose td code { overflow-wrap: anywhere; white-space: normal; }
}
"""

NO_METRIC_ERROR = "README.md has the title '{title}', but there is no {name}.py beside it; title it as the metric"


def main() -> None:
    """Shows the page."""
    page().launch(max_file_size=MAX_FILE_SIZE, css=STYLE)


def metric_name(card: SpaceCard) -> str:
    """The name of the metric that a card is of.

    Raises:
        ValueError: There is no such metric beside it.
    """
    title = str(card.data.get("title"))
    name = re.sub(r"\W", "_", title.lower())
    if not (FOLDER / f"{name}.py").is_file():
        raise ValueError(NO_METRIC_ERROR.format(title=title, name=name))
    return name


def load_metric(name: str) -> "evaluate.Metric":
    """The metric, from the file beside this one: a Space's own folder has another name than the Space."""
    import evaluate

    return evaluate.load(str(FOLDER / f"{name}.py"), keep_in_memory=True)


def first_case() -> dict[str, Any]:
    """The first test case."""
    return runpy.run_path(str(FOLDER / "tests.py"))["test_cases"][0]


def page() -> Any:
    """Builds the page.

    Returns:
        A `gradio.Blocks`, to be launched.
    """
    import gradio as gr

    card = SpaceCard.load(FOLDER / "README.md")
    name = metric_name(card)
    metric = load_metric(name)
    taken, case = tables.takes(metric), first_case()
    example = tables.example_rows(case, taken)

    def show(rows: pd.DataFrame, path: str | None, *values: Any) -> list[Any]:
        try:
            rows = rows if path is None else tables.read_file(path, taken)
            # A new metric each time: nothing of a visitor's rows stays behind, whatever happens.
            notes, results = tables.compute(
                load_metric(name), rows, dict(zip(taken.settings, values, strict=True)), taken
            )
        except ValueError as error:  # an error of gradio's would leave the figures from before in their places
            return [
                tables.refusal(error),
                *(gr.Dataframe(visible=False) for _ in tables.TABLES),
                gr.Accordion(visible=False),
                None,
            ]
        made = tables.tables_of(results)
        shown = [
            gr.Dataframe(**_contents(made[levels]), visible=True) if levels in made else gr.Dataframe(visible=False)
            for levels in tables.TABLES
        ]
        source = "the table" if path is None else Path(path).name
        return [tables.message(results, notes, source), *shown, gr.Accordion(visible=True), results]

    with gr.Blocks(title=card.data.title, delete_cache=(FILES_KEPT, FILES_KEPT)) as blocks:
        gr.Markdown(f"# {card.data.emoji} {card.data.title}\n\n{card.data.description}")
        gr.Markdown(_how_to(taken))
        contents = tables.Table([str(header) for header in example.columns], example.values.tolist())
        table = gr.Dataframe(**_contents(contents), label="Rows", interactive=True)
        file = gr.File(label="Or a file: CSV or Parquet", file_types=[".csv", ".parquet"], height=120)
        with gr.Accordion("Settings", open=False):
            settings = _settings(gr, _argument_texts(metric.inputs_description), taken, case)
        button = gr.Button("Compute", variant="primary")
        above = gr.Markdown(label="message")
        shown = [
            gr.Dataframe(
                label=_title(levels),
                visible=False,
                interactive=False,
                max_height=MAX_HEIGHT,
                # Long names would push the values out of a phone's page.
                **({"wrap": True, "column_widths": ["60%", "40%"]} if levels == tables.FIGURES else {}),
            )
            for levels in tables.TABLES
        ]
        with gr.Accordion("All results, as compute returns them", open=False, visible=False) as everything:
            results = gr.JSON(label="results", show_label=False)
        gr.Markdown("---")
        gr.Markdown(card.text)
        # While there is a file, its rows count: the table is put away.
        file.change(lambda path: gr.Dataframe(visible=path is None), file, table, api_visibility="private")
        _name_inputs(show, ("rows", "file", *taken.settings))
        button.click(show, [table, file, *settings], [above, *shown, everything, results], api_name="compute")
    return blocks


def _name_inputs(function: Callable[..., Any], names: Sequence[str]) -> None:
    """Says what clients of the page's API call the inputs of a function; `None` stands for an input's default."""
    inputs = [Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, default=None) for name in names]
    function.__signature__ = Signature(inputs)  # type: ignore[attr-defined]


def _how_to(taken: tables.Takes) -> str:
    texts = ", ".join(f"`{name}`" + (" (may be empty)" if name in taken.optional else "") for name in taken.texts)
    numbers = (
        "one column of probabilities for each style, named as the style"
        if taken.is_per_style
        else " and ".join(f"`{name}`" for name in taken.numbers)
    )
    columns = ", and ".join(part for part in (texts, numbers) if part)
    understood = tables.other_names(taken)
    return f"Edit the rows, or choose a file with these columns: {columns}.{understood} Below the figures is its card."


def _settings(gr: Any, texts: Mapping[str, str], taken: tables.Takes, case: Mapping[str, Any]) -> list[Any]:
    """The fields of the settings, in their order; those of numbers stand side by side, below the others."""
    are_numbers = {name: isinstance(parameter.default, (int, float)) for name, parameter in taken.settings.items()}

    def fields(of_numbers: bool) -> dict[str, Any]:
        names = [name for name in taken.settings if are_numbers[name] == of_numbers]
        return {name: _setting(gr, name, taken.settings[name].default, texts.get(name, ""), case) for name in names}

    found = fields(of_numbers=False)
    with gr.Row():
        found |= fields(of_numbers=True)
    return [found[name] for name in taken.settings]


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
    """What a metric's description says of each argument."""
    found = re.findall(r"^    (\w+) \([^\n]*?\): (.*(?:\n {8}.*)*)", description.split("Returns:")[0], re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in found}


def _contents(table: tables.Table) -> dict[str, Any]:
    """A table as `gradio` takes it; columns of numbers sort as such."""
    is_number = [all(isinstance(cell, (int, float)) for cell in column) for column in zip(*table.rows, strict=True)]
    return {
        "value": {"headers": table.headers, "data": table.rows},
        "headers": table.headers,
        "show_search": "search" if len(table.rows) >= SEARCHED_FROM else "none",
        "datatype": ["number" if number else "str" for number in is_number],
    }


def _title(levels: tuple[str, ...]) -> str:
    return "Figures" if levels == tables.FIGURES else f"By {' and '.join(levels)}"


if __name__ == "__main__":
    main()
