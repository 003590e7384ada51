"""Runs with prompts of the user's own: their tables, the messages that a model reads, and whole runs."""

import json
from collections import Counter
from itertools import cycle
from pathlib import Path

import pyarrow as pa
import pytest
import yaml

from hb_dataset.own_prompts import read_own_prompts
from hb_dataset.prompt_columns import VARIATIONS
from hb_dataset.prompt_table import descriptor_noun_spans
from hb_dataset.variations import vary_prompts
from hb_metrics import load_run
from hb_metrics.collect.replies.decoding_settings import Decoding
from hb_metrics.collect.replies.requests import make_requests
from hb_metrics.command.analyse import analyse
from hb_metrics.command.arguments import parse_arguments
from hb_metrics.command.export_prompts import main as export
from hb_metrics.command.planning import default_folder
from hb_metrics.command.report import write as report
from hb_metrics.command.run_prompts import read_prompts
from hb_metrics.layout.numbers import slot
from hb_metrics.measurements.results import read_run
from hb_metrics.models.layout import Layout
from hb_metrics.models.loading import load_tokenizer
from hb_metrics.run.record import GenerationSettings
from hb_metrics.run.run_folder import STYLES
from hb_metrics.run.tables import Tables
from hb_metrics.run_tables import main as print_replies
from hb_train.bias_labels import rendered_prompts, replies_to_label
from tests.hb_metrics.chat_models import SHORT, chat_tokenizer, untrained_model
from tests.hb_metrics.conftest import save_parts, write_vocabulary
from tests.hb_metrics.run.test_answer_files import lines, write
from tests.hb_metrics.runs_here import analysed, measure_here, refusal

SLOTTED = [
    {"id": "cv", "prompt": "{person} applied, and {they} <b>waited</b>. Invite {them}?", "pay": 3},
    {"id": "note", "prompt": "Describe {people}, as {{json}}.", "system": "You are\na nurse.", "topic": "health"},
]
NAMED = [{"prompt": "{name} waits.", "outcome": "choice: yes | no", "favourable": "no"}, {"prompt": "Greet {name}!"}]
PLAIN = [{"id": "rent", "prompt": "Is the rent fair?", "system": "Be brief."}]
PLAIN.append({"id": "job", "prompt": "What job fits?"})
NAMES = "Ada,Black women\nBo,White\nCy,Black women\nDi,White\nEd,Black women\nFlo,White\nGus,Black women\nHal,White\n"


@pytest.fixture
def files(tmp_path):
    (tmp_path / "names.csv").write_text(f"name,group\n{NAMES}")
    for name, rows in (("slotted", SLOTTED), ("named", NAMED), ("plain", PLAIN), ("mixed", [*SLOTTED, *NAMED])):
        write(tmp_path / f"{name}.jsonl", rows)
    return tmp_path


@pytest.fixture
def settings(files, vocabulary):
    def of(name, *options):
        own = ["--prompts", files / f"{name}.jsonl", "--vocabulary_dir", vocabulary, "--dataset_config", "v1.0"]
        return parse_arguments([*map(str, [*own, *options])])

    return of


GENERATION = ("--measurements", "generation")


def messages_of(table, cue="prompt"):
    requests = make_requests(table, decoding=Decoding(), layout=Layout("chat"), cue=cue, questions=["Unused?"])
    return dict(zip(table["id"].to_pylist(), requests.messages, strict=True))


def test_each_row_is_a_template_with_its_own_system_message(settings):
    table = read_prompts(settings("slotted", "--terms", "Deaf, young", "--system_prompt", "Be kind."))
    assert Counter(table["template"].to_pylist()) == {row["prompt"]: 4 for row in SLOTTED}
    assert set(table["descriptor"].to_pylist()) == {"deaf", "young"}
    messages = [conversation for conversation in messages_of(table).values() if len(conversation) == 2]
    assert {message[0]["content"] for message in messages} == {"You are\na nurse."}
    assert {message[1]["content"].partition(",")[0] for message in messages} >= {"Describe deaf kids"}
    assert "{json}" in messages[0][1]["content"]


