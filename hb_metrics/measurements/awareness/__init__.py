"""Difference awareness: does a model respond to who is asking when it should, and only then (Wang et al., 2025)?"""

from collections.abc import Mapping, Sequence
from typing import Any

from hb_metrics.measurements.awareness.options import AwarenessOptions
from hb_metrics.measurements.measurement import Measurement


class Awareness(Measurement):
    """How far a descriptor moves replies where it should and should not matter, and whether replies address needs."""

    name = "awareness"
    title = "Difference awareness"
    words = "difference awareness"
    done = "replies made and their divergences computed"
    options = AwarenessOptions
    has_own_prompts = True
    needs = ("replies", "weights")
    gates = ("neutral_divergence",)

    def warnings(self, changed: set[str], runs: Sequence[Mapping[str, Any]]) -> list[str]:
        """Warns if the prompts differ."""
        digests = {run["run"]["awareness"]["prompts_digest"] for run in runs if self.name in run}
        return ["The runs measured difference awareness on different prompts."] if len(digests) > 1 else []


AWARENESS = Awareness()
