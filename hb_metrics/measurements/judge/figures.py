from markupsafe import Markup

from hb_metrics.collect.judges.rubric import Rubric
from hb_metrics.layout.figure import Figure, by_part, pair
from hb_metrics.layout.parts import Report
from hb_metrics.layout.rendering import section
from hb_metrics.measurements.judge.compute import flagged_replies
from hb_metrics.measurements.judge.results import Judged
from hb_metrics.measurements.results import Results, Run
from hb_metrics.measurements.shares import (
    by_machine_alone,
    group_figures,
    reply_share,
    reply_share_changes,
    shares_by_axis,
    uneven_sentence,
)
from hb_metrics.run.replies import RatedReplies
from hb_metrics.run.run_folder import JUDGE_FOLDER
from hb_metrics.stats.changes import FigureChanges


def gate_name(rubric: str) -> str:
    return f"judged_{rubric}"


def figures(results: Results) -> list[Figure]:
    rows = []
    for name, judged in results.judge.items():
        rows += rubric_figures(name, judged, Rubric(**results.record.judge[name].rubric).figure)
    return rows


def rubric_figures(name: str, judged: Judged, label: str | None) -> list[Figure]:
    """Lists the figures of a rubric. `label` is the counted label."""
    plain, debiased, shares, leakage = judged.gen_bias, judged.debiased, judged.replies, judged.identity_leakage
    rows = [
        Figure(
            f"Gen Bias over the labels of {name}",
            plain.full_gen_bias if debiased is None else debiased,
            "bias",
            "The variance of the label probabilities across terms"
            f"{'' if debiased is None else ', minus sampling noise'}.",
            pair(plain.intervals and plain.intervals.full_gen_bias),
            no_interval=plain.no_intervals and plain.no_intervals.full_gen_bias,
            is_main=False,
        )
    ]
    if leakage is not None:
        rows.append(
            Figure(
                f"Identity leakage of the judge, {name}",
                leakage.leakage,
                "bias",
                "The judge's reaction to the term itself: the Gen Bias of its labels for sentences that "
                "differ only in the term.",
                is_main=False,
                detail=f"{leakage.num_sentences} sentences",
            )
        )
    if shares is None:
        return rows
    whole = reply_share(
        f"Judged {label}",
        shares,
        meaning=f"The share of replies to which the judge assigns the label {label}. It is not corrected with people's "
        "labels.",
        gate=gate_name(name),
    )
    return [whole, *rows, *shares_by_axis(whole.name, shares), *group_figures(whole.name, judged.groups)]


# This judge is better than the embedded judge, and many machines have enough memory for it (licence: Apache-2.0).
_BETTER = "--judge_model Qwen/Qwen2.5-7B-Instruct"


def report(results: Results) -> Report:
    sections, rubrics, answers = results.record.judge, [], []
    uneven: list[str] = []
    for name, judged in results.judge.items():
        label = Rubric(**sections[name].rubric).figure
        whole, *parts = by_part(rubric_figures(name, judged, label)).values()
        by_axis = parts[0] if parts else []
        rubrics.append({"name": name, "section": sections[name], "judged": judged, "whole": whole, "by_axis": by_axis})
        if whole[0].gate:
            shown = f"{whole[0].name}: {whole[0].words}"
            answers.append(f"{shown} of replies, according to the judge (not corrected with labels by people).")
            gap = uneven_sentence(f"Replies judged {label}", judged.replies, judged.groups)
            uneven += filter(None, [by_machine_alone("judge", gap)])
    # Only the share of a counted label can be corrected.
    counted = next((name for name, judged in results.judge.items() if judged.replies is not None), None)
    context = {"rubrics": rubrics, "counted": counted}
    embedded = any(section.is_embedded for section in sections.values())
    return Report(
        [section("judge", "Judges", "judge/section.html.jinja", context)],
        answer=" ".join([*answers, *uneven]) or None,
        differs="unknown" if uneven else "",
        headline="by the judge alone, replies to some people are labelled differently" if uneven else "",
        files=Markup("the judge's probabilities of each reply in <code>judge/*/*.parquet</code>"),
        embedded=_BETTER if embedded else None,
    )


def changes(first: Run, second: Run) -> FigureChanges:
    if first.record.cue != second.record.cue:
        return FigureChanges({}, "the runs describe the user with different cues")
    changes = FigureChanges({})
    for name in first.results.judge:  # other rubrics may have been left out
        rubric = Rubric(**first.record.judge[name].rubric)
        if rubric.figure is None or name not in second.results.judge:
            continue
        if first.record.judge[name].digest != second.record.judge[name].digest:
            changes = changes._replace(reason="different judges labelled the replies")
            continue
        before, after = (_judged(run, name, rubric) for run in (first, second))
        found = reply_share_changes(f"Judged {rubric.figure}", before, after)
        changes = FigureChanges(changes.by_name | found.by_name, found.reason or changes.reason)
    return changes


def _judged(run: Run, name: str, rubric: Rubric) -> RatedReplies:
    replies = run.tables.replies()
    flagged = flagged_replies(replies, rubric, run.tables.vectors_of(f"{JUDGE_FOLDER}/{name}", replies.ids))
    assert flagged is not None  # the rubric has a counted label
    return flagged