@pytest.mark.parametrize("cue", ["system", "memory", "history"])
def test_prompts_without_a_slot_are_asked_after_the_cue(settings, cue):
    table = read_prompts(settings("plain", "--cue", cue, *GENERATION))
    rows = {row["id"]: row for row in table.to_pylist()}
    assert len(rows) == 2 * 7 * 2
    for identifier, messages in messages_of(table, cue).items():
        row = rows[identifier]
        said = {"memory": f"Remembers: the user is {row['noun_phrase']}."}.get(cue, f"I'm {row['noun_phrase']}.")
        assert messages[-1]["content"] == row["question"] == row["template"]
        assert said in (messages[-3] if cue == "history" else messages[0])["content"]
        assert (messages[0]["role"] == "system" and "Be brief." in messages[0]["content"]) == (row["own_id"] == "rent")
        assert "Unused?" not in str(messages)


def test_names_fill_their_slot_or_the_cue(settings, files):
    names = "--names_file", files / "names.csv", "--replies_per_cell", 3, *GENERATION
    slotted, told = read_prompts(settings("named", *names)), read_prompts(settings("plain", "--cue", "name", *names))
    for table in (slotted, told):
        cells = Counter(zip(table["descriptor"].to_pylist(), table["template"].to_pylist(), strict=True))
        assert len(cells) == 16
        assert set(cells.values()) == {3}
    assert "Ada waits.\nAnswer only with no or yes." in slotted["text"].to_pylist()
    system = {messages[0]["content"].splitlines()[-1] for messages in messages_of(told, "name").values()}
    assert "The user's name is Ada." in system


@pytest.mark.parametrize(
    ("name", "options", "problem"),
    [
        ("mixed", (), "'cv' and 'row-3' name people in different ways"),
        ("plain", (), "'rent' has no slot for people.*set --cue"),
        ("slotted", ("--cue", "memory"), "'cv' has a slot.*remove --cue"),
        ("named", ("--measurements", "likelihood"), "generation,offensiveness"),
        ("named", (*GENERATION, "--axes", "age"), "omit --axes"),
        ("slotted", ("--axes", "agee"), "did you mean 'age'"),
        ("slotted", ("--terms", "olt"), "term 'olt' is not .* did you mean 'old'"),
        ("slotted", ("--names_file", __file__), "omit --names_file"),
        ("slotted", ("--dataset_config", "next-intersections"), "without pairs"),
    ],
)
def test_options_that_do_not_suit_the_prompts_are_refused(settings, name, options, problem):
    with pytest.raises(ValueError, match=problem):
        read_prompts(settings(name, *options))


NOUNS = {"kid": {}, "friend": {}, "guy": {}, "woman": {"gender": "female"}, "man": {"gender": "male"}}


def test_an_axis_without_prompts_is_named_and_articles_follow_the_sound(files, tmp_path):
    folder = write_vocabulary(tmp_path / "own", ability=("European", "80-year-old", "HIV-positive", "elderly"))
    kin = "axis: kin\nterms:\n- {term: motherly, gender: female}\n- {term: fatherly, gender: male}\n"
    (folder / "kin.yaml").write_text(kin, encoding="utf-8")
    nouns = [{"noun": noun, "plural": f"{noun}s", **more} for noun, more in NOUNS.items()]
    (folder / "nouns.yaml").write_text(yaml.safe_dump({"nouns": nouns}), encoding="utf-8")
    own = ["--vocabulary_dir", str(folder)]
    for prompts in ([], ["--prompts", str(files / "slotted.jsonl")]):
        for axes in ([], ["--axes", "kin"]):
            with pytest.raises(ValueError, match=r"'kin' has no prompts in v1.0-small.*set --dataset_config v1.0,"):
                read_prompts(parse_arguments([*prompts, *own, *axes]))
        table = read_prompts(parse_arguments([*prompts, *own, "--dataset_config", "v1.0"]))
        assert set(table["axis"].to_pylist()) == {"ability", "age", "kin"}
        phrases = {phrase for phrase in table["noun_phrase"].to_pylist() if phrase.endswith("kid")}
        assert {"a European kid", "an 80-year-old kid", "an HIV-positive kid", "an elderly kid"} <= phrases


def test_options_for_own_prompts_alone():
    assert "terms is empty" in refusal("--terms", " ,")
    assert "set --prompts" in refusal("--replace", "the man")
    assert "show is 0" in refusal("--show", 0)


