"""Debiasing and its costs as one table with a line per model (Barikeri et al., 2021, table 4).

The folder is the one of `debias --compare`: `before/` and a folder for each method, each with `bias/` from `measure.py
--measurements reddit,dialogue`.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hb_dataset.markdown_table import markdown_table
from hb_dataset.whole_files import write_text
from hb_metrics.runs.run_folder import RESULTS_FILE, read_json
from hb_train.debiasing.arguments import METHODS

TABLE_FILE = "table.md"
BEFORE = "before"
BIAS = f"bias/{RESULTS_FILE}"
LEAST_P_VALUE = 0.001  # smaller values are shown as "< 0.001"
# Heading → the key of a bias type's test, and the number format.
BIAS_COLUMNS = {
    "t": ("t", "{:+.2f}"),
    "p": ("p_value", "{:.3f}"),
    "t of logs": ("t_log", "{:+.2f}"),
    "t1 likelier": ("share_t1_likelier", "{:.1%}"),
}
_EXPLANATION = (
    "t: paired test of the perplexities of the pairs; negative: phrases about the minoritized group are likelier. t of "
    "logs: the same test of log perplexities, which does not depend on a few rows. t1 likelier: share of pairs. LMP: "
    "perplexity of ordinary texts. Dialogue: perplexity of people's replies."
)


def write_debias_table(folder: Path) -> None:
    """Writes the table into the folder, and prints it."""
    text = debias_table(folder)
    write_text(folder / TABLE_FILE, text)
    print(text)


def debias_table(folder: Path) -> str:
    """The table in Markdown, of a folder with a folder for each model."""
    models = [name for name in (BEFORE, *METHODS) if (folder / name / BIAS).is_file()]
    results = {name: read_json(folder / name / BIAS) for name in models}
    bias_types = sorted({bias_type for run in results.values() for bias_type in run["reddit"]["by_bias_type"]})
    headings = [f"{heading} ({bias_type})" for bias_type in bias_types for heading in BIAS_COLUMNS]
    header, rows = ["model", *headings, "LMP", "dialogue"], []
    for name, run in results.items():
        of_types = [run["reddit"]["by_bias_type"].get(bias_type, {}) for bias_type in bias_types]
        cells = [_cell(of_type, *column) for of_type in of_types for column in BIAS_COLUMNS.values()]
        costs = [_cell(run["reddit"], "lmp", "{:.1f}"), _cell(run.get("dialogue", {}), "perplexity", "{:.1f}")]
        rows.append([name, *cells, *costs])
    return f"{markdown_table(header, rows, numbers=range(1, len(header)))}\n\n{_EXPLANATION}\n"


def _cell(values: Mapping[str, Any], key: str, form: str) -> str:
    value = values.get(key)
    if key == "p_value" and value is not None and value < LEAST_P_VALUE:
        return f"< {LEAST_P_VALUE}"
    return "–" if value is None else form.format(value)
