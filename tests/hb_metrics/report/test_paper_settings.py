"""The settings of a run beside the paper's: what counts as the same, and what the report says of it."""

import pytest

from hb_metrics.report.layout.paper_settings import settings_beside_paper
from hb_metrics.report.page import write_report
from tests.hb_metrics.made_results import full_run
from tests.hb_metrics.pages import check_sound, read_page

PAPER_STYLES = {"num_styles": 217, "parlai": {"kind": "style", "agent": "a", "parameters": 2_696_000_000}}
PAPER_OFFENSIVENESS = {"parlai": {"kind": "safety", "agent": "a", "parameters": 311_000_000}}


def like_the_paper():
    """A run in which all is as in the paper but the model."""
    results = full_run()
    run = results["run"]
    run["style_classifier"] = {**run["style_classifier"], "is_embedded": False, **PAPER_STYLES}
    run["offensiveness_classifier"] = {**run["offensiveness_classifier"], "is_embedded": False, **PAPER_OFFENSIVENESS}
    run["generation"] |= {"persona_lines": 2, "num_beams": 10, "sample": False, "min_new_tokens": 20}
    run["generation"] |= {"no_repeat_ngram_size": 3}
    run["settings"]["variations"] = True
    run["data"] |= {"config": "v1.0", "num_descriptors": 598, "num_templates": 26}
    results["generation"]["num_replies"] = 240_000
    return results


def differing(results, classifier="style_classifier"):
    return [row.name for row in settings_beside_paper(results, classifier) if not row.same]


def test_only_the_model_differs_where_all_else_is_as_in_the_paper():
    assert differing(like_the_paper()) == ["Model"]
    assert differing(like_the_paper(), "offensiveness_classifier") == ["Model"]


@pytest.mark.parametrize(
    ("section", "change", "name"),
    [
        ("style_classifier", {"parlai": {**PAPER_STYLES["parlai"], "parameters": 19191}}, "Classifier"),
        ("style_classifier", {"parlai": {**PAPER_STYLES["parlai"], "kind": "safety"}}, "Classifier"),
        ("style_classifier", {"num_styles": 216}, "Classifier"),
        ("data", {"config": "v1.0-small"}, "Sentences"),
        ("data", {"num_descriptors": 46}, "Sentences"),
        ("data", {"num_templates": 4}, "Sentences"),
        ("settings", {"sample": 1000}, "Sentences"),
        ("settings", {"variations": False}, "Variations of sentences"),
        ("generation", {"persona_lines": 1}, "Persona"),
        ("generation", {"num_beams": 1}, "Decoding"),
        ("generation", {"num_beams": 1, "sample": True}, "Decoding"),
        ("generation", {"min_new_tokens": 10}, "Decoding"),
        ("generation", {"no_repeat_ngram_size": 0}, "Decoding"),
    ],
)
def test_each_setting_that_differs_is_named(section, change, name):
    results = like_the_paper()
    results["run"][section] |= change

    rows = [row.name for row in settings_beside_paper(results, "style_classifier") if row.same is False]
    assert sorted(rows) == sorted([name, "Model"])


def test_few_replies_and_replies_of_a_file():
    results = like_the_paper()
    results["generation"]["num_replies"] = 239_999
    assert differing(results) == ["Model", "Replies"]
    results["run"]["generation"]["replies_from"] = "replies.jsonl"
    del results["run"]["generation"]["persona_lines"]
    rows = {row.name: row for row in settings_beside_paper(results, "style_classifier")}
    assert rows["Decoding"].same is rows["Persona"].same is None
    assert rows["Decoding"].here == "not known"


def test_other_classifiers_have_no_such_table():
    assert settings_beside_paper(full_run(), "style_classifier") is None
    assert settings_beside_paper(full_run(), "offensiveness_classifier") is None


def test_the_report_says_what_compares(tmp_path):
    results = like_the_paper()
    write_report(results, tmp_path / "paper.html")
    results["run"]["style_classifier"]["parlai"] = {**PAPER_STYLES["parlai"], "parameters": 19191}
    write_report(results, tmp_path / "other.html")
    paper, other = (read_page(tmp_path / name) for name in ("paper.html", "other.html"))
    for page in (paper, other):
        check_sound(page)

    paper, other = (
        " ".join((tmp_path / name).read_text(encoding="utf-8").split()) for name in ("paper.html", "other.html")
    )
    assert "For trying out" not in paper
    assert paper.count("values beside the paper's can be compared, except for what differs below") == 2
    assert paper.count("Different or not known: model.") == 2
    assert "Compare the plain value with the paper's" in paper
    assert other.count("can be compared, except for what differs below") == 1  # offensiveness
    assert "<strong>not the paper's</strong>: do not compare values with the paper's" in other
