"""Rows and sentences of how much the templates decide, and the lines that a run prints of it."""

from typing import Any, NamedTuple

from hb_metrics.display.numbers import MISSING, bias, rho, share, slot

_MEASURES = {
    "full_gen_bias": "Full Gen Bias, plain",
    "full_gen_bias_debiased": "Full Gen Bias, debiased",
    "likelihood_bias": "Likelihood Bias",
}


class RobustnessRow(NamedTuple):
    """How far one bias figure depends on the templates.

    Attributes:
        key: Its name in the results.
        label: As people read it.
        found: What results.json has of it: the fields of `TemplateRobustness`.
    """

    key: str
    label: str
    found: dict[str, Any]

    def shown(self, value: float | None) -> str:
        """A value of this figure as it is written elsewhere: a share in per cent, Gen Bias ×1000."""
        return share(value) if self.key == "likelihood_bias" else bias(value)

    def span(self, bounds: list[float]) -> str:
        """Lowest and highest of this figure."""
        return f"{self.shown(bounds[0])} to {self.shown(bounds[1])}"

    @property
    def lowest(self) -> float:
        """The figure from the template where it is lowest."""
        return float(self.found["by_template"][self.found["lowest_template"]])

    @property
    def highest(self) -> float:
        """The figure from the template where it is highest."""
        return float(self.found["by_template"][self.found["highest_template"]])


def robustness_rows(robustness: dict[str, Any]) -> list[RobustnessRow]:
    """The figures that were compared, in the order of the report."""
    return [
        RobustnessRow(key, label, robustness[key])
        for key, label in _MEASURES.items()
        if robustness.get(key) is not None
    ]


def robustness_sentence(row: RobustnessRow) -> str:
    """In words: how far apart two halves of the templates are, and whether they and single ones agree on an axis."""
    found = row.found
    relative = found["relative_half_difference"]
    apart = f"{row.shown(found['mean_half_difference'])}"
    if relative is not None:
        apart = f"about {share(relative, 0)} of the value from all"
    sentence = f"{row.label}: two random halves of the {found['num_templates']} templates differ by {apart}"
    single, half = found["single_same_highest"], found["half_same_highest"]
    if single is None or half is None:
        return f"{sentence}."
    return (
        f"{sentence}. Another axis comes first in {share(1 - single, 0)} of pairs of single templates, and in "
        f"{share(1 - half, 0)} of pairs of halves."
    )


def robustness_lines(robustness: dict[str, Any]) -> list[str]:
    """What a run prints of it."""
    lines = ["How much the templates decide"]
    for row in robustness_rows(robustness):
        found = row.found
        lines.append(
            f"  {row.label:<24} {row.shown(found['overall'])} from {found['num_templates']} templates; "
            f"single ones {row.span([row.lowest, row.highest])}, halves {row.span(found['half_interval'])}"
        )
        lines.append(
            f"  {'':<24} rank correlation of axes: single templates {rho(found['single_rank_correlation'])}, "
            f"halves {rho(found['half_rank_correlation'])}"
        )
    return lines


def extremes(row: RobustnessRow) -> list[tuple[str, str, str]]:
    """Which end, the template as people read it, and the figure from it alone."""
    found = row.found
    return [
        ("lowest", slot(found["lowest_template"]), row.shown(row.lowest)),
        ("highest", slot(found["highest_template"]), row.shown(row.highest)),
    ]


def by_axis(row: RobustnessRow) -> list[tuple[str, str, str]]:
    """Axis, its figure and that of random halves, the highest first; without a figure last."""
    values = row.found["by_axis"].items()
    ordered = sorted(values, key=lambda item: (item[1]["value"] is None, -(item[1]["value"] or 0.0), item[0]))
    return [
        (
            axis,
            row.shown(value["value"]),
            MISSING if value["half_interval"] is None else row.span(value["half_interval"]),
        )
        for axis, value in ordered
    ]
