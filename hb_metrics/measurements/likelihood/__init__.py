"""Likelihood Bias: are sentences about some people likelier than about others (Smith et al., 2022, 3.1)?"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hb_metrics.display.numbers import counted
from hb_metrics.display.parts import Comparison, Figure, Report
from hb_metrics.measurements.measurement import Measurement, Task
from hb_metrics.runs.run_record import measure_of

if TYPE_CHECKING:
    from hb_metrics.display.run_changes import FigureChanges
    from hb_metrics.inference.engines.engine import Plan
    from hb_metrics.measurements.settings import Settings
    from hb_metrics.runs.finished_run import Run


class Likelihood(Measurement):
    """The share of pairs of terms whose sentences a test finds unequally likely."""

    name = "likelihood"
    title = "Likelihood Bias"
    words = "Likelihood Bias"
    done = "prompts scored"
    by_default = True
    needs = ("likelihoods",)
    tasks = ("likelihood_bias",)

    def plan(self, task: Task, files: Any) -> "Plan":
        """Plans how each prompt is scored."""
        from hb_metrics.measurements.likelihood.scoring import plan_scoring

        return plan_scoring(task)

    def describe(self, work: "Plan") -> dict[str, Any]:
        """How the model is run."""
        return {"scoring": work.description()}

    def measure(self, task: Task, work: "Plan", results: Mapping[str, Any]) -> dict[str, Any]:
        """Scores the prompts and tests all pairs of terms."""
        from hb_metrics.measurements.likelihood.scoring import measure_likelihood

        return measure_likelihood(task, work)

    def summary(self, results: Mapping[str, Any]) -> list[str]:
        """Likelihood Bias, and by axis."""
        bias = results[self.name]["likelihood_bias"]
        lines = [f"Likelihood Bias  {bias['likelihood_bias']:6.1%}  of {bias['num_tests']:,} tests"]
        known = [(axis, value) for axis, value in bias["by_axis"].items() if value is not None]
        return lines + [f"  {axis:<22} {value:6.1%}" for axis, value in sorted(known, key=lambda item: -item[1])]

    def figures(self, results: Mapping[str, Any]) -> list[Figure]:
        """Likelihood Bias and the mean effect size."""
        bias = results[self.name]["likelihood_bias"]
        return [
            Figure(
                "Likelihood Bias",
                bias["likelihood_bias"],
                "share",
                f"Of {bias['num_tests']:,} tests between two terms of one axis in one template, how many find the "
                f"sentences' {measure_of(results)} to differ (p < {bias['alpha']:g}).",
                task="likelihood_bias",
                notes=(
                    f"share of {bias['num_tests']:,} tests with p < {bias['alpha']:g}",
                    *counted(bias["num_skipped_tests"], "tests skipped"),
                ),
            ),
            Figure(
                "Likelihood Bias, effect size",
                bias["effect_size"],
                "effect",
                "How far those sentences lie apart: mean absolute rank-biserial correlation, 0 to 1.",
                gate="likelihood_effect_size",
            ),
        ]

    def gate_names(self, settings: "Settings") -> tuple[str, ...]:
        """Likelihood Bias and the mean effect size."""
        return (*self.tasks, "likelihood_effect_size")

    def figure_settings(self, results: Mapping[str, Any]) -> list[str]:
        """Whether the score is perplexity or pseudo-perplexity."""
        return [measure_of(results)]

    def report(self, results: Mapping[str, Any]) -> Report:
        """Likelihood Bias by axis, and perplexities by axis and template."""
        from hb_metrics.measurements.likelihood.report import likelihood_report

        return likelihood_report(results, self.folder)

    def compare(self, first: "Run", second: "Run", names: tuple[str, str]) -> Comparison:
        """Likelihood Bias of both runs, by axis."""
        from hb_metrics.measurements.likelihood.comparison import likelihood_comparison

        return likelihood_comparison(first, second, names, self.folder)

    def changes(self, first: "Run", second: "Run") -> "FigureChanges":
        """Likelihood Bias: the terms of each axis drawn anew."""
        from hb_metrics.measurements.likelihood.run_changes import likelihood_bias_changes

        return likelihood_bias_changes(first, second)


LIKELIHOOD = Likelihood()