def test_terms_of_a_small_config_come_from_the_whole_vocabulary(capsys):
    options = ["--terms", "deaf,octogenarian", "--axes", "ability", "age"]
    prompts = read_prompts(parse_arguments(options))
    assert set(prompts["descriptor"].to_pylist()) == {"Deaf", "octogenarian"}
    assert set(prompts["template"].to_pylist()) == set(read_prompts(parse_arguments([]))["template"].to_pylist())


def test_variations_and_spans_reach_every_slot(settings):
    table = read_prompts(settings("slotted", "--axes", "ability"))
    row = table["descriptor"].to_pylist().index("autistic")
    flags = {name: [name in ("lowercase", "no_final_period")] for name in VARIATIONS}
    texts = vary_prompts(table.slice(row, 1), flags).texts.to_pylist()
    assert texts == ["An autistic kid applied, and they <b>waited</b>. Invite them?"]
    spans = zip(table["text"].to_pylist(), descriptor_noun_spans(table).tolist(), strict=True)
    nouns = ("kid", "parent", "kids", "parents")
    cut = {text[start:end] for text, (start, end) in spans}
    assert cut == {f"{term} {noun}" for term in ("deaf", "blind", "autistic") for noun in nouns}


def test_a_preview_needs_no_model(files, vocabulary, monkeypatch):
    monkeypatch.setattr("hb_metrics.command.planning.load", None)
    options = "--prompts", files / "slotted.jsonl", "--vocabulary_dir", vocabulary, "--model", "none"
    shown = measure_here(*options, "--show", 4)
    assert shown.count("prompt: ") == 4
    assert "system: You are\n    a nurse." in shown
    assert "4 of 28 prompts, from 2 of 2 templates" in shown
    assert measure_here(*options, "--show").count("prompt: ") == 5
    assert "warning" not in shown
    write(files / "she.jsonl", [*SLOTTED, {"prompt": "{person} waits. She"}, {"prompt": "{people} shell"}])
    shown = measure_here("--prompts", files / "she.jsonl", *options[2:], "--show")
    assert "1 prompts (such as 'row-3') contain a gendered pronoun" in shown


def test_a_preview_shows_only_prompts_that_the_run_uses(vocabulary):
    options = "--vocabulary_dir", vocabulary, "--dataset_config", "v1.0", "--model", "none", "--show"
    assert "from 5 of 144 templates" in measure_here(*options, "--measurements", "decisions")
    assert "from 5 of 8 templates" in measure_here(*options, "--measurements", "decisions", "--quick")
    assert "--measurements regard does not use" in refusal(*options, "--measurements", "regard")


def test_decisions_about_one_term_are_not_exported(files, vocabulary):
    options = "--vocabulary_dir", vocabulary, "--measurements", "decisions", "--prompts", "decisions", "--terms", "deaf"
    with pytest.raises(ValueError, match="no prompt has two terms; set --terms"):
        export([*map(str, [files / "prompts.jsonl", *options])])


def test_long_templates_are_shortened_and_stay_apart():
    shown = {slot(f"{{person}} {'a_b ' * 50}{end}") for end in "xy"}
    assert len(shown) == 2
    assert all(text.startswith("[person] a_b a_b") and len(text) < 120 for text in shown)
    assert slot("I love {plural_noun_phrase}.\nYes") == "I love [plural noun phrase]. Yes"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    tokenizer = chat_tokenizer("llama3")
    tokenizer.chat_template = SHORT
    return save_parts(tmp_path_factory.mktemp("model"), tokenizer, untrained_model(tokenizer))


def test_every_measurement_runs_on_own_prompts(files, vocabulary, model):
    options = "--prompts", files / "slotted.jsonl", "--vocabulary_dir", vocabulary, "--dataset_config", "v1.0"
    options += "--model", model, "--measurements", "generation,offensiveness,likelihood", "--replies_per_cell", "2"
    measure_here(*options, "--max_new_tokens", 6, "--turns", 2, "--variations", True, "--output_dir", files / "run")
    results = json.loads((files / "run" / "results.json").read_text())
    data = results["run"]["data"]
    assert (data["config"], data["num_prompts"], data["num_templates"]) == ("slotted.jsonl", 28, 2)
    assert results["likelihood"]["likelihood_bias"]["num_tests"] == (6 + 3) * 2
    assert set(results["offensiveness"]["prompts"]["by_template"]) == {row["prompt"] for row in SLOTTED}
    assert analysed(files / "run")
    page = (files / "run" / "report.html").read_text()
    assert "<b>waited</b>" not in page
    run = load_run(files / "run")
    assert run.own_prompts["pay"].dropna().tolist() == ["3"]
    assert run.own_prompts["id"].tolist() == ["cv", "note"]
    again = read_own_prompts(str(files / "run" / "own_prompts.parquet"))
    assert [prompt.prompt for prompt in again] == [row["prompt"] for row in SLOTTED]
    rows = replies_to_label(read_run(files / "run"), Tables(files / "run").vectors(STYLES))
    assert set(rows["system"].to_pylist()) == {None, "You are\na nurse."}


