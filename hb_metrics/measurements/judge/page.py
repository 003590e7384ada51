"""Judges in the report of a run."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from markupsafe import Markup

from hb_metrics.measurements.judge.figures import axes_of, figures
from hb_metrics.report.layout.figure import by_part
from hb_metrics.report.layout.parts import Report, Section
from hb_metrics.report.layout.rendering import render

# The next better judge than the embedded one that many machines hold (Apache-2.0).
_BETTER = "--judge_model Qwen/Qwen2.5-7B-Instruct"
_FOLDER = Path(__file__).parent


def report(results: Mapping[str, Any]) -> Report:
    """What the judge saw, rubric by rubric, and what that is worth."""
    sections, judges = results["run"]["judge"], results["judge"]
    parts = by_part(figures(results))
    context = {
        "rubrics": [
            {
                "name": name,
                "section": sections[name],
                "judged": judged,
                "whole": [figure for figure in parts[""] if figure.name in _names(name, sections[name])],
                "by_axis": parts.get(axes_of(sections[name]["rubric"]["figure"]), []),
            }
            for name, judged in judges.items()
        ]
    }
    embedded = any(section["is_embedded"] for section in sections.values())
    return Report(
        [Section("judge", "Judges", render(_FOLDER / "section.html.jinja", context), {})],
        files=Markup("the judge's probabilities of each reply in <code>judge/*/*.parquet</code>"),
        embedded=_BETTER if embedded else None,
    )


def _names(name: str, section: Mapping[str, Any]) -> set[str]:
    """The names of a rubric's figures of the whole run."""
    label = section["rubric"]["figure"]
    return {f"Judged {label}", f"Gen Bias over the labels of {name}", f"Identity leakage of the judge, {name}"}
