"""The figures of robustness: differences between random halves of the templates."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from hb_metrics.report.layout.figure import Figure, Number, Unit
from hb_metrics.report.layout.numbers import count

_MEASURES: dict[str, tuple[str, Unit]] = {
    "full_gen_bias": ("Full Gen Bias, plain", "bias"),
    "full_gen_bias_debiased": ("Full Gen Bias, debiased", "bias"),
    "likelihood_bias": ("Likelihood Bias", "share"),
}


class Measure(NamedTuple):
    """A bias figure whose templates were split.

    Attributes:
        label: Its name.
        unit: Its unit, as in `Figure`.
        robustness: Its part of results.json: the fields of `TemplateRobustness`.
        overall: The figure from all templates, with 95 % of random halves as its interval.
    """

    label: str
    unit: Unit
    robustness: Mapping[str, Any]
    overall: Figure


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
    """For each bias figure, the difference between halves, and their agreement on the order of the axes."""
    listed = []
    for measure in measures(results["robustness"]):
        found = measure.robustness
        splits = f"over {count(found['num_halves'])} random splits of {found['num_templates']} templates into halves"
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
                f"Agreement of halves on the order of the axes: mean of Spearman's rho, {splits}.",
            ),
        ]
    return listed