@pytest.fixture
def measured(files, vocabulary):
    """Measures replies from a file to own prompts, each by a function of its exported row; returns these rows."""

    def measure(name, reply, *options):
        own = "--prompts", files / f"{name}.jsonl", "--vocabulary_dir", vocabulary, "--dataset_config", "v1.0", *options
        export([*map(str, [files / "asked.jsonl", *own])])
        asked = lines(files / "asked.jsonl")
        path = write(files / "replies.jsonl", [{**row, "reply": reply(row)} for row in asked])
        measure_here("--model", "me", "--replies_file", path, *own, "--output_dir", files / "run")
        return asked

    return measure


def test_replies_from_a_file_to_prompts_after_a_cue(files, measured, capsys):
    sure = cycle(["Sure 0.", "Sure 1.", "Sure 2."])
    options = "--cue", "memory", "--measurements", "generation,offensiveness", "--replies_per_cell", "0"
    asked = measured("plain", lambda row: next(sure), *options)
    assert {row["question"] for row in asked} == {row["prompt"] for row in PLAIN}
    results = json.loads((files / "run" / "results.json").read_text())
    assert set(results["generation"]["parroting"]["by_template"]) == {row["prompt"] for row in PLAIN}
    assert "(<code>--prompts</code>), so it may not be neutral" in (files / "run" / "report.html").read_text()
    assert set(load_run(files / "run").replies["question"]) == {row["prompt"] for row in PLAIN}
    capsys.readouterr()
    print_replies([str(files / "run"), "--worst", "1"])
    printed = capsys.readouterr().out
    assert any(row["prompt"] in printed for row in PLAIN)


SECRET = "zorblax"
HIDDEN = {"question": f"{SECRET} q", "system": f"{SECRET} s", "mine": f"{SECRET} m"}
CHOICE = {"outcome": "choice: yes | no", "favourable": "yes"}


@pytest.mark.parametrize(
    ("prompt", "options"),
    [
        ("Is {person} %s?", ("--measurements", "generation,offensiveness,likelihood")),
        ("Invite {name}, the %s?", ("--measurements", "generation,decisions", "--names_file", "names.csv")),
        ("What is %s?", ("--cue", "memory", "--measurements", "generation,offensiveness")),
    ],
)
def test_a_page_without_texts_shows_none_of_them(files, vocabulary, monkeypatch, prompt, options):
    monkeypatch.chdir(files)
    outcome = CHOICE if "names.csv" in options else {}
    texts = [prompt % SECRET, f'{prompt} {{{{{SECRET}}}}} "2"\n' % SECRET]
    write(files / "own.jsonl", [{**HIDDEN, **outcome, "prompt": text} for text in texts])
    options = "--prompts", "own.jsonl", *options
    options = *options, "--system_prompt", f"Be {SECRET}.", "--replies_per_cell", "2", "--vocabulary_dir", vocabulary
    options = [*map(str, options), "--dataset_config", "v1.0", "--context", "chat"]
    export(["asked.jsonl", *options])
    for wanted in ("reply", "log_probability"):
        asked = [row for row in lines(files / "asked.jsonl") if row["wanted"] == wanted]
        answers = [
            {"id": row["id"], "reply": f"Yes, {SECRET} {number}.", "num_tokens": 2, "log_probability": -1.5 - number}
            for number, row in enumerate(asked)
        ]
        write(files / f"{wanted}.jsonl", answers)
    given = "--replies_file", "reply.jsonl", *(("--logprobs_file", "log_probability.jsonl") if asked else ())
    measure_here(*options, *given, "--model", "me", "--output_dir", "run")
    page = files / "run" / "report.html"
    assert SECRET in page.read_text().lower()
    report([Path("run")], without_texts=True)
    assert SECRET not in page.read_text().lower()


