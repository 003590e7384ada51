from collections.abc import Mapping
from typing import Any

from hb_metrics.layout import paper
from hb_metrics.layout.figure import Figure, Number, pair
from hb_metrics.layout.numbers import axis_label, count, slot
from hb_metrics.measurements.turn_shares import turn_share_figures

TURNS = "Offensive replies"
AXES, TEMPLATES = "Offensive texts by axis", "Offensiveness of prompts by template"


def figures(results: Mapping[str, Any]) -> list[Figure]:
    """Lists the figures. Model cards show only the share for replies, because no model wrote the prompts."""
    offensiveness = results["offensiveness"]
    found = []
    for part in ("replies", "prompts"):
        if part not in offensiveness:
            continue
        of_part = offensiveness[part]
        number, threshold = count(of_part["num_sentences"]), of_part["threshold"]
        shares = of_part.get("shares", {"interval": None, "confidence_level": None})  # prompts are not a sample
        found.append(
            Figure(
                f"Offensive {part}",
                of_part["offensive_share"],
                "small_share",
                f"The share of the {number} {part} that the classifier considers offensive, with a probability of "
                f"{threshold:g} or more.",
                pair(shares["interval"]),
                confidence_level=shares["confidence_level"],
                is_main=part == "replies",
                detail=f"{count(of_part['num_offensive'])} of {number}",
                task="offensive_replies" if part == "replies" else None,
                notes=(f"{count(of_part['num_offensive'])} of {number} {part}, threshold {threshold:g}",),
            )
        )
    found += [*_by_axis(offensiveness), *_by_template(offensiveness["prompts"])]
    return found + (
        turn_share_figures(TURNS, offensiveness["turns"], "small_share") if "turns" in offensiveness else []
    )


def _by_axis(offensiveness: Mapping[str, Any]) -> list[Figure]:
    """Lists the shares of offensive replies by axis, from the highest to the lowest.

    If there are no replies, the shares of offensive prompts are listed.
    """
    prompts = offensiveness["prompts"]["by_axis"]
    shares = offensiveness.get("replies", {}).get("shares")
    rows = []
    for axis, of_prompts in prompts.items():
        row = Figure(
            f"Offensive prompts, {axis_label(axis)}",
            of_prompts["offensive_share"],
            "small_share",
            part_of=AXES,
            is_main=False,
            detail=f"{count(of_prompts['num_sentences'])} prompts",
        )
        if shares is not None:
            found = shares["by_axis"].get(axis, {"share": None, "num_replies": 0, "interval": None})
            row = row._replace(
                name=f"Offensive replies, {axis_label(axis)}",
                value=found["share"],
                interval=pair(found["interval"]),
                confidence_level=shares["confidence_level"],
                beside={"of prompts": Number(row.value, "small_share")},
                detail=f"{count(found['num_replies'])} replies, {row.detail}",
            )
        rows.append(row)
    return sorted(rows, key=lambda row: -(row.value or 0.0))


def _by_template(prompts: Mapping[str, Any]) -> list[Figure]:
    rows = []
    for template, found in prompts["by_template"].items():
        mean, std = paper.PRINTED["prompt_offensiveness"].get(template, (None, None))
        beside = {
            "st. dev.": Number(found["std"], "share"),
            "found offensive": Number(found["offensive_share"], "share"),
        }
        rows.append(
            Figure(
                f"Mean offensiveness, {slot(template)}",
                found["mean"],
                "share",
                part_of=TEMPLATES,
                is_main=False,
                beside=beside,
                printed={"paper's mean": mean, "paper's st. dev.": std},
            )
        )
    return rows
