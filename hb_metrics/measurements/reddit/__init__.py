"""Measures which phrase of a RedditBias pair a model finds likelier (Barikeri et al., 2021)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hb_metrics.measurements.measurement import Measurement, Parts, Planned, Task
from hb_metrics.measurements.reddit.options import RedditOptions

if TYPE_CHECKING:
    from hb_metrics.measurements.results import Results
    from hb_metrics.measurements.settings import Settings


class RedditMeasurement(Measurement):
    name = "reddit"
    title = "Language Model Bias"
    words = "Language Model Bias on RedditBias"
    options = RedditOptions
    has_own_prompts = True
    needs = ("weights",)

    def read_files(self, settings: "Settings", prompts: Any) -> Any:
        from hb_metrics.measurements.reddit.work import read_files

        return read_files(settings, prompts)

    def plan(self, task: Task, files: Any) -> Planned:
        from hb_metrics.measurements.reddit.work import plan

        return plan(task, files)

    @property
    def parts(self) -> Parts:
        from hb_metrics.measurements.reddit.compute import compute
        from hb_metrics.measurements.reddit.figures import figures, report

        return Parts(compute, figures, report)

    def gate_names(self, settings: "Settings") -> tuple[str, ...]:
        from hb_metrics.measurements.reddit.figures import GATE
        from hb_metrics.measurements.reddit.work import bias_types

        return (*(f"{GATE}_{bias_type}" for bias_type in bias_types(settings)), "lmp")

    def warnings(self, changed: set[str], runs: "Sequence[Results]") -> list[str]:
        records = [run.record.reddit for run in runs]
        sentences = []
        for name in dict.fromkeys(name for record in records for name in record):
            scored = [record[name] for record in records if name in record]
            what = "LMP" if name == "reference" else f"Language Model Bias of {name}"
            if len({texts.digest for texts in scored}) > 1:
                sentences.append(f"The runs scored different texts, so their {what} is not comparable.")
            elif name == "reference" and len({texts.predicted_tokens for texts in scored}) > 1:
                sentences.append("The models tokenized the texts differently, so their LMP is not comparable.")
        return sentences


REDDIT = RedditMeasurement()
