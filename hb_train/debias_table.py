"""One table of what debiasing does and what it costs: a line a model (Barikeri et al., 2021, figure 1, tables 4 and 5).

    python hb_train/debias_table.py runs/debias/embedded-religion1

The folder is one of `make debias`: in it a folder a model (`before`, `lmd`, `add`, `hd`, `cda`), and in each of these
what `measure.py --measurements reddit` left in `bias/`, `dialog_state_tracking.py` in `dst/` and
`response_generation.py` in `crg/`. What has not been measured is shown as –. Writes table.md there.
"""

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hb_dataset.whole_files import write_atomically
from hb_metrics.run_folder import RESULTS_FILE, read_json

TABLE_FILE = "table.md"
BEFORE = "before"
METHODS = ("lmd", "add", "hd", "cda")
BIAS, DST, CRG = f"bias/{RESULTS_FILE}", "dst/dst.json", "crg/crg.json"
# Heading → the file, the key in it, and how it is written.
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
LEAST_P_VALUE = 0.001  # a smaller one is told so
BIAS_COLUMNS = {
    "t": ("t", "{:+.2f}"),
    "p": ("p_value", "{:.3f}"),
    "t of logs": ("t_log", "{:+.2f}"),
    "t1 likelier": ("share_t1_likelier", "{:.1%}"),
}
NOTES = (
    "t: paired test of the perplexities of the pairs; negative: phrases about the minoritized group are likelier. t of "
    "logs: the same of log perplexities, which does not hang on a few rows. t1 likelier: share of pairs. LMP: "
    "perplexity of other people's text. DST: of what users want, on {dialogues} dialogues. BLEU-4 to Dist-2: "
    "responses. METEOR*: exact words and stems, without synonyms."
)
NOTHING_ERROR = "'{folder}' has no model with {file}; give the folder of a `make debias`"


def main(argv: list[str] | None = None) -> None:
    """Prints the table and writes it into the folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="The folder of a `make debias`.")
    asked = parser.parse_args(argv)
    try:
        text = debias_table(asked.folder)
    except (ValueError, OSError) as error:
        raise SystemExit(f"debias_table.py: {error}") from error
    write_atomically(asked.folder / TABLE_FILE, lambda path: path.write_text(text, encoding="utf-8"))
    print(text)


def debias_table(folder: Path) -> str:
    """The table in Markdown.

    Args:
        folder: Holds a folder for each model.

    Raises:
        ValueError: No model in it was measured.
    """
    models = [name for name in (BEFORE, *METHODS) if (folder / name / BIAS).is_file()]
    if not models:
        raise ValueError(NOTHING_ERROR.format(folder=folder, file=BIAS))
    found = {name: {file: _read(folder / name / file) for file in (BIAS, DST, CRG)} for name in models}
    bias_types = sorted({bias_type for each in found.values() for bias_type in each[BIAS]["by_bias_type"]})
    headings = [f"{heading} ({bias_type})" for bias_type in bias_types for heading in BIAS_COLUMNS]
    lines = [_line("model", *headings, *COLUMNS), _line("---", *["---:"] * (len(headings) + len(COLUMNS)))]
    for name, files in found.items():
        of_types = [files[BIAS]["by_bias_type"].get(bias_type, {}) for bias_type in bias_types]
        cells = [_cell(of_type, *column) for of_type in of_types for column in BIAS_COLUMNS.values()]
        cells += [_cell(files[file], key, form) for file, key, form in COLUMNS.values()]
        lines.append(_line(name, *cells))
    dialogues = next((files[DST]["settings"]["dialogues"] for files in found.values() if files[DST]), "no")
    return "\n".join([*lines, "", NOTES.format(dialogues=dialogues)]) + "\n"


def _read(path: Path) -> Mapping[str, Any]:
    """A results file, of a run its part on RedditBias; empty if it is not there."""
    if not path.is_file():
        return {}
    content: dict[str, Any] = read_json(path)
    return content["reddit"] if path.name == RESULTS_FILE else content


def _cell(values: Mapping[str, Any], key: str, form: str) -> str:
    value = values.get(key)
    if key == "p_value" and value is not None and value < LEAST_P_VALUE:
        return f"< {LEAST_P_VALUE}"
    return "–" if value is None else form.format(value)


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
