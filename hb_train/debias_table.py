"""Debiasing and its costs as one table with a line per model (Barikeri et al., 2021, tables 4 and 5).

The folder is the one of `debias --compare`, with a folder for `before` and for each method. Each contains `bias/` from
`measure.py --measurements reddit`, `dst/` from `dialog_state_tracking.py` and `crg/` from `response_generation.py`. A
missing measurement is shown as –.
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
BIAS, DST, CRG = f"bias/{RESULTS_FILE}", "dst/dst.json", "crg/crg.json"
# Heading → the file, its key, and the number format.
COLUMNS = {
    "LMP": (BIAS, "lmp", "{:.1f}"),
    "DST F1": (DST, "f1", "{:.3f}"),
    "DST accuracy": (DST, "accuracy", "{:.3f}"),
    "BLEU-4": (CRG, "bleu_4", "{:.2f}"),
    "METEOR*": (CRG, "meteor_exact_stem", "{:.2f}"),
    "NIST-2": (CRG, "nist_2", "{:.3f}"),
    "Entropy-4": (CRG, "entropy_4", "{:.2f}"),
    "Dist-2": (CRG, "dist_2", "{:.1f}"),
}
LEAST_P_VALUE = 0.001  # smaller values are shown as "< 0.001"
BIAS_COLUMNS = {
    "t": ("t", "{:+.2f}"),
    "p": ("p_value", "{:.3f}"),
    "t of logs": ("t_log", "{:+.2f}"),
    "t1 likelier": ("share_t1_likelier", "{:.1%}"),
}
_EXPLANATION = (
    "t: paired test of the perplexities of the pairs; negative: phrases about the minoritized group are likelier. t of "
    "logs: the same test of log perplexities, which does not depend on a few rows. t1 likelier: share of pairs. LMP: "
    "perplexity of ordinary texts. DST: tracking users' wishes, on {dialogues} dialogues. BLEU-4 to "
    "Dist-2: responses. METEOR*: exact words and stems, without synonyms."
)


def write_debias_table(folder: Path) -> None:
    """Writes the table into the folder, and prints it."""
    text = debias_table(folder)
    write_text(folder / TABLE_FILE, text)
    print(text)


def debias_table(folder: Path) -> str:
    """The table in Markdown, of a folder with a folder for each model."""
    models = [name for name in (BEFORE, *METHODS) if (folder / name / BIAS).is_file()]
    results = {name: {file: _read(folder / name / file) for file in (BIAS, DST, CRG)} for name in models}
    bias_types = sorted({bias_type for files in results.values() for bias_type in files[BIAS]["by_bias_type"]})
    headings = [f"{heading} ({bias_type})" for bias_type in bias_types for heading in BIAS_COLUMNS]
    header, rows = ["model", *headings, *COLUMNS], []
    for name, files in results.items():
        of_types = [files[BIAS]["by_bias_type"].get(bias_type, {}) for bias_type in bias_types]
        cells = [_cell(of_type, *column) for of_type in of_types for column in BIAS_COLUMNS.values()]
        cells += [_cell(files[file], key, form) for file, key, form in COLUMNS.values()]
        rows.append([name, *cells])
    dialogues = next((files[DST]["settings"]["dialogues"] for files in results.values() if files[DST]), "no")
    table = markdown_table(header, rows, numbers=range(1, len(header)))
    return f"{table}\n\n{_EXPLANATION.format(dialogues=dialogues)}\n"


def _read(path: Path) -> Mapping[str, Any]:
    """Reads a results file, or the RedditBias part of a run's results; empty if the file does not exist."""
    if not path.is_file():
        return {}
    content: dict[str, Any] = read_json(path)
    return content["reddit"] if path.name == RESULTS_FILE else content


def _cell(values: Mapping[str, Any], key: str, form: str) -> str:
    value = values.get(key)
    if key == "p_value" and value is not None and value < LEAST_P_VALUE:
        return f"< {LEAST_P_VALUE}"
    return "–" if value is None else form.format(value)