DECISIONS = ("--measurements", "decisions", "--replies_per_cell", "1")


def test_decisions_alone_are_read_from_whole_replies_in_a_file(files, measured):
    write(files / "rows.jsonl", [{"prompt": f"Invite {{name}} to row {row}?", **CHOICE} for row in range(4)])
    black = ("Ada", "Cy", "Ed", "Gus")
    replies = ["Thanks for asking.\n\nFinal answer: **no**", '```json\n{"answer": "yes"}\n```']
    names = "--names_file", files / "names.csv"
    asked = measured("rows", lambda row: replies[row["text"].split()[1] in black], *names, *DECISIONS)
    assert {row["decoding"]["reply"] for row in asked} == {"whole"}
    assert all(row["decoding"]["max_new_tokens"] >= 256 and not row["decoding"]["min_new_tokens"] for row in asked)
    run = load_run(files / "run")
    assert run.record.generation.reply == "whole"
    assert {*zip(run.decisions["group"], run.decisions["decision"], strict=True)} == {("Black women", 1), ("White", 0)}
    groups = run.results.generation.name_groups
    assert (groups.interval, groups.p) == (None, pytest.approx(2 / 70))
    assert "same mean style vector" in groups.reason
    with pytest.raises(ValueError, match=r"'offensive'.*measure it"):
        run.worst()
    assert analysed(files / "run")
    written = (files / "run" / "results.json").read_bytes()
    (files / "run" / "results.json").unlink()
    analyse(files / "run")
    assert (files / "run" / "results.json").read_bytes() == written
    (files / "run" / "run.json").unlink()
    with pytest.raises(ValueError, match=r"has no run\.json; pass the folder"):
        analyse(files / "run")


@pytest.mark.parametrize("ending", ["", " Antworten Sie nur mit {options}.", " Answer only with {options}."])
def test_choices_in_another_language_are_not_read_by_english_rules(files, measured, ending):
    rows = [
        {"prompt": f"Laden Sie {{person}} zu {row} ein?{ending}", "outcome": "choice: Ja | Nein", "favourable": "Ja"}
        for row in range(2)
    ]
    write(files / "rows.jsonl", rows)
    cycled = cycle(["Ja, leider muss ich absagen.", "Ja."])
    measured("rows", lambda row: next(cycled), *DECISIONS)
    read = load_run(files / "run").decisions
    assert set(read["decision"].dropna()) == {1}
    assert read["decision"].isna().mean() == 0.5


def test_the_folder_of_a_run_is_named_after_its_file(settings):
    assert default_folder(settings("slotted")).startswith("runs/embedded-slotted-")


def test_a_masked_model_scores_the_person_in_its_sentence(files, vocabulary, save_small_model):
    shared = "--vocabulary_dir", vocabulary, "--dataset_config", "v1.0", "--model", save_small_model("bert")
    shared += "--measurements", "likelihood"
    measure_here("--prompts", files / "slotted.jsonl", *shared, "--output_dir", files / "run")
    scores = load_run(files / "run").perplexities
    assert len(scores) == 28
    assert scores["num_tokens"].between(2, 20).all()  # the term and the noun, and not the sentence
    write(files / "twice.jsonl", [{"id": "two", "prompt": "{person} knows {person}."}])
    twice = refusal("--prompts", files / "twice.jsonl", *shared, "--output_dir", files / "none")
    assert "'two' names the person twice" in twice
    assert "{they}" in twice


def test_labelled_replies_are_learnt_after_their_system_message(settings, model):
    table = read_prompts(settings("slotted", "--terms", "deaf"))
    personas = pa.array([[]] * len(table), pa.list_(pa.string()))
    rows = table.select(["text", "system"]).append_column("personas", personas)
    made = GenerationSettings("chat", None, "", system_prompt="Be kind.")
    prompts = rendered_prompts(rows, load_tokenizer(model), made, [None] * len(rows))
    for system, prompt in zip(table["system"].to_pylist(), prompts, strict=True):
        assert prompt.startswith(f"s{system or 'Be kind.'}<|eot_id|>u")
