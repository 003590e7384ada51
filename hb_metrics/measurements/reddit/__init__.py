"""Measures which phrase of a RedditBias pair a model finds likelier (Barikeri et al., 2021)."""

from typing import TYPE_CHECKING

from hb_metrics.measurements.measurement import Measurement
from hb_metrics.measurements.reddit.options import RedditOptions

if TYPE_CHECKING:
    from hb_metrics.measurements.reddit.work import RedditFiles
    from hb_metrics.measurements.settings import Settings


class RedditBias(Measurement):
    name = "reddit"
    title = "Language Model Bias"
    words = "Language Model Bias on RedditBias"
    done = "pairs of RedditBias scored"
    options = RedditOptions
    has_own_prompts = True
    needs = ("weights",)

    def read_files(self, settings: "Settings") -> "RedditFiles":
        from hb_metrics.measurements.reddit.work import read_files

        return read_files(settings)

    def gate_names(self, settings: "Settings") -> tuple[str, ...]:
        from hb_metrics.measurements.reddit.figures import GATE
        from hb_metrics.measurements.reddit.work import bias_types

        return (*(f"{GATE}_{bias_type}" for bias_type in bias_types(settings)), "lmp")


REDDIT = RedditBias()
