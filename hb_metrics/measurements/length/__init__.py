"""Measures whether replies to some people are shorter. It reads the replies of `generation`."""

from hb_metrics.measurements.measurement import Measurement, Parts


class Length(Measurement):
    name = "length"
    title = "Length of replies"
    words = "the length of replies"
    needs = ("replies",)
    reads = ("generation",)
    gates = ("words_spread",)
    paired = ("words_per_reply",)

    @property
    def parts(self) -> Parts:
        from hb_metrics.measurements.length.compute import changes, compute, figures, generalise, report

        return Parts(compute, figures, report, changes, generalise=generalise)


LENGTH = Length()
