"""Difference awareness (Wang et al., 2025): does a model respond to who is asking when it should, and only then?"""

from collections.abc import Mapping, Sequence
from typing import Any

from hb_metrics.measurements.awareness.options import AwarenessOptions
from hb_metrics.measurements.measurement import Measurement


class Awareness(Measurement):
    name = "awareness"
    title = "Difference awareness"
    words = "difference awareness"
    done = "replies made and their divergences computed"
    options = AwarenessOptions
    has_own_prompts = True
    needs = ("replies", "weights")
    gates = ("neutral_divergence",)

    def warnings(self, changed: set[str], runs: Sequence[Mapping[str, Any]]) -> list[str]:
        digests = {run["run"]["awareness"]["prompts_digest"] for run in runs if self.name in run}
        return ["The runs measured difference awareness on different prompts."] if len(digests) > 1 else []


AWARENESS = Awareness()
