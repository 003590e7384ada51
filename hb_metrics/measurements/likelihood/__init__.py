"""Likelihood Bias: are sentences about some people likelier than about others (Smith et al., 2022, 3.1)?"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hb_metrics.measurements.measurement import FigureChanges, Measurement
from hb_metrics.runs.run_record import measure_of

if TYPE_CHECKING:
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

    def gate_names(self, settings: "Settings") -> tuple[str, ...]:
        """Likelihood Bias and the mean effect size."""
        return (*self.tasks, "likelihood_effect_size")

    def figure_settings(self, results: Mapping[str, Any]) -> list[str]:
        """Whether the score is perplexity or pseudo-perplexity."""
        return [measure_of(results)]

    def changes(self, first: "Run", second: "Run") -> FigureChanges:
        """Likelihood Bias: the terms of each axis are resampled."""
        from hb_metrics.measurements.likelihood.run_changes import likelihood_bias_changes

        return likelihood_bias_changes(first, second)


LIKELIHOOD = Likelihood()
