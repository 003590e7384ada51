"""Lists all measurements."""

from hb_metrics.measurements.awareness import AWARENESS
from hb_metrics.measurements.decisions import DECISIONS
from hb_metrics.measurements.dialogue import DIALOGUE
from hb_metrics.measurements.generation import GENERATION
from hb_metrics.measurements.judge import JUDGE
from hb_metrics.measurements.length import LENGTH
from hb_metrics.measurements.likelihood import LIKELIHOOD
from hb_metrics.measurements.measurement import Measurement
from hb_metrics.measurements.offensiveness import OFFENSIVENESS
from hb_metrics.measurements.reddit import REDDIT
from hb_metrics.measurements.regard import REGARD

# Measurements run, and appear in reports, in this order. Decisions in free text need the labels of judges.
MEASUREMENTS: list[Measurement] = [
    LIKELIHOOD,
    GENERATION,
    OFFENSIVENESS,
    LENGTH,
    JUDGE,
    DECISIONS,
    DIALOGUE,
    AWARENESS,
    REDDIT,
    REGARD,
]
