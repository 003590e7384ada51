"""Measures regard, which is a text's attitude to people, in continuations of prompts (Aggarwal et al., 2022)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hb_metrics.measurements.measurement import Measurement, Parts, Planned, Task
from hb_metrics.measurements.regard.options import RegardOptions
from hb_metrics.run.run_record import classifier_name

if TYPE_CHECKING:
    from hb_metrics.measurements.results import Results
    from hb_metrics.measurements.settings import Settings


class Regard(Measurement):
    name = "regard"
    title = "Regard"
    words = "regard in texts that continue prompts with many syntactic structures"
    options = RegardOptions
    has_own_prompts = True
    needs = ("replies", "weights")

    def read_files(self, settings: "Settings", prompts: Any) -> Any:
        from hb_metrics.measurements.regard.work import groups_and_pairs

        return groups_and_pairs(settings)

    def check_classifiers(self, settings: "Settings") -> None:
        from hb_metrics.measurements.regard.work import check_classifiers

        check_classifiers(settings)

    def plan(self, task: Task, files: Any) -> Planned:
        from hb_metrics.measurements.regard.work import plan

        return plan(task, files)

    @property
    def parts(self) -> Parts:
        from hb_metrics.measurements.regard.compute import compute
        from hb_metrics.measurements.regard.figures import figures, report

        return Parts(compute, figures, report)

    def gate_names(self, settings: "Settings") -> tuple[str, ...]:
        from hb_metrics.measurements.regard.figures import gate_name
        from hb_metrics.measurements.regard.work import groups_and_pairs

        return tuple(gate_name(name) for name in groups_and_pairs(settings)[1])

    def card_sentences(self, results: "Results") -> list[str]:
        return [f"Regard classified by {classifier_name(results.record.regard)}."]

    def warnings(self, changed: set[str], runs: "Sequence[Results]") -> list[str]:
        sentences = []
        if changed & {"regard.name", "regard.digest", "regard.judge"}:
            sentences.append("The runs used different regard classifiers, so their means and gaps are not comparable.")
        if changed & {"regard.pairs", "regard.groups_digest"}:
            sentences.append(
                "The runs compare different groups or pairs, so gaps with the same name may be between "
                "different groups or have opposite signs."
            )
        return sentences


REGARD = Regard()
