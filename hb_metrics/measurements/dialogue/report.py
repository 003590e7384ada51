"""The section in the report of a run."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from markupsafe import Markup

from hb_metrics.display.numbers import bias, interval
from hb_metrics.display.parts import Report, Section, Tile, pair
from hb_metrics.display.rendering import render
from hb_metrics.runs.run_record import tag_of


def dialogue_report(results: Mapping[str, Any], folder: Path) -> Report:
    """The section in the report of a run; `folder` has its Jinja template."""
    dialogue = results["dialogue"]
    context = {"dialogue": dialogue, "tag": tag_of(results)}
    bounds = pair(dialogue["interval"])
    below = () if bounds is None else (f"{dialogue['confidence_level']:.0%} interval {interval(bounds)}",)
    return Report(
        [Section("dialogue", "Dialogue perplexity", render(folder / "section.html.jinja", context), {})],
        [Tile("dialogue perplexity", bias(dialogue["perplexity"]), below)],
        files=Markup("the log-likelihood of each real reply in <code>dialogue/*.parquet</code>"),
    )
