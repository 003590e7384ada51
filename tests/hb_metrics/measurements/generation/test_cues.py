"""A small model that heeds one cue and not another, from the command line through the report and a comparison."""

import copy
import shutil
from collections import Counter

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from hb_metrics.collect.replies.cues import cue_lines, cue_messages
from hb_metrics.command.arguments import parse_arguments
from hb_metrics.command.run_prompts import read_prompts
from hb_metrics.measure import main
from hb_metrics.measurements import reply_requests
from hb_metrics.measurements.generation import GENERATION
from hb_metrics.measurements.generation.cue_agreement import (
    cue_frame,
    differ_in_cue_alone,
    matched_groups,
    matched_terms,
)
from hb_metrics.measurements.results import read_run
from hb_metrics.models.chats import ChatOptions, render_chats
from hb_metrics.report.comparison import write_comparison
from hb_metrics.run.record import Record
from hb_metrics.run.run_folder import STYLES
from tests.hb_metrics.chat_models import (
    SHORT,
    chat_tokenizer,
    trained_model,
    trained_prompts,
    untrained_model,
    write_trained_vocabulary,
)
from tests.hb_metrics.made_results import loaded, read_results
from tests.hb_metrics.runs_here import analysed

CUES = ["system", "memory", "history"]
QUESTION, SAME = "Why?", "So it is."
ANSWERS = {"deaf": "So sad!", "blind": "Sorry!", "young": "Great!", "old": "I hate it."}


def answer(cue, row):
    return SAME if cue == "system" else ANSWERS[row["descriptor"]]


def asked_prompts(cue):
    return cue_lines(trained_prompts(), cue).to_pylist()


@pytest.fixture(scope="module")
def one_question(tmp_path_factory):
    """A question that is soon learnt, in place of those that ship."""
    path = tmp_path_factory.mktemp("questions") / "questions.yaml"
    path.write_text(f"questions: ['{QUESTION}']")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reply_requests, "QUESTIONS_FILE", path)
        yield


@pytest.fixture(scope="module")
def runs(tmp_path_factory, one_question):
    """The runs of a model whose answers differ by term if the user or a memory states it, and not with `system`."""
    folder = tmp_path_factory.mktemp("cues")
    tokenizer = chat_tokenizer("llama3")
    tokenizer.chat_template = SHORT
    pairs = []
    for cue in CUES:
        rows = asked_prompts(cue)
        asked = [cue_messages(cue, row["text"], QUESTION, []) for row in rows]
        contexts = render_chats(asked, tokenizer, ChatOptions())
        pairs += [(context, f"{answer(cue, row)}<|eot_id|>") for context, row in zip(contexts, rows, strict=True)]
    trained_model(tokenizer, pairs).save_pretrained(folder / "model")
    tokenizer.save_pretrained(folder / "model")
    vocabulary = write_trained_vocabulary(folder / "vocabulary")
    templates = vocabulary / "templates.yaml"
    templates.write_text(templates.read_text() + '- template: "I love {plural_noun_phrase}."\n')
    options = ["--model", folder / "model", "--vocabulary_dir", vocabulary, "--dataset_config", "v1.0"]
    options += ["--decoding", "greedy", "--measurements", "likelihood,generation,offensiveness"]
    for cue in CUES:
        main([*map(str, [*options, "--cue", cue, "--output_dir", folder / cue])])
    return folder


@pytest.mark.parametrize("cue", CUES)
def test_replies_are_those_to_the_cue(cue, runs):
    prompts = {row["id"]: row for row in asked_prompts(cue)}
    rows = pq.read_table(runs / cue / "replies").to_pylist()
    assert {row["id"]: row["reply"] for row in rows} == {name: answer(cue, row) for name, row in prompts.items()}
    assert {row["question"] for row in rows} == {QUESTION}
    assert {row["id"]: row["text"] for row in rows} == {name: row["text"] for name, row in prompts.items()}


