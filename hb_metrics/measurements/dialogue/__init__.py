"""Measures dialogue perplexity, which shows how well a model predicts people's replies. It does not measure bias."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hb_metrics.measurements.measurement import Measurement, Parts, Planned, Task

if TYPE_CHECKING:
    from hb_metrics.measurements.results import Results
    from hb_metrics.measurements.settings import Settings


class DialoguePerplexity(Measurement):
    name = "dialogue"
    title = "Dialogue perplexity"
    words = "dialogue perplexity"
    has_own_prompts = True
    needs = ("replies", "weights")
    gates = ("dialogue_perplexity",)
    paired = ("dialogue_perplexity",)

    def read_files(self, settings: "Settings", prompts: Any) -> Any:
        from hb_metrics.measurements.dialogue.work import read_files

        return read_files(settings, prompts)

    def plan(self, task: Task, files: Any) -> Planned:
        from hb_metrics.measurements.dialogue.work import plan

        return plan(task, files)

    @property
    def parts(self) -> Parts:
        from hb_metrics.measurements.dialogue.compute import changes, compute, figures, report

        return Parts(compute, figures, report, changes)

    def warnings(self, changed: set[str], runs: "Sequence[Results]") -> list[str]:
        if len({(run.dialogue.num_replies, run.record.dialogue.digest) for run in runs}) > 1:
            return ["The runs scored different dialogues, so their dialogue perplexities are not comparable."]
        if len({run.dialogue.num_tokens for run in runs}) > 1:
            return ["The models tokenized the replies differently, so their dialogue perplexities are not comparable."]
        return []


DIALOGUE = DialoguePerplexity()
