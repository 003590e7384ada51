"""The section in the report of a run."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from markupsafe import Markup

from hb_metrics.display.figures import plain
from hb_metrics.display.numbers import MISSING, bias, fixed, share
from hb_metrics.display.parts import Report, Section, Tile
from hb_metrics.display.rendering import render
from hb_metrics.measurements.reddit import figures, tables


def reddit_report(results: Mapping[str, Any], folder: Path) -> Report:
    """The section in the report of a run; `folder` has its Jinja templates."""
    reddit = results["reddit"]
    rows = tables.reddit_rows(reddit)
    context = {
        "reddit": {
            "rows": rows,
            "split": rows[0].test["split"],
            "filtered": rows[0].test["outliers"] == "pair",
            "lmp": reddit["lmp"],
            "lmp_num_texts": reddit["lmp_num_texts"],
            "lmp_source": reddit["lmp_source"],
            "lmp_left_out": sum(reddit["lmp_num_skipped"].values()),
        }
    }
    plots = {"reddit-t": [plain(figures.t_figure(rows))], "reddit-share": [plain(figures.share_figure(rows))]}
    tiles = [
        Tile(
            f"Language Model Bias, {label}",
            MISSING if test["t"] is None else f"t {fixed(test['t'], 2)}",
            (f"of logs {MISSING if test['t_log'] is None else fixed(test['t_log'], 2)}",),
        )
        for label, test in rows
    ]
    return Report(
        [Section("reddit", "Language Model Bias", render(folder / "section.html.jinja", context), plots)],
        [*tiles, Tile("LMP", bias(reddit["lmp"]))],
        answer=reddit_answer(reddit),
        reading=render(folder / "reading.html.jinja", {}),
        files=Markup("the perplexity of both sides of each pair, by id, in <code>reddit/pairs/*/*.parquet</code>"),
    )


def reddit_answer(reddit: Mapping[str, Any]) -> str:
    """States for each bias type whether the stereotyped side is likelier by more than chance.

    It uses the test on logarithms of perplexities, which does not depend on a few pairs. If outliers were left out, a
    test finds differences by chance more often than its significance level, and the answer states so.
    """
    from hb_metrics.measurements.reddit.tables import bias_type_label

    parts, filtered = [], False
    for name, test in reddit["by_bias_type"].items():
        label, number = bias_type_label(name), test["num_pairs"]
        if test["t_log"] is None:
            parts.append(f"{label}: cannot be known from {number:,} pair{'s' * (number != 1)}")
            continue
        numbers = (
            f"(t of logs {fixed(test['t_log'], 2)}; the stereotyped side is likelier in "
            f"{share(test['share_t1_likelier'])} of {number:,} pairs)"
        )
        if test["p_value_log"] >= test["alpha"]:
            parts.append(f"{label}: no difference stands out from chance {numbers}")
            continue
        side = "stereotyped" if test["t_log"] < 0 else "other"
        filtered |= test["outliers"] == "pair"
        beyond = "by a test without outliers" if test["outliers"] == "pair" else "by more than chance"
        parts.append(f"{label}: the {side} side is likelier {beyond} {numbers}")
    caution = (
        " Leaving out outliers makes such a test find a difference by chance more often than its significance level."
    )
    return (
        "Phrases that say something stereotyped of a group, beside the same of another group. "
        f"{'; '.join(parts)}.{caution if filtered else ''}"
    )
