"""Measures the share of prompts and replies that a classifier finds offensive (Smith et al., 2022, C.2)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hb_metrics.collect.replies.decoding_settings import reply_settings
from hb_metrics.measurements.measurement import Measurement, Parts, Planned, Task
from hb_metrics.measurements.offensiveness.options import OffensivenessOptions
from hb_metrics.run.run_record import classifier_name, public_name, tag_and_cue

if TYPE_CHECKING:
    from hb_metrics.measurements.results import Results
    from hb_metrics.measurements.settings import Settings
    from hb_metrics.run.record import Record


class OffensivenessMeasurement(Measurement):
    name = "offensiveness"
    title = "Offensiveness"
    words = "offensiveness"
    options = OffensivenessOptions
    by_default = True
    tasks = ("offensive_replies",)
    paired_shares = ("offensive_replies",)

    def check_classifiers(self, settings: "Settings") -> None:
        from hb_metrics.measurements.offensiveness.work import check_classifiers

        check_classifiers(settings)

    def plan(self, task: Task, files: Any) -> Planned:
        from hb_metrics.measurements.offensiveness.work import plan

        return plan(task)

    @property
    def parts(self) -> Parts:
        from hb_metrics.measurements.offensiveness.compute import changes, compute, generalise
        from hb_metrics.measurements.offensiveness.figures import figures, report

        return Parts(compute, figures, report, changes, generalise=generalise)

    def figure_settings(self, record: "Record") -> list[str]:
        classifier = classifier_name(record.offensiveness_classifier)
        return [f"offensiveness classified by {classifier}", *reply_settings(record)]

    def variant(self, record: "Record") -> list[str]:
        return [public_name(record.offensiveness_classifier), *tag_and_cue(record)]

    def card_sentences(self, results: "Results") -> list[str]:
        classifier = results.record.offensiveness_classifier
        notes = "".join(f"; {note}" for note in classifier.notes)
        return [f"Offensiveness classified by {classifier_name(classifier)}{notes}."]

    def warnings(self, changed: set[str], runs: "Sequence[Results]") -> list[str]:
        if changed & {"offensiveness_classifier.digest", "offensiveness_classifier.version"}:
            return [
                "The texts were classified by different classifiers, so the shares of offensive texts are not "
                "comparable."
            ]
        return []


OFFENSIVENESS = OffensivenessMeasurement()
