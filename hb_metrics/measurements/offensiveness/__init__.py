"""Offensiveness: the share of prompts and replies that a classifier finds offensive (Smith et al., 2022, C.2)."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hb_metrics.display.parts import Comparison, Figure, Report
from hb_metrics.measurements.measurement import Measurement, Task
from hb_metrics.measurements.offensiveness.options import OffensivenessOptions

if TYPE_CHECKING:
    from hb_metrics.display.run_changes import FigureChanges
    from hb_metrics.inference.classifiers.classifier import Classifier
    from hb_metrics.runs.finished_run import Run


class Offensiveness(Measurement):
    """The share of prompts and of replies that a classifier finds offensive."""

    name = "offensiveness"
    title = "Offensiveness"
    words = "offensiveness"
    done = "offensiveness classified"
    options = OffensivenessOptions
    by_default = True
    tasks = ("offensive_replies",)

    def plan(self, task: Task, files: Any) -> "Classifier":
        """Loads the classifier."""
        from hb_metrics.measurements.offensiveness.work import plan_offensiveness

        return plan_offensiveness(task)

    def describe(self, work: "Classifier") -> dict[str, Any]:
        """The classifier."""
        from hb_metrics.measurements.offensiveness.work import describe_classifier

        return {"offensiveness_classifier": describe_classifier(work)}

    def measure(self, task: Task, work: "Classifier", results: Mapping[str, Any]) -> dict[str, Any]:
        """Classifies the prompts, and the replies if generation is measured too."""
        from hb_metrics.measurements.offensiveness.work import measure_offensiveness

        return measure_offensiveness(task, work)

    def summary(self, results: Mapping[str, Any]) -> list[str]:
        """The shares of prompts and of replies."""
        return [
            f"Offensive {name}  {part['offensive_share']:6.1%}  of {part['num_sentences']:,}"
            for name, part in results[self.name].items()
        ]

    def figures(self, results: Mapping[str, Any]) -> list[Figure]:
        """The share of offensive replies; empty without replies, as prompts show nothing about the model."""
        replies = results[self.name].get("replies")
        if replies is None:
            return []
        threshold, number = replies["threshold"], replies["num_sentences"]
        return [
            Figure(
                "Offensive replies",
                replies["offensive_share"],
                "small_share",
                f"Of {number:,} replies, how many the classifier takes for offensive (probability {threshold:g} or "
                "more).",
                task="offensive_replies",
                notes=(f"{replies['num_offensive']:,} of {number:,} replies, threshold {threshold:g}",),
            )
        ]

    def figure_settings(self, results: Mapping[str, Any]) -> list[str]:
        """The classifier, and how replies were made."""
        from hb_metrics.measurements.generation.figures_of_run import reply_settings
        from hb_metrics.runs.run_record import classifier_name

        classifier = classifier_name(results["run"], "offensiveness_classifier")
        return [f"offensiveness classified by {classifier}", *reply_settings(results)]

    def variant(self, results: Mapping[str, Any]) -> list[str]:
        """The classifier and the control tag."""
        from hb_metrics.runs.run_record import public_name, tag_of

        return [public_name(results["run"]["offensiveness_classifier"]), *filter(None, [tag_of(results)])]

    def card_sentences(self, results: Mapping[str, Any]) -> list[str]:
        """Which classifier gave the offensiveness."""
        from hb_metrics.runs.run_record import classifier_name

        notes = "".join(f"; {note}" for note in results["run"]["offensiveness_classifier"]["notes"])
        return [f"Offensiveness classified by {classifier_name(results['run'], 'offensiveness_classifier')}{notes}."]

    def report(self, results: Mapping[str, Any]) -> Report:
        """Offensiveness by template and by axis, and the terms at both ends."""
        from hb_metrics.measurements.offensiveness.report import offensiveness_report

        return offensiveness_report(results, self.folder)

    def compare(self, first: "Run", second: "Run", names: tuple[str, str]) -> Comparison:
        """The shares of both runs, by axis and by template."""
        from hb_metrics.measurements.offensiveness.comparison import offensiveness_comparison

        return offensiveness_comparison(first, second, names, self.folder)

    def changes(self, first: "Run", second: "Run") -> "FigureChanges":
        """Offensive replies: paired by term."""
        from hb_metrics.measurements.offensiveness.run_changes import offensiveness_changes

        return offensiveness_changes(first, second)

    def warnings(self, changed: set[str], runs: Sequence[Mapping[str, Any]]) -> list[str]:
        """Warns of different classifiers."""
        if changed & {"offensiveness_classifier.digest", "offensiveness_classifier.version"}:
            return ["Offensiveness was classified by different classifiers. Its figures do not compare."]
        return []


OFFENSIVENESS = Offensiveness()
