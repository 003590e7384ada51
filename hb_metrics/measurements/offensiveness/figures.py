from hb_metrics.layout import paper
from hb_metrics.layout.figure import Figure, Number
from hb_metrics.layout.numbers import axis_label, count, slot
from hb_metrics.measurements.group_shares import group_figures
from hb_metrics.measurements.offensiveness.results import Offensiveness, Texts
from hb_metrics.measurements.results import Results
from hb_metrics.measurements.turn_shares import turn_share_figures

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
                confidence_level=None if shares is None else shares.confidence_level,
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
                confidence_level=shares.confidence_level,
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
