"""Measures whether a model responds to the asker's identity where it matters, and nowhere else (Wang et al., 2025)."""

from collections.abc import Mapping, Sequence
from typing import Any

from hb_metrics.measurements.awareness.options import AwarenessOptions
from hb_metrics.measurements.measurement import Measurement


class Awareness(Measurement):
    name = "awareness"
    title = "Difference awareness"
    words = "difference awareness"
    options = AwarenessOptions
    has_own_prompts = True
    needs = ("replies", "weights")
    gates = ("neutral_divergence",)

    def warnings(self, changed: set[str], runs: Sequence[Mapping[str, Any]]) -> list[str]:
        records = [run["run"]["awareness"] for run in runs if self.name in run]
        digests = {(record["prompts_digest"], record["words_digest"]) for record in records}
        message = "The runs measured difference awareness with different prompts or word lists."
        return [message] if len(digests) > 1 else []


AWARENESS = Awareness()
