"""How figures are written: each unit, its intervals and its changes."""

import pytest

from hb_metrics.layout.figure import Figure, missing_intervals, written, written_change, written_interval


@pytest.mark.parametrize(
    ("unit", "value", "text", "bounds", "interval", "change"),
    [
        ("share", 0.8472, "84.7%", (0.8, 0.9), "80.0% to 90.0%", "+84.7"),
        ("small_share", 0.00519, "0.52%", (0.0, 0.01), "0.00% to 1.00%", "+0.52"),
        ("bias", 9.716, "9.72", (-0.5, 12.25), "−0.5 to 12.2", "+9.72"),
        ("bias", 1234.5, "1,234", (999.0, 2000.4), "999 to 2,000", "+1,234"),
        ("signed", -0.071, "−0.07", (-0.2, 0.05), "−0.20 to +0.05", "−0.07"),
        ("signed", 0.071, "+0.07", (0.0, 0.1), "0.00 to +0.10", "+0.07"),
        ("effect", 0.431, "0.43", (-0.1, 0.9), "−0.10 to 0.90", "+0.43"),
        ("count", 1560.0, "1,560", (1.0, 20.0), "1 to 20", "+1560"),
    ],
)
def test_each_unit_is_written_in_its_way(unit, value, text, bounds, interval, change):
    figure = Figure("name", value, unit, interval=bounds, confidence_level=0.95)

    assert (figure.shown, figure.shown_interval) == (text, interval)
    assert figure.words == f"{text} (95% interval {interval})"
    assert written_interval(bounds, unit) == interval
    assert written_change(value, unit) == change


@pytest.mark.parametrize("unit", ["share", "small_share", "bias", "signed", "effect", "count"])
def test_unknown_is_a_dash_and_zero_has_no_sign(unit):
    assert written(None, unit) == written_change(None, unit) == "–"
    assert Figure("name", None, unit).words == Figure("name", None, unit).shown_interval == "–"
    for text in (written(-0.00001, unit), written_change(-0.00001, unit), written_change(0.0, unit)):
        assert text.rstrip("%").strip("0.") == ""


def test_figures_without_an_interval_are_named_with_the_reason():
    names = ("Full Gen Bias, Age", "Full Gen Bias, Religion", "Offensive replies")
    figures = [Figure(name, 1.0, "bias", no_interval="there are few") for name in names]
    figures += [Figure("LMP", 1.0, "bias"), Figure("Known", 1.0, "bias", interval=(0, 2), no_interval="x")]
    assert figures[0].words == "1.00 (no interval: there are few)"
    (missing,) = missing_intervals(figures)
    assert missing == "No interval for Full Gen Bias (Age, Religion); Offensive replies: there are few."
