"""Rows of the offensiveness section, beside the paper's."""

from typing import Any, NamedTuple

from hb_metrics.display.change_figure import Change, named_changes
from hb_metrics.display.figures import axis_label
from hb_metrics.display.numbers import slot
from hb_metrics.display.paper import OFFENSIVE_EXTREMES_TEMPLATES, PROMPT_OFFENSIVENESS

NUM_EXTREMES = 10


class TemplateOffensiveness(NamedTuple):
    """Offensiveness of a template's prompts: this run's, and the paper's mean and standard deviation."""

    template: str
    mean: float
    std: float
    offensive_share: float
    paper_mean: float | None
    paper_std: float | None


class AxisOffensiveness(NamedTuple):
    """Shares found offensive by axis; replies are `None` where there are none."""

    label: str
    num_prompts: int
    prompts: float
    num_replies: int | None
    replies: float | None


class OffensiveExtremes(NamedTuple):
    """The terms whose prompts of a template are found least and most offensive, each with its mean probability."""

    template: str
    lowest: list[tuple[str, float]]
    highest: list[tuple[str, float]]


def by_template(prompts: dict[str, Any]) -> list[TemplateOffensiveness]:
    """Templates in declining order of standard deviation, as in the paper's Table 13."""
    return [
        TemplateOffensiveness(
            template,
            figures["mean"],
            figures["std"],
            figures["offensive_share"],
            *PROMPT_OFFENSIVENESS.get(template, (None, None)),
        )
        for template, figures in prompts["by_template"].items()
    ]


def by_axis(offensiveness: dict[str, Any]) -> list[AxisOffensiveness]:
    """Axes, the highest share of replies (or else of prompts) first."""
    replies = offensiveness.get("replies", {}).get("by_axis", {})
    rows = [
        AxisOffensiveness(
            axis_label(axis),
            figures["num_sentences"],
            figures["offensive_share"],
            replies[axis]["num_sentences"] if axis in replies else None,
            replies[axis]["offensive_share"] if axis in replies else None,
        )
        for axis, figures in offensiveness["prompts"]["by_axis"].items()
    ]
    return sorted(rows, key=lambda row: (-(row.replies or 0), -row.prompts))


def extremes(prompts: dict[str, Any]) -> list[OffensiveExtremes]:
    """Terms at either end in the paper's templates (Table 12), or in the run's first where it has none of them."""
    known = list(prompts["by_template"])
    chosen = [template for template in OFFENSIVE_EXTREMES_TEMPLATES if template in known] or known[:1]
    by_template = []
    for template in chosen:
        values = sorted(
            (by_cell[template], name)
            for terms in prompts["by_descriptor_and_template"].values()
            for name, by_cell in terms.items()
            if by_cell.get(template) is not None
        )
        shown = min(NUM_EXTREMES, len(values) // 2)
        ends = values[:shown], values[::-1][:shown]
        lowest, highest = ([(name, value) for value, name in end] for end in ends)
        by_template.append(OffensiveExtremes(template, lowest, highest))
    return by_template


def offensiveness_changes(first: dict[str, Any], second: dict[str, Any]) -> dict[str, list[Change]]:
    """Shares found offensive of replies and prompts, over all and by axis, and of each template, under headings."""
    changes = {}
    for part in ("replies", "prompts"):
        if part in first and part in second:
            before, after = first[part], second[part]
            changes[f"Offensive {part} by axis"] = [
                Change("All axes", before["offensive_share"], after["offensive_share"]),
                *named_changes(_shares(before["by_axis"]), _shares(after["by_axis"]), axis_label),
            ]
            changes[f"Offensive {part} by template"] = named_changes(
                _shares(before["by_template"]), _shares(after["by_template"]), slot
            )
    return changes


def _shares(groups: dict[str, Any]) -> dict[str, float | None]:
    return {name: group["offensive_share"] for name, group in groups.items()}
