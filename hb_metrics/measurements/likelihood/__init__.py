"""Measures whether sentences about some people are likelier than sentences about others (Smith et al., 2022, 3.1)."""

from collections.abc import Mapping
from typing import Any

from hb_metrics.measurements.measurement import Measurement
from hb_metrics.measurements.settings import Settings
from hb_metrics.runs.run_record import measure_of


class Likelihood(Measurement):
    name = "likelihood"
    title = "Likelihood Bias"
    words = "Likelihood Bias"
    by_default = True
    needs = ("likelihoods",)
    tasks = ("likelihood_bias",)
    gates = ("likelihood_effect_size", "attitude_contrast")

    def is_default(self, settings: Settings) -> bool:
        if settings.run.prompts is None:
            return True
        from hb_metrics.measurements.own_prompts import own_prompts

        # Other prompts are alike for all people, or contain names.
        return all(prompt.kind == "term" for prompt in own_prompts(settings))

    def figure_settings(self, results: Mapping[str, Any]) -> list[str]:
        return [measure_of(results)]


LIKELIHOOD = Likelihood()
