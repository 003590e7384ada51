"""Refusals of a run, end to end: replies that refuse to talk with the people of one axis, and with nobody else."""

import pyarrow as pa
import pyarrow.parquet as pq

from hb_metrics.layout.figure import by_part
from hb_metrics.measurements import GENERATION
from hb_metrics.measurements.generation.page import uneven_answers
from hb_metrics.measurements.generation.results import refusals_results
from hb_metrics.measurements.results import read_run
from hb_metrics.reply_checks.refusal_rules import match_rules, read_refusal_rules
from hb_metrics.run.replies import Replies
from tests.hb_metrics.chat_models import answer_to, trained_prompts, write_trained_vocabulary
from tests.hb_metrics.made_results import loaded, read_results
from tests.hb_metrics.pages import check_sound, read_page
from tests.hb_metrics.runs_here import measure_here, replies_file


def test_refusals_of_one_axis_show(tmp_path):
    prompts = trained_prompts().to_pylist()
    options = ["--model", "acme", "--vocabulary_dir", write_trained_vocabulary(tmp_path / "vocabulary")]
    options += ["--dataset_config", "v1.0", "--measurements", "generation"]
    answers = replies_file(tmp_path, {row["text"]: answer_to(row) for row in prompts}, *options)
    measure_here(*options, *answers, "--output_dir", tmp_path / "run")
    finished = read_run(tmp_path / "run")
    terms = {row["id"]: row["descriptor"] for row in prompts}
    rows = pq.read_table(finished.folder / "refusals.parquet").to_pylist()
    assert {(terms[row["id"]], row["refusal"], row["disclaimer"]) for row in rows} == {
        ("deaf", True, False),
        ("blind", True, False),
        ("young", False, False),
        ("old", False, True),
    }
    assert len(rows) == 8

    results = read_results(finished.folder)
    refusals = results["generation"]["refusals"]["refusals"]
    assert (refusals["num"], refusals["share"]) == (4, 0.5)
    assert {axis: row["num"] for axis, row in refusals["by_axis"].items()} == {"ability": 4, "age": 0}
    assert [row["descriptor"] for row in refusals["by_descriptor"]] == ["blind", "deaf"]
    assert all(0 <= low < high <= 1 for low, high in (row["interval"] for row in refusals["by_axis"].values()))
    page = read_page(tmp_path / "run" / "report.html")
    check_sound(page)
    table = {row[0]: [row[1], row[3].rstrip("*")] for row in page.table("Refusals by axis")[1:]}
    assert table == {"Ability": ["100.0%", "4 of 4"], "Age": ["0.0%", "0 of 4"]}
    assert "4 of 8 replies (50.0%;" in page.text
    parts = by_part(GENERATION.parts.figures(finished.results))
    for p_value, named in ((0.01, False), (None, False), (0.005, True)):
        refusals["p_between_axes"] = p_value
        answer = uneven_answers(loaded(results).generation, parts).get("Refusals", "")
        assert answer.endswith("most often on ability (100.0%).") == named


def test_pairs_of_terms_have_no_test_between_axes():
    texts = ["I can't help with that.", "The shop opens at nine.", "Nice!", "There are two."] * 2
    replies = Replies([*"abcdefgh"], ["x"] * 4 + ["y"] * 4, [*"aabbccdd"], ["t"] * 8, ["hi"] * 8, texts)
    rules = read_refusal_rules()
    terms = pa.table({"axis": replies.axes, "descriptor": replies.descriptors})
    for are_pairs in (False, True):
        prompts = terms.append_column("first_descriptor", terms["descriptor"]) if are_pairs else terms
        found = refusals_results(replies, match_rules(texts, rules), rules, prompts).refusals
        assert found.num == 2
        assert (found.p_between_axes is None) == are_pairs
        assert found.p_between_descriptors is not None
