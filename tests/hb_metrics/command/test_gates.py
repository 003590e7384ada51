"""Limits of figures: how they are read, judged by hand-made figures, and what they end a run with."""

import pytest

from hb_metrics.command.arguments import settings_of
from hb_metrics.command.gates import check_gates, exceeded, read_gates
from hb_metrics.layout.figure import Figure
from hb_metrics.measurements import MEASUREMENTS


class OneFigure:
    def __init__(self, value, interval=None, reason=None, form="bias"):
        figure = Figure("One", value, form, "", interval, reason, gate="one_figure")
        self.figures = lambda results: [figure]


@pytest.mark.parametrize(
    ("value", "interval", "limit", "expected"),
    [
        (1.0, None, 1.0, []),
        (1.5, None, 1.0, ["one_figure is above its limit 1: its value is 1.5, and it has no interval"]),
        (1.0, (0.5, 2.0), 2.0, []),
        (
            1.0,
            (0.5, 2.5),
            2.0,
            ["one_figure may be above its limit 2: its value is 1, but its interval reaches from 0.5 to 2.5"],
        ),
        (-3.0, None, -2.0, []),
        (
            -3.0,
            (-9.0, 2.5),
            2.0,
            ["one_figure may be above its limit 2: its value is -3, but its interval reaches from -9 to 2.5"],
        ),
        (None, None, 100.0, ["one_figure cannot be judged against its limit 100: this run has no value for it"]),
        (float("nan"), None, 1.0, ["one_figure cannot be judged against its limit 1: this run has no value for it"]),
    ],
)
def test_the_upper_end_counts_and_what_has_no_value_fails(value, interval, limit, expected):
    measurement = OneFigure(value, interval)
    assert exceeded(None, [measurement], {"one_figure": limit}) == expected


@pytest.mark.parametrize(
    ("value", "interval", "verb"),
    [
        (-0.5, (-0.7, -0.3), "is"),
        (-0.05, (-0.2, 0.1), None),
        (0.2, (0.1, 0.4), "may be"),
        (-0.2, (-0.4, 0.1), "may be"),
        (-0.5, None, "is"),
    ],
)
def test_a_gap_is_limited_in_both_directions(value, interval, verb):
    sentences = exceeded(None, [OneFigure(value, interval, form="signed")], {"one_figure": 0.25})
    verbs = [sentence.removeprefix("one_figure ").partition(" above")[0] for sentence in sentences]
    assert verbs == ([] if verb is None else [verb])


def test_a_figure_without_the_interval_that_it_should_have_fails():
    (sentence,) = exceeded(None, [OneFigure(0.5, None, "few replies")], {"one_figure": 100})
    assert sentence.endswith("limit 100: its value is 0.5 (no interval: few replies)")


@pytest.mark.parametrize("form", ["share", "small_share"])
def test_a_limit_that_no_share_can_be_above_is_no_gate(form):
    (sentence,) = exceeded(None, [OneFigure(0.01, form=form)], {"one_figure": 2})
    assert sentence.endswith("limit 2: the figure is a share, which is never above 1; write 2% as 0.02")
    assert exceeded(None, [OneFigure(0.01, form=form)], {"one_figure": 0.02}) == []


def test_how_limits_are_written():
    assert read_gates(None) == {}
    assert read_gates("full_gen_bias=12, offensive_replies=.02") == {"full_gen_bias": 12, "offensive_replies": 0.02}


@pytest.mark.parametrize("text", ["", "full_gen_bias", "full_gen_bias=", "=1", "a=nan", "a=inf", "a=1,,b=2", "a=1,a=2"])
def test_limits_of_another_form_are_refused(text):
    with pytest.raises(ValueError, match="write each figure once, such as full_gen_bias=12"):
        read_gates(text)


def test_names_differ_and_others_are_refused_with_those_allowed():
    settings = settings_of({"fail_above": "full_gen_bia=1", "bias_type": ["gender"], "reddit_folder": "."})
    names = [name for measurement in MEASUREMENTS for name in measurement.gate_names(settings)]
    assert len(set(names)) == len(names)
    assert {"likelihood_bias", "full_gen_bias", "full_gen_bias_debiased", "offensive_replies", "lmp"} <= {*names}
    with pytest.raises(ValueError, match=r"'full_gen_bia', which .* did you mean 'full_gen_bias'\? allowed: likeli"):
        check_gates(settings, MEASUREMENTS)
