"""Writes a table of the effects and costs of debiasing, with one row per model (Barikeri et al., 2021, tables 4, 5)."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from hb_dataset.markdown_table import markdown_table
from hb_dataset.whole_files import write_text
from hb_metrics.layout.numbers import p_value
from hb_metrics.run.run_folder import RESULTS_FILE, read_json

TABLE_FILE = "table.md"
# For each heading: the name of the figure and its number format.
COLUMNS: dict[str, tuple[str, Callable[[float], str]]] = {
    "t": ("t", "{:+.2f}".format),
    "p": ("p_value", p_value),
    "t of logs": ("t_log", "{:+.2f}".format),
    "t1 likelier": ("share_t1_likelier", "{:.1%}".format),
    "LMP": ("lmp", "{:.1f}".format),
    "dialogue": ("dialogue", "{:.1f}".format),
    "DST F1": ("f1", "{:.3f}".format),
    "DST accuracy": ("accuracy", "{:.3f}".format),
    "BLEU-4": ("bleu_4", "{:.2f}".format),
    "METEOR*": ("meteor_exact_stem", "{:.2f}".format),
    "NIST-2": ("nist_2", "{:.3f}".format),
    "Entropy-4": ("entropy_4", "{:.2f}".format),
    "Dist-2": ("dist_2", "{:.1f}".format),
}
_EXPLANATION = (
    "t is the paired test of the perplexities of both phrases in each pair. If t is negative, phrases about the "
    "minoritized group are likelier. t of logs is the same test of log perplexities, on which single rows have less "
    "influence. t1 likelier is the share of pairs in which the phrase about the minoritized group is likelier. LMP "
    "is the perplexity of ordinary texts. Dialogue is the perplexity of people's replies. DST scores how well the "
    "model tracks users' wishes. BLEU-4 to Dist-2 score responses. METEOR* counts exact words and stems, but no "
    "synonyms."
)


def write_debias_table(folder: Path, models: Sequence[str]) -> None:
    figures = {name: _figures(folder / name) for name in models}
    known = {key for of_model in figures.values() for key in of_model}
    shown = {heading: (key, form) for heading, (key, form) in COLUMNS.items() if key in known}
    rows = []
    for name, of_model in figures.items():
        values = [(of_model.get(key), form) for key, form in shown.values()]
        rows.append([name, *("–" if value is None else form(value) for value, form in values)])
    text = f"{markdown_table(['model', *shown], rows, numbers=range(1, len(shown) + 1))}\n\n{_EXPLANATION}\n"
    write_text(folder / TABLE_FILE, text)
    print(text)


def _figures(folder: Path) -> dict[str, Any]:
    """Reads all figures of a model, which were measured for one bias type."""
    run = read_json(folder / "bias" / RESULTS_FILE)
    (bias,) = run["reddit"]["by_bias_type"].values()
    figures: dict[str, Any] = {}
    for path in (folder / "dst" / "dst.json", folder / "crg" / "crg.json"):
        figures |= read_json(path) if path.is_file() else {}
    # These come last, because crg.json describes its own dialogues under "dialogue".
    return {**figures, **bias, "lmp": run["reddit"]["lmp"], "dialogue": run.get("dialogue", {}).get("perplexity")}
