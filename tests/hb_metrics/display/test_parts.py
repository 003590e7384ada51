"""How figures are written: each form, its intervals and its changes."""

import pytest
from hb_metrics.display.parts import Figure, pair, written, written_change, written_interval


@pytest.mark.parametrize(
    ("form", "value", "text", "bounds", "interval", "change"),
    [
        ("share", 0.8472, "84.7%", (0.8, 0.9), "80.0% to 90.0%", "+84.7"),
        ("small_share", 0.00519, "0.52%", (0.0, 0.01), "0.00% to 1.00%", "+0.52"),
        ("bias", 9.716, "9.72", (-0.5, 12.25), "−0.5 to 12.2", "+9.72"),
        ("bias", 1234.5, "1,234", (999.0, 2000.4), "999 to 2,000", "+1,234"),
        ("signed", -0.071, "−0.07", (-0.2, 0.05), "−0.20 to +0.05", "−0.07"),
        ("signed", 0.071, "+0.07", (0.0, 0.1), "0.00 to +0.10", "+0.07"),
        ("effect", 0.431, "0.43", (-0.1, 0.9), "−0.10 to 0.90", "+0.43"),
    ],
)
def test_each_form_is_written_in_its_way(form, value, text, bounds, interval, change):
    figure = Figure("name", value, form, "meaning", bounds, 0.95)

    assert (figure.shown, figure.shown_interval) == (text, interval)
    assert written_interval(bounds, form) == interval
    assert written_change(value, form) == change


@pytest.mark.parametrize("form", ["share", "small_share", "bias", "signed", "effect"])
def test_what_is_not_known_is_a_dash_and_zero_has_no_sign(form):
    assert written(None, form) == written_change(None, form) == "–"
    assert Figure("name", None, form, "meaning").shown_interval is None
    for text in (written(-0.00001, form), written_change(-0.00001, form), written_change(0.0, form)):
        assert text.rstrip("%").strip("0.") == ""


def test_an_interval_of_results_is_a_pair():
    assert pair([1.0, 2.0]) == (1.0, 2.0)
    assert pair(None) is None
