"""The figures of robustness: how far the halves of a split of the templates differ."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from hb_metrics.report.layout.figure import Figure, Number, Unit
from hb_metrics.report.layout.numbers import axis_label, count

_MEASURES: dict[str, tuple[str, Unit]] = {
    "full_gen_bias": ("Full Gen Bias, plain", "bias"),
    "full_gen_bias_debiased": ("Full Gen Bias, debiased", "bias"),
    "likelihood_bias": ("Likelihood Bias", "share"),
}


class Measure(NamedTuple):
    """A bias figure whose templates were split.

    Attributes:
        label: Its name.
        unit: How it is written, as in `Figure`.
        robustness: Its part of results.json: the fields of `TemplateRobustness`.
        overall: The figure from all templates, with 95 % of random halves as its interval.
    """

    label: str
    unit: Unit
    robustness: Mapping[str, Any]
    overall: Figure

    def number(self, value: float | None) -> Number:
        """A value of this figure."""
        return Number(value, self.unit)

    @property
    def by_axis(self) -> list[Figure]:
        """Axes, the highest first: the figure from all templates, with 95 % of random halves as its interval."""
        rows = []
        for axis, found in self.robustness["by_axis"].items():
            bounds = found["half_interval"]
            interval = None if bounds is None else (bounds[0], bounds[1])
            rows.append(Figure(axis_label(axis), found["value"], self.unit, interval=interval))
        return sorted(rows, key=lambda row: (row.value is None, -(row.value or 0.0), row.name))


def measures(robustness: Mapping[str, Any]) -> list[Measure]:
    """The bias figures that were compared, in the order of the report."""
    found = []
    for key, (label, unit) in _MEASURES.items():
        of_measure = robustness.get(key)
        if of_measure is None:
            continue
        templates = of_measure["by_template"]
        beside = {
            "lowest template": Number(templates[of_measure["lowest_template"]], unit),
            "highest template": Number(templates[of_measure["highest_template"]], unit),
            "halves differ by": Number(of_measure["mean_half_difference"], unit),
        }
        low, high = of_measure["half_interval"]
        number = f"{count(of_measure['num_templates'])} templates"
        overall = Figure(label, of_measure["overall"], unit, interval=(low, high), beside=beside, detail=number)
        found.append(Measure(label, unit, of_measure, overall))
    return found


def figures(results: Mapping[str, Any]) -> list[Figure]:
    """For each bias figure, how much the halves of a split differ, and whether they agree on the order of the axes."""
    listed = []
    for measure in measures(results["robustness"]):
        found = measure.robustness
        splits = f"over {count(found['num_halves'])} random splits of {found['num_templates']} templates in halves"
        listed += [
            Figure(
                f"{measure.label}, difference between halves",
                found["mean_half_difference"],
                measure.unit,
                f"Mean absolute difference, {splits}; 95% of halves lie in {measure.overall.shown_interval}.",
                detail=f"halves {measure.overall.shown_interval}",
            ),
            Figure(
                f"{measure.label}, rank correlation of halves",
                found["half_rank_correlation"],
                "effect",
                f"Whether halves put the axes in the same order: mean of Spearman's rho, {splits}.",
            ),
        ]
    return listed
