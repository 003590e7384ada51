"""Measures whether sentences about some people are likelier than sentences about others (Smith et al., 2022, 3.1)."""

from typing import TYPE_CHECKING, Any

from hb_metrics.measurements.measurement import Measurement, Parts, Planned, Task
from hb_metrics.measurements.settings import Settings

if TYPE_CHECKING:
    from hb_metrics.run.record import Record


class Likelihood(Measurement):
    name = "likelihood"
    title = "Likelihood Bias"
    words = "Likelihood Bias"
    by_default = True
    needs = ("likelihoods",)
    tasks = ("likelihood_bias",)
    gates = ("likelihood_effect_size", "attitude_contrast")
    paired = ("attitude_contrast",)
    paired_shares = ("likelihood_bias",)

    def plan(self, task: Task, files: Any) -> Planned:
        from hb_metrics.measurements.likelihood.work import plan

        return plan(task)

    @property
    def parts(self) -> Parts:
        from hb_metrics.measurements.likelihood.compute import compute
        from hb_metrics.measurements.likelihood.figures import figures
        from hb_metrics.measurements.likelihood.page import report
        from hb_metrics.measurements.likelihood.run_changes import changes, generalise

        return Parts(compute, figures, report, changes, generalise=generalise)

    def is_default(self, settings: Settings) -> bool:
        if settings.run.prompts is None:
            return True
        from hb_metrics.measurements.own_prompts import own_prompts

        # Other prompts are alike for all people, or contain names.
        return all(prompt.kind == "term" for prompt in own_prompts(settings))

    def figure_settings(self, record: "Record") -> list[str]:
        return [record.measure]


LIKELIHOOD = Likelihood()
