"""Writes a table of the effects and costs of debiasing, with one row per model (Barikeri et al., 2021, tables 4, 5)."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hb_dataset.markdown_table import markdown_table
from hb_dataset.whole_files import write_text
from hb_metrics.run.run_folder import RESULTS_FILE, read_json
from hb_train.debiasing.arguments import METHODS

TABLE_FILE = "table.md"
BEFORE = "before"
BIAS, DST, CRG = f"bias/{RESULTS_FILE}", "dst/dst.json", "crg/crg.json"
# For each heading: the file, the part of the file, the key in this part, and the number format.
COLUMNS = {
    "LMP": (BIAS, "reddit", "lmp", "{:.1f}"),
    "dialogue": (BIAS, "dialogue", "perplexity", "{:.1f}"),
    "DST F1": (DST, "", "f1", "{:.3f}"),
    "DST accuracy": (DST, "", "accuracy", "{:.3f}"),
    "BLEU-4": (CRG, "", "bleu_4", "{:.2f}"),
    "METEOR*": (CRG, "", "meteor_exact_stem", "{:.2f}"),
    "NIST-2": (CRG, "", "nist_2", "{:.3f}"),
    "Entropy-4": (CRG, "", "entropy_4", "{:.2f}"),
    "Dist-2": (CRG, "", "dist_2", "{:.1f}"),
}
LEAST_P_VALUE = 0.001  # smaller values are shown as "< 0.001"
BIAS_COLUMNS = {
    "t": ("t", "{:+.2f}"),
    "p": ("p_value", "{:.3f}"),
    "t of logs": ("t_log", "{:+.2f}"),
    "t1 likelier": ("share_t1_likelier", "{:.1%}"),
}
_EXPLANATION = (
    "t is the paired test of the perplexities of both phrases in each pair. If t is negative, phrases about the "
    "minoritized group are likelier. t of logs is the same test of log perplexities, on which single rows have less "
    "influence. t1 likelier is the share of pairs in which the phrase about the minoritized group is likelier. LMP "
    "is the perplexity of ordinary texts. Dialogue is the perplexity of people's replies. DST scores how well the "
    "model tracks users' wishes. BLEU-4 to Dist-2 score responses. METEOR* counts exact words and stems, but no "
    "synonyms."
)


def write_debias_table(folder: Path) -> None:
    text = debias_table(folder)
    write_text(folder / TABLE_FILE, text)
    print(text)


def debias_table(folder: Path) -> str:
    models = [name for name in (BEFORE, *METHODS) if (folder / name / BIAS).is_file()]
    results = {name: {file: _read(folder / name / file) for file in (BIAS, DST, CRG)} for name in models}
    by_type = {name: files[BIAS]["reddit"]["by_bias_type"] for name, files in results.items()}
    bias_types = sorted({bias_type for tests in by_type.values() for bias_type in tests})
    headings = [f"{heading} ({bias_type})" for bias_type in bias_types for heading in BIAS_COLUMNS]
    costs = {heading: of for heading, of in COLUMNS.items() if any(files[of[0]] for files in results.values())}
    header, rows = ["model", *headings, *costs], []
    for name, files in results.items():
        of_types = [by_type[name].get(bias_type, {}) for bias_type in bias_types]
        cells = [_cell(of_type, *column) for of_type in of_types for column in BIAS_COLUMNS.values()]
        for file, part, key, form in costs.values():
            cells.append(_cell(files[file].get(part, {}) if part else files[file], key, form))
        rows.append([name, *cells])
    return f"{markdown_table(header, rows, numbers=range(1, len(header)))}\n\n{_EXPLANATION}\n"


def _read(path: Path) -> dict[str, Any]:
    return read_json(path) if path.is_file() else {}


def _cell(values: Mapping[str, Any], key: str, form: str) -> str:
    value = values.get(key)
    if key == "p_value" and value is not None and value < LEAST_P_VALUE:
        return f"< {LEAST_P_VALUE}"
    return "–" if value is None else form.format(value)
