"""Robustness: the dependence of Likelihood Bias and Full Gen Bias on the templates (after Aggarwal et al., 2022)."""

from hb_metrics.measurements.measurement import Measurement


class Robustness(Measurement):
    """The same figures from single templates and from random halves of the templates."""

    name = "robustness"
    title = "Robustness over templates"
    words = "robustness over templates"
    done = "templates compared"
    requires = ("likelihood", "generation")


ROBUSTNESS = Robustness()
