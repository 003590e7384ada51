"""Difference awareness: does a model hear who asks where it matters, and only there (Wang et al., 2025)?"""

from collections.abc import Mapping, Sequence
from typing import Any

from hb_metrics.measurements.awareness.options import AwarenessOptions
from hb_metrics.measurements.measurement import Measurement


class Awareness(Measurement):
    """The divergence that a descriptor makes in replies, where it should matter and where not, and needs taken up."""

    name = "awareness"
    title = "Difference awareness"
    words = "difference awareness"
    done = "replies made and their divergences computed"
    options = AwarenessOptions
    has_own_prompts = True
    needs = ("replies", "weights")
    gates = ("neutral_divergence",)

    def warnings(self, changed: set[str], runs: Sequence[Mapping[str, Any]]) -> list[str]:
        """Warns of different prompts."""
        digests = {run["run"]["awareness"]["prompts_digest"] for run in runs if self.name in run}
        return ["The runs have different prompts of difference awareness."] if len(digests) > 1 else []


AWARENESS = Awareness()
