"""The section in the report of a run."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hb_metrics.display.figures import plain
from hb_metrics.display.parts import Report, Section
from hb_metrics.display.rendering import render
from hb_metrics.measurements.robustness import tables
from hb_metrics.measurements.robustness.figures import templates_figure


def robustness_report(results: Mapping[str, Any], folder: Path) -> Report:
    """The section in the report of a run; `folder` has its Jinja templates."""
    rows = tables.robustness_rows(results["robustness"])
    keys = {row.key for row in rows}
    context = {
        "robustness": {
            "rows": rows,
            "sentences": [tables.robustness_sentence(row) for row in rows],
            "extremes": [(row, tables.extremes(row)) for row in rows],
            "by_axis": [(row, tables.by_axis(row)) for row in rows],
            "num_halves": rows[0].robustness["num_halves"],
            "all_splits": rows[0].robustness["all_splits"],
            "odd": any(row.robustness["num_templates"] % 2 for row in rows),
            "has_gen_bias": "full_gen_bias" in keys,
            "has_debiased": "full_gen_bias_debiased" in keys,
        }
    }
    plots = {"robustness-templates": [plain(templates_figure(row)) for row in rows]}
    html = render(folder / "section.html.jinja", context)
    return Report(
        [Section("robustness", "Robustness over templates", html, plots)],
        [],
        reading=render(folder / "reading.html.jinja", {}),
    )
