"""Measures decisions: does the answer to a question depend on who it is about?

The questions are the prompts of `--prompts` that have an outcome, or the questions of the dataset config `decisions`.
"""

from collections.abc import Mapping
from typing import Any

from hb_metrics.measurements.measurement import Collector, Measurement, Parts
from hb_metrics.measurements.settings import Settings
from hb_metrics.run.run_record import reply_settings, tag_and_cue


class DecisionMeasurement(Measurement):
    name = "decisions"
    title = "Decisions"
    words = "decisions"
    has_own_prompts = True
    needs = ("replies",)
    gates = ("decision_spread", "decision_gap")

    @property
    def collector(self) -> Collector:
        from hb_metrics.measurements.decisions.work import collect, describe, plan, read_files

        return Collector(plan, describe, collect, read_files)

    @property
    def parts(self) -> Parts:
        from hb_metrics.measurements.decisions.compute import compute
        from hb_metrics.measurements.decisions.figures import figures
        from hb_metrics.measurements.decisions.page import report

        return Parts(compute, figures, report)

    def is_asked(self, settings: Settings) -> bool:
        if settings.run.measurements is not None or settings.run.prompts is None:
            return False
        from hb_metrics.measurements.own_prompts import own_prompts

        return any(prompt.outcome for prompt in own_prompts(settings))

    def figure_settings(self, results: Mapping[str, Any]) -> list[str]:
        run = results["run"]["decisions"]
        how = [f"decisions read from {run['answers']}, {run['num_prompts']} prompts"]
        return how if run["answers"] == "probabilities" else [*how, *reply_settings(results)]

    def variant(self, results: Mapping[str, Any]) -> list[str]:
        return [results["run"]["decisions"]["digest"][:8], *tag_and_cue(results)]


DECISIONS = DecisionMeasurement()
