from math import log

import pytest

from hb_metrics.reply_checks.first_tokens import option_masses


@pytest.mark.parametrize(
    ("options", "tokens", "expected"),
    [
        (("yes", "no"), {"Yes": 0.5, " yes": 0.2, "▁No": 0.1, "Well": 0.2}, {"yes": 0.7, "no": 0.1}),
        (("approve", "reject"), {"app": 0.6, "rej": 0.3, "I": 0.1}, {"approve": 0.6, "reject": 0.3}),
        (("yes", "no"), {"Yes": 0.999, "yes": 0.0009}, {"yes": 0.9999, "no": 0.0}),  # at most 0.0001 is unlisted
        (("yes", "no"), {"Yes": 0.9, "Well": 0.05}, None),  # "no" may be as likely as 0.05
        (("no", "not sure", "yes"), {"No": 0.6, "not": 0.1, "yes": 0.2}, None),  # "No" begins two options
        (("yes", "no"), {"I": 0.9, "Well": 0.1}, None),
        (("yes", "no"), {"": 0.9, "Yes": 0.05, "no": 0.05}, {"yes": 0.05, "no": 0.05}),
        (("yes", "no"), {"Y": 0.5, "no": 0.4}, None),  # "Y" may begin another word
        (("1", "2"), {"1": 0.5, "2": 0.25}, {"1": 0.5, "2": 0.25}),
        (("yes", "no"), {}, None),
    ],
)
def test_first_tokens_show_options_or_nothing_is_read(options, tokens, expected):
    found = option_masses([(token, log(value)) for token, value in tokens.items()], options)
    assert found == (None if expected is None else pytest.approx(expected))
