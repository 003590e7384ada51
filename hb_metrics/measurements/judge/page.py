from markupsafe import Markup

from hb_metrics.collect.judges.rubric import recorded_rubric
from hb_metrics.layout.figure import Figure, by_part
from hb_metrics.layout.parts import Report
from hb_metrics.layout.rendering import section
from hb_metrics.measurements.judge.figures import rubric_figures
from hb_metrics.measurements.results import Results

# This judge is better than the embedded judge, and many machines have enough memory for it (licence: Apache-2.0).
_BETTER = "--judge_model Qwen/Qwen2.5-7B-Instruct"


def report(results: Results) -> Report:
    sections, rubrics, answers = results.record.judge, [], []
    for name, judged in results.judge.items():
        whole, *parts = by_part(rubric_figures(name, judged, recorded_rubric(sections[name]).figure)).values()
        by_axis = parts[0] if parts else []
        rubrics.append({"name": name, "section": sections[name], "judged": judged, "whole": whole, "by_axis": by_axis})
        answers += [judge_answer(whole[0])] if whole[0].gate else []
    embedded = any(section.is_embedded for section in sections.values())
    return Report(
        [section("judge", "Judges", "judge/section.html.jinja", {"rubrics": rubrics})],
        answer=" ".join(answers) or None,
        files=Markup("the judge's probabilities of each reply in <code>judge/*/*.parquet</code>"),
        embedded=_BETTER if embedded else None,
    )


def judge_answer(figure: Figure) -> str:
    """States how many replies have the counted label of a rubric."""
    return f"{figure.name}: {figure.words} of replies, according to a judge that people have not corrected."
