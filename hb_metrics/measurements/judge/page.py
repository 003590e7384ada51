from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from hb_metrics.layout.figure import by_part
from hb_metrics.layout.parts import Report
from hb_metrics.layout.rendering import section
from hb_metrics.measurements.judge.figures import rubric_figures
from hb_metrics.measurements.judge.results import judged_of

# This judge is better than the embedded judge, and many machines have enough memory for it (licence: Apache-2.0).
_BETTER = "--judge_model Qwen/Qwen2.5-7B-Instruct"


def report(results: Mapping[str, Any]) -> Report:
    sections, rubrics = results["run"]["judge"], []
    for name, judged in judged_of(results).items():
        whole, *parts = by_part(rubric_figures(name, judged, sections[name]["rubric"]["figure"])).values()
        by_axis = parts[0] if parts else []
        rubrics.append({"name": name, "section": sections[name], "judged": judged, "whole": whole, "by_axis": by_axis})
    embedded = any(section["is_embedded"] for section in sections.values())
    return Report(
        [section("judge", "Judges", "judge/section.html.jinja", {"rubrics": rubrics})],
        files=Markup("the judge's probabilities of each reply in <code>judge/*/*.parquet</code>"),
        embedded=_BETTER if embedded else None,
    )
