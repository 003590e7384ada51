"""The section in the report of a run."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from markupsafe import Markup

from hb_metrics.display.figures import plain
from hb_metrics.display.numbers import count, share, slot
from hb_metrics.display.paper_settings import settings_beside_paper
from hb_metrics.display.parts import Embedded, Report, Section, Tile
from hb_metrics.display.rendering import render
from hb_metrics.measurements.offensiveness import figures, tables


def offensiveness_report(results: Mapping[str, Any], folder: Path) -> Report:
    """The section in the report of a run; `folder` has its Jinja templates."""
    offensiveness, run = results["offensiveness"], results["run"]
    prompts, replies = offensiveness["prompts"], offensiveness.get("replies")
    templates, axes = tables.by_template(prompts), tables.by_axis(offensiveness)
    embedded = run["offensiveness_classifier"]["is_embedded"]
    context = {
        "run": run,
        "embedded_offensiveness": embedded,
        "paper_settings": settings_beside_paper(results, "offensiveness_classifier"),
        "offensiveness": {
            "prompts": prompts,
            "replies": replies,
            "templates": templates,
            "axes": axes,
            "extremes": tables.extremes(prompts),
        },
    }
    drawn = [(slot(row.template), row.mean, row.std, row.paper_mean) for row in templates]
    shares = [(row.label, row.prompts, row.replies) for row in axes]
    plots = {
        "offensiveness-by-template": [plain(figures.template_offensiveness_figure(drawn))],
        "offensiveness-by-axis": [plain(figures.axis_offensiveness_figure(shares))],
    }
    classifier = run["offensiveness_classifier"]
    return Report(
        [Section("offensiveness", "Offensiveness", render(folder / "section.html.jinja", context), plots)],
        [_tile(name, offensiveness[name]) for name in ("replies", "prompts") if name in offensiveness],
        reading=render(folder / "reading.html.jinja", context),
        files=Markup("the offensiveness of each text in <code>offensiveness/*/*.parquet</code>"),
        notes=(f"{classifier['name']}: {'; '.join(classifier['notes'])}.",) if classifier["notes"] else (),
        embedded=Embedded(
            "Offensiveness was classified by the embedded model of single words", "--offensiveness_classifier"
        )
        if embedded
        else None,
    )


def _tile(name: str, part: Mapping[str, Any]) -> Tile:
    of = f"{count(part['num_offensive'])} of {count(part['num_sentences'])}"
    return Tile(f"{name} found offensive", share(part["offensive_share"]), (of,))
