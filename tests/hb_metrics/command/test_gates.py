"""Limits of figures: how they are read, judged by hand-made figures, and what they end a run with."""

from types import SimpleNamespace

import pytest

from hb_metrics.command.arguments import settings_of
from hb_metrics.command.gates import check_gates, exceeded, read_gates
from hb_metrics.layout.figure import Figure
from hb_metrics.measurements import MEASUREMENTS

NO_VALUE = "cannot be judged against its limit 1: this run has no value for it"
NO_INTERVAL = "cannot be judged against its limit 1: its value is 0.5 (no interval: few replies)"
NO_SHARE = "cannot be judged against its limit 2: the figure is a share, which is never above 1; write 2% as 0.02"
NO_END = "is above its limit 1: its value is 1.5, and it has no interval"
HIGH_END = "may be above its limit 2: its value is 1, but its interval reaches from 0.5 to 2.5"


@pytest.mark.parametrize(
    ("value", "interval", "limit", "more", "expected"),
    [
        (1.0, None, 1.0, {}, None),
        (1.5, None, 1.0, {}, NO_END),
        (1.0, (0.5, 2.0), 2.0, {}, None),
        (1.0, (0.5, 2.5), 2.0, {}, HIGH_END),
        (-3.0, None, -2.0, {}, None),
        (-3.0, (-9.0, 2.5), 2.0, {}, "may be above its limit 2"),
        (None, None, 1.0, {}, NO_VALUE),
        (float("nan"), None, 1.0, {}, NO_VALUE),
        (0.5, None, 1.0, {"no_interval": "few replies"}, NO_INTERVAL),
        (-0.5, (-0.7, -0.3), 0.25, {"unit": "signed"}, "is above"),  # a gap is limited in both directions
        (-0.05, (-0.2, 0.1), 0.25, {"unit": "signed"}, None),
        (0.2, (0.1, 0.4), 0.25, {"unit": "signed"}, "may be above"),
        (-0.2, (-0.4, 0.1), 0.25, {"unit": "signed"}, "may be above"),
        (-0.5, None, 0.25, {"unit": "signed"}, "is above"),
        (0.01, None, 2, {"unit": "share"}, NO_SHARE),
        (0.01, None, 2, {"unit": "small_share"}, NO_SHARE),
        (0.01, None, 0.02, {"unit": "small_share"}, None),
    ],
)
def test_the_end_far_from_0_counts_and_what_has_no_value_fails(value, interval, limit, more, expected):
    figure = Figure(**{"name": "One", "value": value, "unit": "bias", "interval": interval, "gate": "figure", **more})
    sentences = exceeded(None, [SimpleNamespace(figures=lambda results: [figure])], {"figure": limit})
    assert len(sentences) == (expected is not None)
    assert all(sentence.startswith(f"figure {expected}") for sentence in sentences)


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
