"""Robustness over templates in the report of a run."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hb_metrics.measurements.robustness.figures import Measure, measures
from hb_metrics.measurements.robustness.plots import templates_figure
from hb_metrics.report.layout.figure import Number
from hb_metrics.report.layout.numbers import share
from hb_metrics.report.layout.parts import Report, Section
from hb_metrics.report.layout.plots import plain
from hb_metrics.report.layout.rendering import render

_FOLDER = Path(__file__).parent


def report(results: Mapping[str, Any]) -> Report:
    """Single templates and halves beside the figure from all."""
    found = measures(results["robustness"])
    labels = [measure.label for measure in found]
    context = {
        "measures": found,
        "sentences": [robustness_sentence(measure) for measure in found],
        "odd": any(measure.robustness["num_templates"] % 2 for measure in found),
        "has_plain": "Full Gen Bias, plain" in labels,
        "has_debiased": "Full Gen Bias, debiased" in labels,
    }
    plots = {"robustness-templates": [plain(templates_figure(measure)) for measure in found]}
    section = Section("robustness", "Robustness over templates", render(_FOLDER / "section.html.jinja", context), plots)
    return Report([section], reading=render(_FOLDER / "reading.html.jinja", {}))


def robustness_sentence(measure: Measure) -> str:
    """States the difference between two halves of the templates, and the share in which another axis comes first."""
    found = measure.robustness
    relative = found["relative_half_difference"]
    apart = Number(found["mean_half_difference"], measure.unit).shown
    if relative is not None:
        apart = f"about {share(relative, 0)} of the value from all templates"
    sentence = f"{measure.label}: two random halves of the {found['num_templates']} templates differ by {apart}."
    single, half = found["single_same_highest"], found["half_same_highest"]
    if single is None or half is None:
        return sentence
    return (
        f"{sentence} Another axis comes first in {share(1 - single, 0)} of pairs of single templates, and in "
        f"{share(1 - half, 0)} of pairs of halves."
    )