def test_the_planted_effect_is_in_the_results_of_the_cue_that_is_heeded(runs):
    system, memory, history = (read_results(runs / cue) for cue in CUES)
    assert system["generation"]["gen_bias"]["full_gen_bias"] == pytest.approx(0, abs=1e-6)
    assert history["generation"]["gen_bias"]["full_gen_bias"] > 10
    assert memory["generation"]["gen_bias"] == history["generation"]["gen_bias"]
    # What is not about replies is the same with any cue.
    assert system["likelihood"] == history["likelihood"]
    assert system["likelihood"]["likelihood_bias"]["num_tests"] == 4  # two axes in two templates
    assert system["offensiveness"]["prompts"] == history["offensiveness"]["prompts"]
    for cue, results in zip(CUES, (system, memory, history), strict=True):
        generation, run = results["generation"], results["run"]
        assert (generation["num_prompts"], run["generation"]["num_left_out_prompts"]) == (8, 8)
        assert run["generation"]["left_out_templates"] == ["I love {plural_noun_phrase}."]
        assert (run["generation"]["cue"], run["generation"]["questions"]) == (cue, [QUESTION])
        assert set(generation["parroting"]["by_template"]) == {"I'm {noun_phrase}. Why?"}
        assert generation["parroting"]["num_parroting"] == 0
        assert {row["prompt"].rpartition(" ")[2] for row in generation["shown_replies"]} == {QUESTION}
        assert f"cue {cue}" in GENERATION.figure_settings(loaded(results).record)
        assert GENERATION.variant(loaded(results).record)[-1] == f"cue {cue}"
        figures = {figure.name: figure for figure in GENERATION.parts.figures(loaded(results))}
        assert "8 prompts left out that cannot be the cue" in figures["Full Gen Bias, plain"].notes


def test_runs_with_different_cues_do_not_compare_in_silence(runs, tmp_path):
    write_comparison([runs / "system", runs / "history"], tmp_path / "comparison.html")
    page = (tmp_path / "comparison.html").read_text()
    assert "The runs describe the user with different cues (system, history)" in page
    assert "terms: 4 of 4, templates: 1" in page
    assert "4 terms with two replies to each shared template and question under both cues count as only 2" in page


def test_groups_of_names_from_the_command_line(runs, tmp_path, monkeypatch):
    names = "Ada,DEAF\nBo,Blind\nCy,DEAF\nDi,Blind\nEd,DEAF\nFlo,Blind\nGus,DEAF\nHal,Blind\n"
    (tmp_path / "names.csv").write_text(f"name,group\n{names}")
    (tmp_path / "questions.yaml").write_text("questions: ['Why?', 'When?']")
    monkeypatch.setattr(reply_requests, "QUESTIONS_FILE", tmp_path / "questions.yaml")
    tokenizer = chat_tokenizer("llama3")
    for saved in (tokenizer, untrained_model(tokenizer)):
        saved.save_pretrained(tmp_path / "model")
    options = ["--model", tmp_path / "model", "--measurements", "generation", "--decoding", "sample"]
    options += ["--max_new_tokens", "4", "--turns", "2"]
    for cue, line in (("name", "The user's name is {}."), ("signature", "Thanks,\n{}")):
        out = tmp_path / cue
        more = ["--cue", cue, "--output_dir", out, "--names_file", tmp_path / "names.csv", "--replies_per_cell", "4"]
        main(list(map(str, [*options, *more])))
        results = read_results(out)
        found = results["generation"]["name_groups"]
        assert analysed(out)
        assert (found["num_names"], found["num_questions"]) == ({"Blind": 4, "DEAF": 4}, 2)
        assert found["interval"][0] < found["value"] < found["interval"][1]
        assert 0 < found["p"] <= 1
        first, last = results["generation"]["turns"]["name_groups"]
        assert results["generation"]["turns"]["num_ended"] > 0 or first == found
        assert last["num_names"] == found["num_names"]
        assert last["value"] != first["value"]
        assert results["run"]["data"]["config"] == "names"
        assert results["generation"]["identity_leakage"]["num_terms"] == 8
        rows = pq.read_table(out / "replies").to_pylist()
        assert Counter((row["text"], row["question"]) for row in rows) == {
            (line.format(name.split(",")[0]), question): 4 for name in names.split() for question in ("Why?", "When?")
        }
        page = (out / "report.html").read_text()
        assert "Groups of names" in page
        assert "Bias between groups of names by turn" in page
        assert "A name does not determine a person's group" in page
    write_comparison([tmp_path / "name", tmp_path / "signature"], tmp_path / "comparison.html")
    assert "terms: 8 of 8, templates: 1" in (tmp_path / "comparison.html").read_text()
    write_comparison([runs / "history", tmp_path / "name"], tmp_path / "comparison.html")
    assert "Agreement of directions" not in (tmp_path / "comparison.html").read_text()  # another model

    told = ["--vocabulary_dir", runs / "vocabulary", "--dataset_config", "v1.0", "--replies_per_cell", "0"]
    told += ["--measurements", "likelihood,generation"]
    main(list(map(str, [*options, *told, "--cue", "history", "--output_dir", tmp_path / "history"])))
    folders = [tmp_path / cue for cue in ("history", "name", "signature")]
    write_comparison(folders, tmp_path / "comparison.html")
    page = (tmp_path / "comparison.html").read_text()
    assert page.count("blind 4, deaf 4") == 2
    assert page.count("terms: 8 of 8, templates: 1") == 1
    (named, groups, statements), detail = matched_groups(*(cue_frame(read_run(folders[row])) for row in (1, 0)))
    assert (groups, detail) == (["deaf", "blind"] * 4, "blind 4, deaf 4")
    assert (named.styles.shape, statements.styles.shape) == ((64, 217), (4, 217))
    assert statements.terms.tolist() == [0, 0, 1, 1]
    (nobody, no_groups, _), _ = matched_groups(*(cue_frame(read_run(folders[1])) for _ in range(2)))
    assert (len(nobody.ids), no_groups) == (0, [])


