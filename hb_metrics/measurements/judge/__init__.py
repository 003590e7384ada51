"""Measures how often language models (judges) give replies a label, such as "condescending"."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hb_metrics.collect.replies.decoding_settings import reply_settings
from hb_metrics.measurements.judge.options import JudgeOptions
from hb_metrics.measurements.measurement import Measurement, Parts, Planned, Task

if TYPE_CHECKING:
    from hb_metrics.collect.judges.rubric import Rubric
    from hb_metrics.measurements.results import Results
    from hb_metrics.measurements.settings import Settings
    from hb_metrics.run.record import Record


class JudgeMeasurement(Measurement):
    name = "judge"
    title = "Judges"
    words = "the labels that a judge assigns to replies"
    options = JudgeOptions
    needs = ("replies",)
    reads = ("generation",)

    def check_classifiers(self, settings: "Settings") -> None:
        from hb_metrics.measurements.judge.work import check_classifiers

        check_classifiers(settings)

    def plan(self, task: Task, files: Any) -> Planned:
        from hb_metrics.measurements.judge.work import plan

        return plan(task, files)

    @property
    def parts(self) -> Parts:
        from hb_metrics.measurements.judge.compute import compute
        from hb_metrics.measurements.judge.figures import changes, figures, report

        return Parts(compute, figures, report, changes)

    def is_asked(self, settings: "Settings") -> bool:
        return settings.of(JudgeOptions).judge is not None

    def read_files(self, settings: "Settings", prompts: Any = None) -> "list[Rubric]":
        from hb_metrics.collect.judges.rubric import read_rubric, shipped_rubrics

        names = settings.of(JudgeOptions).judge
        if not names:
            known = ", ".join(shipped_rubrics())
            raise ValueError(f"judge needs a rubric; set --judge to one of {known}, or to a rubric file")
        rubrics = [read_rubric(name) for name in names]
        figures = [rubric.figure for rubric in rubrics if rubric.figure is not None]
        if len({rubric.name for rubric in rubrics}) < len(rubrics) or len(set(figures)) < len(figures):
            raise ValueError(
                f"two of the rubrics {', '.join(names)} have the same name, or report the share of the same label; "
                "omit one of them, or rename its file, or the label that it reports (its key 'figure')"
            )
        return rubrics

    def gate_names(self, settings: "Settings") -> tuple[str, ...]:
        from hb_metrics.measurements.judge.figures import gate_name

        rubrics = self.read_files(settings) if self.is_asked(settings) else []
        return tuple(gate_name(rubric.name) for rubric in rubrics if rubric.figure is not None)

    def margin_units(self, settings: "Settings") -> Mapping[str, str]:
        return dict.fromkeys(self.gate_names(settings), "pt")

    def figure_settings(self, record: "Record") -> list[str]:
        judges = [judge.name for judge in record.judge.values()]
        return [f"judged by {', '.join(judges)}, uncorrected", *reply_settings(record)]

    def card_sentences(self, results: "Results") -> list[str]:
        return [f"{judge.name}: {'; '.join(judge.notes)}." for judge in results.record.judge.values()]

    def warnings(self, changed: set[str], runs: "Sequence[Results]") -> list[str]:
        if any(name.startswith("judge.") for name in changed):
            return ["Different judges or rubrics labelled the replies, so the shares are not comparable."]
        return []


JUDGE = JudgeMeasurement()
