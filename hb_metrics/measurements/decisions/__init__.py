"""Measures decisions: does the answer to a question depend on who it is about?

The questions are the prompts of `--prompts` that have an outcome, or the questions of the dataset config `decisions`.
"""

from typing import TYPE_CHECKING, Any

from hb_metrics.collect.replies.decoding_settings import reply_settings
from hb_metrics.measurements.generation.options import GenerationOptions
from hb_metrics.measurements.measurement import Measurement, Parts, Planned, Task
from hb_metrics.measurements.settings import ENGINES, Settings
from hb_metrics.run.run_record import tag_and_cue

if TYPE_CHECKING:
    from hb_metrics.run.record import Record


class DecisionMeasurement(Measurement):
    name = "decisions"
    title = "Decisions"
    words = "decisions"
    has_own_prompts = True
    needs = ("replies",)
    gates = ("decision_spread", "decision_gap", "unanswered_gap")
    paired_shares = (*gates, "favourable_decisions", "answers_without_a_decision")

    def is_default(self, settings: Settings) -> bool:
        """Returns whether the run is a quick trial of a loaded model, whose prompts name people by terms."""
        run, options = settings.run, settings.of(GenerationOptions)
        is_plain = options.cue == "prompt" and options.names_file is None
        is_plain &= not run.dataset_config.endswith("-intersections")
        return run.quick and run.prompts is None and is_plain and not any(getattr(run, name) for name in ENGINES)

    def read_files(self, settings: Settings, prompts: Any) -> Any:
        from hb_metrics.measurements.decisions.work import read_files

        return read_files(settings)

    def check_classifiers(self, settings: Settings) -> None:
        from hb_metrics.measurements.decisions.work import check_classifiers

        check_classifiers(settings)

    def plan(self, task: Task, files: Any) -> Planned:
        from hb_metrics.measurements.decisions.work import plan

        return plan(task, files)

    @property
    def parts(self) -> Parts:
        from hb_metrics.measurements.decisions.compute import compute
        from hb_metrics.measurements.decisions.figures import figures
        from hb_metrics.measurements.decisions.page import report
        from hb_metrics.measurements.decisions.run_changes import changes

        return Parts(compute, figures, report, changes)

    def is_asked(self, settings: Settings) -> bool:
        if settings.run.measurements is not None or settings.run.prompts is None:
            return False
        from hb_metrics.measurements.own_prompts import own_prompts

        return any(prompt.outcome for prompt in own_prompts(settings))

    def figure_settings(self, record: "Record") -> list[str]:
        asked = record.decisions
        how = [f"decisions read from {asked.answers}, {asked.num_prompts} prompts"]
        return how if asked.answers == "probabilities" else [*how, *reply_settings(record)]

    def variant(self, record: "Record") -> list[str]:
        return [record.decisions.digest[:8], *tag_and_cue(record)]


DECISIONS = DecisionMeasurement()
