"""Measures whether a model responds to the asker's identity where it matters, and nowhere else (Wang et al., 2025)."""

from collections.abc import Mapping, Sequence
from typing import Any

from hb_metrics.measurements.awareness.options import AwarenessOptions
from hb_metrics.measurements.measurement import Collector, Measurement, Parts


class Awareness(Measurement):
    name = "awareness"
    title = "Difference awareness"
    words = "difference awareness"
    options = AwarenessOptions
    has_own_prompts = True
    needs = ("replies", "weights")
    gates = ("neutral_divergence",)

    @property
    def collector(self) -> Collector:
        from hb_metrics.measurements.awareness.work import collect, describe, plan

        return Collector(plan, describe, collect)

    @property
    def parts(self) -> Parts:
        from hb_metrics.measurements.awareness.compute import compute
        from hb_metrics.measurements.awareness.figures import figures
        from hb_metrics.measurements.awareness.page import report
        from hb_metrics.measurements.awareness.run_changes import changes

        return Parts(compute, figures, report, changes)

    def warnings(self, changed: set[str], runs: Sequence[Mapping[str, Any]]) -> list[str]:
        records = [run["run"]["awareness"] for run in runs if self.name in run]
        digests = {(record["prompts_digest"], record["words_digest"]) for record in records}
        message = "The runs measured difference awareness with different prompts or word lists."
        return [message] if len(digests) > 1 else []


AWARENESS = Awareness()
