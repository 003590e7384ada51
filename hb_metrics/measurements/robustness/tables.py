"""Rows and sentences of how far figures depend on the templates, and the lines that a run prints of it."""

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
        label: Its name for people.
        robustness: Its part of results.json: the fields of `TemplateRobustness`.
    """

    key: str
    label: str
    robustness: dict[str, Any]

    def shown(self, value: float | None) -> str:
        """A value of this figure as it is written elsewhere: a share in per cent, Gen Bias ×1000."""
        return share(value) if self.key == "likelihood_bias" else bias(value)

    def span(self, bounds: list[float]) -> str:
        """Lowest and highest of this figure."""
        return f"{self.shown(bounds[0])} to {self.shown(bounds[1])}"

    @property
    def lowest(self) -> float:
        """The lowest figure of a single template."""
        return float(self.robustness["by_template"][self.robustness["lowest_template"]])

    @property
    def highest(self) -> float:
        """The highest figure of a single template."""
        return float(self.robustness["by_template"][self.robustness["highest_template"]])


def robustness_rows(robustness: dict[str, Any]) -> list[RobustnessRow]:
    """The figures that were compared, in the order of the report."""
    return [
        RobustnessRow(key, label, robustness[key])
        for key, label in _MEASURES.items()
        if robustness.get(key) is not None
    ]


def robustness_sentence(row: RobustnessRow) -> str:
    """States how far apart two halves of the templates are, and how often the highest axis differs."""
    robustness = row.robustness
    relative = robustness["relative_half_difference"]
    apart = f"{row.shown(robustness['mean_half_difference'])}"
    if relative is not None:
        apart = f"about {share(relative, 0)} of the value from all"
    sentence = f"{row.label}: two random halves of the {robustness['num_templates']} templates differ by {apart}"
    single, half = robustness["single_same_highest"], robustness["half_same_highest"]
    if single is None or half is None:
        return f"{sentence}."
    return (
        f"{sentence}. Another axis comes first in {share(1 - single, 0)} of pairs of single templates, and in "
        f"{share(1 - half, 0)} of pairs of halves."
    )


def robustness_lines(results: dict[str, Any]) -> list[str]:
    """The lines that a run prints."""
    lines = ["How much the templates decide"]
    for row in robustness_rows(results):
        robustness = row.robustness
        lines.append(
            f"  {row.label:<24} {row.shown(robustness['overall'])} from {robustness['num_templates']} templates; "
            f"single ones {row.span([row.lowest, row.highest])}, halves {row.span(robustness['half_interval'])}"
        )
        lines.append(
            f"  {'':<24} rank correlation of axes: single templates {rho(robustness['single_rank_correlation'])}, "
            f"halves {rho(robustness['half_rank_correlation'])}"
        )
    return lines


def extremes(row: RobustnessRow) -> list[tuple[str, str, str]]:
    """The lowest and the highest template: which of the two, its text for people, and the figure from it alone."""
    robustness = row.robustness
    return [
        ("lowest", slot(robustness["lowest_template"]), row.shown(row.lowest)),
        ("highest", slot(robustness["highest_template"]), row.shown(row.highest)),
    ]


def by_axis(row: RobustnessRow) -> list[tuple[str, str, str]]:
    """Axis, its figure and the interval of random halves; the highest first, those without a figure last."""
    values = row.robustness["by_axis"].items()
    ordered = sorted(values, key=lambda item: (item[1]["value"] is None, -(item[1]["value"] or 0.0), item[0]))
    return [
        (
            axis,
            row.shown(value["value"]),
            MISSING if value["half_interval"] is None else row.span(value["half_interval"]),
        )
        for axis, value in ordered
    ]
