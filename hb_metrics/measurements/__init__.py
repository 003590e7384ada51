"""What can be measured. The entries below are the only list of measurements there is."""

from hb_metrics.measurements.dialogue import DIALOGUE
from hb_metrics.measurements.generation import GENERATION
from hb_metrics.measurements.likelihood import LIKELIHOOD
from hb_metrics.measurements.measurement import Measurement
from hb_metrics.measurements.offensiveness import OFFENSIVENESS
from hb_metrics.measurements.reddit import REDDIT
from hb_metrics.measurements.regard import REGARD
from hb_metrics.measurements.robustness import ROBUSTNESS

# In this order they are measured, and shown in a report. One comes after those that it starts from.
MEASUREMENTS: list[Measurement] = [
    LIKELIHOOD,
    GENERATION,
    OFFENSIVENESS,
    ROBUSTNESS,
    DIALOGUE,
    REDDIT,
    REGARD,
]
