"""Language Model Bias on RedditBias: the likelier side of pairs of phrases (Barikeri et al., 2021)."""

from typing import TYPE_CHECKING

from hb_metrics.measurements.measurement import Measurement
from hb_metrics.measurements.reddit.options import RedditOptions

if TYPE_CHECKING:
    from hb_metrics.measurements.reddit.work import RedditFiles
    from hb_metrics.measurements.settings import Settings


class RedditBias(Measurement):
    """The t of a paired test on the perplexities of both sides of each pair, and language model perplexity (LMP)."""

    name = "reddit"
    title = "Language Model Bias"
    words = "Language Model Bias on RedditBias"
    done = "pairs of RedditBias scored"
    options = RedditOptions
    has_own_prompts = True
    needs = ("weights",)

    def read_files(self, settings: "Settings") -> "RedditFiles":
        """Reads the pairs and the reference texts."""
        from hb_metrics.measurements.reddit.work import read_files

        return read_files(settings)

    def gate_names(self, settings: "Settings") -> tuple[str, ...]:
        """The share of pairs whose stereotyped side is likelier, for each bias type, and LMP."""
        from hb_metrics.measurements.reddit.figures import GATE
        from hb_metrics.measurements.reddit.work import bias_types

        return (*(f"{GATE}_{bias_type}" for bias_type in bias_types(settings)), "lmp")


REDDIT = RedditBias()