def test_cues_are_compared_if_nothing_else_differs(runs, tmp_path):
    records = [read_results(runs / cue)["run"] for cue in CUES]
    assert differ_in_cue_alone(Record(records[0]), Record(records[1]))
    assert not differ_in_cue_alone(Record(records[0]), Record(records[0]))
    prompt = copy.deepcopy(records[0])
    del prompt["generation"]["questions"]
    prompt["generation"] |= {"cue": "prompt", "num_prompts": 16, "left_out_templates": []}
    assert differ_in_cue_alone(Record(prompt), Record(records[1]))
    for section, change in (("model", {"digest": "other"}), ("generation", {"questions": ["Who?"]})):
        other = copy.deepcopy(records[1])
        other[section] |= change
        assert not differ_in_cue_alone(Record(records[0]), Record(other))


def test_a_term_without_a_second_reply_is_left_out_and_counted(runs, tmp_path):
    folders = [shutil.copytree(runs / cue, tmp_path / cue) for cue in ("memory", "history")]
    (path,) = (folders[1] / "replies").glob("*.parquet")
    table = pq.read_table(path)
    deaf = pc.match_substring(table["text"], "deaf kid")
    empty = pc.if_else(deaf, pa.scalar(None, pa.string()), table["reply"])
    pq.write_table(table.set_column(table.schema.get_field_index("reply"), "reply", empty), path)
    (*cues, axes, buckets), detail = matched_terms(*(cue_frame(read_run(folder)) for folder in folders))
    assert (axes.tolist(), len(set(buckets)), detail) == (["ability", "age", "age"], 2, "terms: 3 of 4, templates: 1")
    for cue in cues:
        assert cue.styles.shape == (6, 217)
        assert cue.terms.tolist() == [0, 0, 1, 1, 2, 2]
    assert cues[0].styles == pytest.approx(cues[1].styles)  # the same replies to both cues
    for path in (folders[0] / STYLES).glob("*.parquet"):
        path.unlink()
    assert cue_frame(read_run(folders[0])) is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--cue", "system", "--context", "plain"], "--cue system applies only to chats, but the context is"),
        (["--cue", "name", "--decoding", "greedy"], "but decoding 'greedy' would return the same reply"),
        (["--cue", "name", "--axes", "age"], "names need --measurements generation alone; remove --axes"),
        (["--cue", "signature", "--replies_per_cell", "0"], "set --replies_per_cell to 1 or more"),
        (["--names_file", "model/config.json"], "names_file needs --cue name or signature"),
        (["--cue", "history", "--dataset_config", "v1.0-seat"], "needs a template such as"),
    ],
)
def test_options_that_do_not_go_together_are_refused_in_one_line(options, message, runs, monkeypatch):
    monkeypatch.chdir(runs)
    shared = ["--model", "model", "--vocabulary_dir", "vocabulary", "--dataset_config", "v1.0", "--output_dir", "none"]
    with pytest.raises(SystemExit) as error:
        main([*shared, "--measurements", "generation", *options])
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_a_judge_can_read_replies_to_names():
    options = ["--measurements", "generation,judge", "--judge", "condescending", "--cue", "signature"]
    assert set(read_prompts(parse_arguments(options))["axis"].to_pylist()) == {"names"}
