"""Dialogue perplexity in the report of a run, and when two of them do not compare."""

import pytest

from hb_metrics.measurements import DIALOGUE
from hb_metrics.report.page import write_report
from tests.hb_metrics.made_results import add_dialogue, dialogue_run, full_run
from tests.hb_metrics.pages import check_sound, read_page


def page_of(results, folder):
    write_report(results, folder / "report.html")
    page = read_page(folder / "report.html")
    check_sound(page)
    return page


def test_it_is_a_tile_and_a_section_of_its_own(tmp_path):
    results = add_dialogue(full_run())
    results["run"]["generation"]["tag"] = "no_bias"

    page = page_of(results, tmp_path)

    assert page.tiles["dialogue perplexity"] == ["41.3", "95% interval 38 to 1,046"]
    assert "41.3 (95% interval 38 to 1,046): the perplexity, per token, of what real people replied" in page.text
    assert "in the context format of the prompts and with their tag. The lower," in page.text
    assert "1,234 replies from chats.csv; 3 were too long and left out." in page.text


def test_alone_and_without_an_interval_it_says_nothing_of_bias(tmp_path):
    page = page_of(dialogue_run(interval=None), tmp_path)

    assert page.tiles == {"dialogue perplexity": ["41.3"]}
    assert "41.3: the perplexity, per token" in page.text
    assert "context format of the prompts. The lower," in page.text
    assert DIALOGUE.report(dialogue_run()).answer is None


def test_its_figure_names_the_replies_and_not_where_they_lie():
    results = dialogue_run()
    results["dialogue"]["source"] = "/home/me/chats.csv"
    (figure,) = DIALOGUE.figures(results)

    assert (figure.shown, figure.shown_interval, figure.confidence_level) == ("41.3", "38 to 1,046", 0.95)
    assert "(1,234 replies of chats.csv)" in figure.meaning
    assert "/home" not in figure.meaning
    assert DIALOGUE.summary(results) == ["Dialogue perplexity  41.26"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({}, None),
        ({"digest": "ee"}, "on different replies"),
        ({"num_replies": 87}, "on different replies"),
        ({"num_tokens": 800}, "different numbers of tokens"),
    ],
)
def test_perplexities_of_other_replies_or_tokens_do_not_compare(change, words):
    measured = {"digest": "dd", "num_replies": 88, "num_tokens": 900}
    runs = [{"dialogue": part, "run": {"dialogue": part}} for part in (measured, measured | change)]

    warnings = DIALOGUE.warnings(set(), [*runs, {"run": {}}])

    assert [words in warning for warning in warnings] == ([] if words is None else [True])
