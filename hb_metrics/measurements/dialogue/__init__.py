"""Dialogue perplexity: how likely a model finds what real people replied.

It measures how well a model predicts dialogue, not how biased it is.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hb_metrics.display.parts import Figure, Report, pair
from hb_metrics.measurements.dialogue.options import DialogueOptions
from hb_metrics.measurements.measurement import Measurement, Task
from hb_metrics.runs.run_record import last_part

if TYPE_CHECKING:
    from hb_dataset.dialogue_pairs import Dialogue
    from hb_metrics.display.run_changes import FigureChanges
    from hb_metrics.measurements.dialogue.work import DialogueWork
    from hb_metrics.measurements.settings import Settings
    from hb_metrics.runs.finished_run import Run


class DialoguePerplexity(Measurement):
    """The perplexity of real replies, per token."""

    name = "dialogue"
    title = "Dialogue perplexity"
    words = "dialogue perplexity"
    done = "dialogue scored"
    options = DialogueOptions
    has_own_prompts = True
    needs = ("replies", "weights")

    def read_files(self, settings: "Settings") -> "Dialogue":
        """Reads the dialogue."""
        from hb_metrics.measurements.dialogue.work import read_files

        return read_files(settings)

    def plan(self, task: Task, files: "Dialogue") -> "DialogueWork":
        """Plans how its replies are scored."""
        from hb_metrics.measurements.dialogue.work import plan_work

        return plan_work(task, files)

    def describe(self, work: "DialogueWork") -> dict[str, Any]:
        """The dialogue."""
        return {"dialogue": work.dialogue.description()}

    def measure(self, task: Task, work: "DialogueWork", results: Mapping[str, Any]) -> dict[str, Any]:
        """Scores the replies."""
        from hb_metrics.measurements.dialogue.work import measure_dialogue

        return measure_dialogue(task, work)

    def summary(self, results: Mapping[str, Any]) -> list[str]:
        """The perplexity."""
        return [f"Dialogue perplexity  {results[self.name]['perplexity']:.2f}"]

    def figures(self, results: Mapping[str, Any]) -> list[Figure]:
        """The perplexity with its interval."""
        dialogue = results[self.name]
        return [
            Figure(
                "Dialogue perplexity",
                dialogue["perplexity"],
                "bias",
                f"How well it foresees what real people replied ({dialogue['num_replies']:,} replies of "
                f"{last_part(dialogue['source'])}): the lower, the better. It compares only between models with the "
                "same tokenizer, and is not a figure of bias.",
                pair(dialogue["interval"]),
                dialogue["confidence_level"],
                gate="dialogue_perplexity",
            )
        ]

    def gate_names(self, settings: "Settings") -> tuple[str, ...]:
        """The perplexity."""
        return ("dialogue_perplexity",)

    def report(self, results: Mapping[str, Any]) -> Report:
        """The perplexity, and which replies it was measured on."""
        from hb_metrics.measurements.dialogue.report import dialogue_report

        return dialogue_report(results, self.folder)

    def changes(self, first: "Run", second: "Run") -> "FigureChanges":
        """Dialogue perplexity: paired by reply."""
        from hb_metrics.measurements.dialogue.run_changes import dialogue_changes

        return dialogue_changes(first, second)

    def warnings(self, changed: set[str], runs: Sequence[Mapping[str, Any]]) -> list[str]:
        """Warns of different dialogues or tokenizers."""
        measured = [(run[self.name], run["run"]["dialogue"]) for run in runs if self.name in run]
        if len({(dialogue["num_replies"], source["digest"]) for dialogue, source in measured}) > 1:
            return ["Dialogue perplexity was measured on different replies. It does not compare."]
        if len({dialogue["num_tokens"] for dialogue, _ in measured}) > 1:
            return ["The same replies are different numbers of tokens. Dialogue perplexity does not compare."]
        return []


DIALOGUE = DialoguePerplexity()
