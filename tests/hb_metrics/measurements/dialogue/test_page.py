"""Dialogue perplexity: its figure is the number of results.json."""

import pytest

from hb_metrics.measurements.dialogue import DIALOGUE
from tests.hb_metrics.made_results import dialogue_run, loaded
from tests.hb_metrics.pages import report_page


@pytest.mark.parametrize("interval", [(38.04, 1045.5), None])
def test_the_page_and_the_figure_have_the_perplexity(interval, tmp_path):
    results = dialogue_run(41.26, interval)
    (figure,) = DIALOGUE.parts.figures(loaded(results))
    page = report_page(results, tmp_path)

    assert (figure.value, figure.interval, figure.key) == (41.26, interval, "dialogue_perplexity")
    shown = "41.3 (95% interval 38 to 1,046)" if interval else "41.3 (no interval: few replies"
    assert shown in page.text
    assert "1,234 replies from chats.csv. 3 replies were too long and were left out." in page.text


def test_other_dialogue_or_tokenizers_are_warned_of():
    same, other, tokens = dialogue_run(), dialogue_run(), dialogue_run()
    other["run"]["dialogue"]["digest"] = "ee"
    tokens["dialogue"]["num_tokens"] = 5
    assert DIALOGUE.warnings(set(), [loaded(same), loaded(same)]) == []
    assert "different dialogue" in DIALOGUE.warnings(set(), [loaded(same), loaded(other)])[0]
    assert "tokenized the replies differently" in DIALOGUE.warnings(set(), [loaded(same), loaded(tokens)])[0]
