from markupsafe import Markup

from hb_metrics.collect.classifiers.presets import suggested
from hb_metrics.layout import paper
from hb_metrics.layout.figure import Figure, Number, by_part
from hb_metrics.layout.numbers import axis_label, count, counted, slot, term_names
from hb_metrics.layout.parts import Report
from hb_metrics.layout.plots import figures_plot
from hb_metrics.layout.rendering import render, section
from hb_metrics.measurements.offensiveness.results import Offensiveness, Texts
from hb_metrics.measurements.results import Results
from hb_metrics.measurements.shares import (
    by_machine_alone,
    group_figures,
    turn_share_figures,
    uneven_sentence,
    uneven_turn_sentence,
)
from hb_metrics.run.record import UsedClassifier
from hb_metrics.stats.inputs import DescriptorKey

TURNS = "Offensive replies"
AXES, TEMPLATES = "Offensive texts by axis", "Offensiveness of prompts by template"


def figures(results: Results) -> list[Figure]:
    """Lists the figures. Model cards show only the share for replies, because no model wrote the prompts."""
    offensiveness = results.offensiveness
    rows = []
    for part, texts in (("replies", offensiveness.replies), ("prompts", offensiveness.prompts)):
        if texts is None:
            continue
        number, threshold, shares = count(texts.num_sentences), texts.threshold, texts.shares
        rows.append(
            Figure(
                f"Offensive {part}",
                texts.offensive_share,
                "small_share",
                f"The share of the {number} {part} that the classifier considers offensive, with a probability of "
                f"{threshold:g} or more.",
                None if shares is None else shares.interval,
                is_main=part == "replies",
                detail=f"{count(texts.num_offensive)} of {number}",
                task="offensive_replies" if part == "replies" else None,
                notes=(f"{count(texts.num_offensive)} of {number} {part}, threshold {threshold:g}",),
            )
        )
    rows += [*_by_axis(offensiveness), *_by_template(offensiveness.prompts)]
    if offensiveness.replies is not None:
        rows += group_figures("Offensive replies", offensiveness.replies.groups)
    return rows + (turn_share_figures(TURNS, offensiveness.turns, "small_share") if offensiveness.turns else [])


def _by_axis(offensiveness: Offensiveness) -> list[Figure]:
    """Lists the shares of offensive replies by axis, from the highest to the lowest.

    If there are no replies, the shares of offensive prompts are listed.
    """
    shares = None if offensiveness.replies is None else offensiveness.replies.shares
    rows = []
    for axis, of_prompts in offensiveness.prompts.by_axis.items():
        row = Figure(
            f"Offensive prompts, {axis_label(axis)}",
            of_prompts.offensive_share,
            "small_share",
            part_of=AXES,
            is_main=False,
            detail=f"{count(of_prompts.num_sentences)} prompts",
        )
        if shares is not None:
            share = shares.by_axis.get(axis)
            row = row._replace(
                name=f"Offensive replies, {axis_label(axis)}",
                value=None if share is None else share.share,
                interval=None if share is None else share.interval,
                beside={"of prompts": Number(row.value, "small_share")},
                detail=f"{count(share.num_replies if share else 0)} replies, {row.detail}",
            )
        rows.append(row)
    return sorted(rows, key=lambda row: -(row.value or 0.0))


def _by_template(prompts: Texts) -> list[Figure]:
    rows = []
    for template, across in prompts.by_template.items():
        mean, std = paper.PRINTED.prompt_offensiveness.get(template, (None, None))
        beside = {
            "st. dev.": Number(across.std, "share"),
            "found offensive": Number(across.offensive_share, "share"),
        }
        rows.append(
            Figure(
                f"Mean offensiveness, {slot(template)}",
                across.mean,
                "share",
                part_of=TEMPLATES,
                is_main=False,
                beside=beside,
                printed={"paper's mean": mean, "paper's st. dev.": std},
            )
        )
    return rows


NUM_EXTREMES = 10


def report(results: Results) -> Report:
    offensiveness, classifier = results.offensiveness, results.record.offensiveness_classifier
    replies, parts = offensiveness.replies, by_part(figures(results))
    context = {
        "run": results.record,
        "embedded": classifier.is_embedded,
        "whole": {figure.name: figure for figure in parts[""]},
        "by_axis": parts[AXES],
        "by_template": parts[TEMPLATES],
        "by_turn": parts.get(f"{TURNS} by turn"),
        "threshold": offensiveness.prompts.threshold,
        "num_truncated": replies and replies.num_truncated,
        "extremes": extremes(offensiveness.prompts),
    }
    beside = list(parts[AXES][0].beside)
    plots = {
        "offensiveness-by-axis": [figures_plot(parts[AXES], "share found offensive", beside)],
        "offensiveness-by-template": [figures_plot(parts[TEMPLATES], "mean offensiveness", ["found offensive"])],
    }
    answer = "" if replies is None else uneven_sentence("Offensive replies", replies.shares, replies.groups)
    answer = by_machine_alone("classifier", answer or uneven_turn_sentence("Offensive replies", offensiveness.turns))
    return Report(
        [section("offensiveness", "Offensiveness", "offensiveness/section.html.jinja", context, plots)],
        answer=answer or None,
        differs="unknown" if answer else "",  # the classifier may react to a term that a reply names
        headline="by the classifier alone, replies to some people are offensive more often" if answer else "",
        reading=render("offensiveness/reading.html.jinja", context),
        files=Markup("the offensiveness of each text in <code>offensiveness/*/*.parquet</code>"),
        notes=_notes(classifier, offensiveness),
        embedded=suggested("--offensiveness_classifier") if classifier.is_embedded else None,
    )


def _notes(classifier: UsedClassifier, offensiveness: Offensiveness) -> tuple[str, ...]:
    notes = (f"{classifier.name}: {'; '.join(classifier.notes)}.",) if classifier.notes else ()
    unanswered = sum(part.num_unanswered or 0 for part in (offensiveness.prompts, offensiveness.replies) if part)
    why = "the offensiveness judge gave no answer, or several labels were equally likely"
    return (*notes, *counted(unanswered, f"texts are left out, because {why}."))


def extremes(prompts: Texts) -> list[tuple[str, list[tuple[str, float]], list[tuple[str, float]]]]:
    """Returns the terms whose prompts are least and most likely to be offensive, with their mean probabilities.

    The templates are those of the paper's Table 12 or, if the run contains none of these, the run's first template.
    """
    known = list(prompts.by_template)
    chosen = [template for template in paper.PRINTED.offensive_extremes_templates if template in known] or known[:1]
    values_of: dict[DescriptorKey, dict[str, float]] = {}
    for axis, of_axis in prompts.by_descriptor_and_template.items():
        values_of |= {DescriptorKey(axis, name): by_template for name, by_template in of_axis.items()}
    names, rows = term_names(list(values_of), list(values_of)), []
    for template in chosen:
        of_terms = zip(names, values_of.values(), strict=True)
        values = [(name, by_template[template]) for name, by_template in of_terms if template in by_template]
        values.sort(key=lambda row: (row[1], row[0]))
        shown = min(NUM_EXTREMES, len(values) // 2)
        rows.append((template, values[:shown], values[::-1][:shown]))
    return rows
