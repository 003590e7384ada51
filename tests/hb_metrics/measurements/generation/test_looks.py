"""Runs that stop when a question is answered: which replies they make, and that no kill changes a byte."""

import json
import signal
from collections import Counter

import pyarrow as pa
import pytest

from hb_metrics.arguments import settings_of
from hb_metrics.inference.replies.requests import make_requests
from hb_metrics.inference.served.probe import QUESTIONS
from hb_metrics.measurements import MEASUREMENTS
from hb_metrics.measurements.generation import GENERATION
from hb_metrics.measurements.generation.looks import look_sizes, plan_looks
from hb_metrics.runs.finished_run import read_stored_replies, read_vectors
from hb_metrics.runs.gates import check_gates, read_until, until_sentence
from tests.hb_metrics.conftest import write_vocabulary
from tests.hb_metrics.inference.served.stand_in import MODEL, StandIn, serving
from tests.hb_metrics.run_files import check_same, identities
from tests.hb_metrics.runs_here import measure_here, refusal

NOUNS = ("kid", "parent", "sibling", "friend", "guy", "dad", "mom", "son", "pal", "boy")


@pytest.fixture(scope="module")
def options(tmp_path_factory, saved_llama):
    vocabulary = write_vocabulary(tmp_path_factory.mktemp("looks") / "vocabulary", nouns=NOUNS)
    chosen = ["--measurements", "generation", "--replies_per_cell", 10, "--max_new_tokens", 8]
    return list(map(str, ["--model", saved_llama, "--vocabulary_dir", vocabulary, *chosen]))


def test_a_run_stops_at_the_look_that_answers(options, tmp_path):
    folder = tmp_path / "stopped"
    printed = measure_here(*options, "--until", "half_width(full_gen_bias)<1e6", "--output_dir", folder)
    results = json.loads((folder / "results.json").read_text())
    generation = results["generation"]
    assert results["run"]["generation"]["looks"] == [4, 5, 7, 10]
    assert generation["gen_bias"]["max_replies_per_cell"] == 4
    until = generation["until"]
    assert (until["answer"], until["look"], until["num_looks"], until["share"]) == (True, 1, 4, 0.4)
    assert until_sentence(until) in (folder / "report.html").read_text().replace("&#39;", "'")
    assert "look 1 of 4: Full Gen Bias" in printed
    assert until_sentence(until) in GENERATION.figures(results)[0].notes
    # The folder is that of a run with as many replies.
    plain = tmp_path / "plain"
    measure_here(*options, "--replies_per_cell", 4, "--output_dir", plain)
    assert read_stored_replies(folder) == read_stored_replies(plain)
    vectors, of_plain = (read_vectors(each / "style_probabilities").values for each in (folder, plain))
    assert (vectors == of_plain).all()
    expected = json.loads((plain / "results.json").read_text())["generation"]
    assert {**generation, "until": None} == {**expected, "until": None}


def test_a_served_run_asks_for_no_more_than_a_look_needs(options, tmp_path):
    stand_in = StandIn()
    with serving(stand_in) as url:
        served = ["--model", MODEL, "--base_url", url, "--until", "half_width(full_gen_bias)<1e6"]
        measure_here(*options[2:], *served, "--output_dir", tmp_path / "run")
    generation = json.loads((tmp_path / "run" / "results.json").read_text())["generation"]
    assert generation["until"]["answer"]
    bodies = [body for path, body, _ in stand_in.requests if path.endswith("chat/completions")]
    assert sum(body["messages"][-1]["content"] not in QUESTIONS for body in bodies) == generation["num_prompts"] == 56


def test_a_killed_run_ends_in_the_same_bytes(options, forked_programs, tmp_path):
    def start(folder, processes, writes=None):
        asked = [*options, "--replies_per_cell", "5", "--until", "full_gen_bias<1e-3", "--output_dir", str(folder)]
        arguments = [[asked, writes]] * processes
        started, log = forked_programs.start("tests.hb_metrics.stoppable_run:main", *arguments)
        return set(forked_programs.wait(started)), log.read_text()

    whole, killed = tmp_path / "whole", tmp_path / "killed"
    codes, printed = start(whole, 1)
    assert codes == {3}, printed
    assert "look 2 of 2" in printed
    assert start(killed, 1, writes=9)[0] == {-signal.SIGKILL}
    there = identities(killed)
    assert {path.parts[-3] for path in there} == {"1", "2"}
    codes, printed = start(killed, 2)
    assert 3 in codes, printed
    check_same(whole, killed, there)


def test_looks_grow_and_one_look_is_refused():
    assert look_sizes(40) == [7, 10, 14, 19, 28, 40]
    assert look_sizes(5) == [4, 5]
    for number in (1, 4):
        with pytest.raises(ValueError, match="at least 5 replies per term and template"):
            look_sizes(number)


def planned(sizes, cue="prompt", num_questions=0):
    """The looks at cells of these sizes, and the ids, cells and questions of the rows."""
    rows = []
    for cell, size in enumerate(sizes):
        row = {"axis": "a", "descriptor": f"d{cell}", "template": "t", "text": "I'm."}
        rows += [{**row, "id": f"{cell}-{number}"} for number in range(size)]
    prompts = pa.Table.from_pylist(rows)
    questions = [f"Question {number}?" for number in range(num_questions)]
    requests = make_requests(prompts, decoding=None, cue=cue, questions=questions)
    return plan_looks("full_gen_bias<1", prompts, requests), [row["descriptor"] for row in rows], requests.questions


def test_each_look_after_a_cue_has_replies_to_each_question():
    looks, cells, questions = planned([30] * 3, "system", 3)
    assert looks.sizes == look_sizes(10)
    assert sorted(row for rows in looks.rows for row in rows) == list(range(90))
    seen = Counter()
    for size, rows in zip(looks.sizes, looks.rows, strict=True):
        seen.update((cells[row], questions[row]) for row in rows)
        assert set(seen.values()) == {size}
    assert len(seen) == 9
    with pytest.raises(ValueError, match=r"per term, template and question.* there are only 4; .* to 320 or more"):
        planned([16] * 3, "system", 20)


def test_a_large_cell_does_not_make_the_first_look_that_of_all():
    looks, cells, _ = planned([10] * 5 + [400])
    assert looks.sizes == look_sizes(10)
    assert Counter(cells[row] for row in looks.rows[0]) == {f"d{cell}": 4 for cell in range(6)}
    assert sorted(row for rows in looks.rows for row in rows) == list(range(450))


@pytest.mark.parametrize("text", ["full_gen_bias", "full_gen_bias<", "full_gen_bias<0", "full_gen_bias=3", "x<1"])
def test_questions_of_another_form_are_refused(text):
    with pytest.raises(ValueError, match="write, for example, 'full_gen_bias<12'"):
        read_until(text)


def test_runs_without_replies_to_make_are_refused(tmp_path):
    settings = settings_of({"until": "full_gen_bias<1"})
    with pytest.raises(ValueError, match="does not measure generation"):
        check_gates(settings, [each for each in MEASUREMENTS if each.name == "likelihood"])
    (tmp_path / "replies.csv").write_text("id,reply\n")
    assert "omit --until" in refusal("--replies_file", tmp_path / "replies.csv", "--until", "full_gen_bias<1")
    assert "omit --until" in refusal("--replies_per_cell", 4, "--until", "full_gen_bias<1")
