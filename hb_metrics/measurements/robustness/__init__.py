"""Robustness: how far Likelihood Bias and Full Gen Bias depend on the templates (after Aggarwal et al., 2022)."""

from collections.abc import Mapping
from typing import Any

from hb_metrics.display.parts import Figure, Form, Report
from hb_metrics.measurements.measurement import Measurement, Task


class Robustness(Measurement):
    """The same figures from single templates and from random halves of the templates."""

    name = "robustness"
    title = "Robustness over templates"
    words = "robustness over templates"
    done = "templates compared"
    requires = ("likelihood", "generation")

    def plan(self, task: Task, files: Any) -> None:
        """Checks that there are templates to split."""
        from hb_metrics.measurements.robustness.template_robustness import check_templates

        check_templates(task.prompts)

    def measure(self, task: Task, work: None, results: Mapping[str, Any]) -> dict[str, Any]:
        """Splits the templates, from what likelihood and generation have stored."""
        from hb_metrics.measurements.robustness.work import measure_robustness

        return measure_robustness(task, results) if task.state.is_main_process else {}

    def summary(self, results: Mapping[str, Any]) -> list[str]:
        """Each figure from all templates, single ones and halves."""
        from hb_metrics.measurements.robustness.tables import robustness_lines

        return robustness_lines(results[self.name])

    def figures(self, results: Mapping[str, Any]) -> list[Figure]:
        """Of each figure, how much the halves of a split differ, and whether they agree on the order of the axes."""
        from hb_metrics.measurements.robustness.tables import robustness_rows

        figures = []
        for row in robustness_rows(results[self.name]):
            form: Form = "share" if row.key == "likelihood_bias" else "bias"
            halves, templates = row.robustness["num_halves"], row.robustness["num_templates"]
            splits = f"over {halves:,} random splits of {templates} templates in halves"
            interval = row.span(row.robustness["half_interval"])
            figures += [
                Figure(
                    f"{row.label}, difference between halves",
                    row.robustness["mean_half_difference"],
                    form,
                    f"Mean absolute difference, {splits}; 95% of halves lie in {interval}.",
                ),
                Figure(
                    f"{row.label}, rank correlation of halves",
                    row.robustness["half_rank_correlation"],
                    "effect",
                    f"Whether halves put the axes in the same order: mean of Spearman's rho, {splits}.",
                ),
            ]
        return figures

    def report(self, results: Mapping[str, Any]) -> Report:
        """Single templates and halves beside the figure from all."""
        from hb_metrics.measurements.robustness.report import robustness_report

        return robustness_report(results, self.folder)


ROBUSTNESS = Robustness()
