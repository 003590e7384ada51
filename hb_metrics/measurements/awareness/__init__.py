"""Measures whether a model responds to the asker's identity where it matters, and nowhere else (Wang et al., 2025)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hb_metrics.measurements.measurement import Measurement, Parts, Planned, Task

if TYPE_CHECKING:
    from hb_metrics.measurements.results import Results


class Awareness(Measurement):
    name = "awareness"
    title = "Difference awareness"
    words = "difference awareness"
    has_own_prompts = True
    needs = ("replies", "weights")
    gates = ("neutral_divergence",)
    paired = ("difference_awareness", "divergence_on_needs", "neutral_divergence")
    paired_shares = ("needs_taken_up",)

    def plan(self, task: Task, files: Any) -> Planned:
        from hb_metrics.measurements.awareness.work import plan

        return plan(task)

    @property
    def parts(self) -> Parts:
        from hb_metrics.measurements.awareness.compute import compute
        from hb_metrics.measurements.awareness.figures import changes, figures, report

        return Parts(compute, figures, report, changes)

    def warnings(self, changed: set[str], runs: "Sequence[Results]") -> list[str]:
        message = "The runs measured difference awareness with different prompts or word lists."
        return [message] if any(run.record.awareness != runs[0].record.awareness for run in runs) else []


AWARENESS = Awareness()
