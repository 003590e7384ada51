"""Prompts exported, answered elsewhere, and taken back: the same results; and what is refused in such files."""

import json
import math
from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from hb_metrics.command.arguments import settings_of
from hb_metrics.command.export_prompts import export_prompts
from hb_metrics.command.export_prompts import main as export_main
from hb_metrics.command.measuring import measure
from hb_metrics.command.run_prompts import read_prompts
from hb_metrics.measure import main
from hb_metrics.measurements.generation import GENERATION
from hb_metrics.run.answer_files import GivenReply, read_log_probabilities_file, read_replies_file, replies_by_prompt
from hb_metrics.run.schema import REPLY_SCHEMA
from hb_metrics.run.tables import Tables
from tests.hb_metrics.collect.one_call import log_likelihood
from tests.hb_metrics.conftest import small_model, write_vocabulary
from tests.hb_metrics.made_results import loaded

MAX_NEW_TOKENS = 10
BARE = {"dataset_config": "v1.0", "context": "plain", "replies_per_cell": 2, "seed": 5}
DECODING = {"decoding": "greedy", "reply": "whole", "max_new_tokens": MAX_NEW_TOKENS}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("elsewhere")
    write_vocabulary(folder / "vocabulary")
    return folder


@pytest.fixture(scope="module")
def asked(place):
    return {**BARE, **DECODING, "vocabulary_dir": str(place / "vocabulary")}


@pytest.fixture(scope="module")
def local(place, asked, saved_llama):
    """A run of the model itself."""
    measure(settings_of({**asked, "model": str(saved_llama), "output_dir": str(place / "local")}))
    return place / "local"


@pytest.fixture(scope="module")
def exported(place, asked):
    return lines(export(asked, place / "prompts.jsonl"))


def export(options, path):
    settings = settings_of(options)
    return export_prompts(settings, read_prompts(settings), path)


def lines(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def write(path, rows):
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    else:
        writer = pq.write_table if path.suffix == ".parquet" else pyarrow.csv.write_csv
        writer(pa.Table.from_pylist(rows), path)
    return str(path)


def results_of(folder):
    results = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    del results["run"]
    return json.dumps(results)


@pytest.fixture(scope="module")
def replied(exported):
    """The replies of a plain greedy loop of transformers."""
    model, tokenizer = small_model("llama")
    specials = sorted({*tokenizer.all_special_ids, *tokenizer.added_tokens_decoder})
    rows = []
    for row in exported:
        if row["wanted"] == "reply":
            given = tokenizer(row["text"] + "\n", return_tensors="pt", return_token_type_ids=False)
            lengths = {name: row["decoding"][name] for name in ("min_new_tokens", "max_new_tokens")}
            ends = {"eos_token_id": specials, "pad_token_id": specials[0]}
            whole = model.generate(**given, **lengths, **ends, do_sample=False)
            tokens = whole[0, given["input_ids"].shape[1] :].tolist()
            ended = tokens[-1] in specials
            tokens = tokens[:-1] if ended else tokens
            text = tokenizer.decode(tokens)
            rows.append({"id": row["id"], "reply": text, "num_tokens": len(tokens), "truncated": not ended})
    return rows


@pytest.fixture(scope="module")
def scored(exported):
    """The log-probabilities of a plain loop, one text at a time."""
    model, tokenizer = small_model("llama")
    rows = []
    for row in exported:
        if row["wanted"] == "log_probability":
            tokens = tokenizer(row["text"])["input_ids"]
            total = log_likelihood(model, [tokenizer.bos_token_id], tokens)
            rows.append({"id": row["id"], "log_probability": total, "num_tokens": len(tokens)})
    return rows


def take(place, asked, name, **files):
    settings = settings_of({**asked, "model": "somebody", "output_dir": str(place / name), **files})
    measure(settings)
    return place / name


def test_what_is_exported_is_what_the_run_asks(exported, local, asked, place):
    replies = {row["id"]: row for row in pq.read_table(local / "replies").to_pylist()}
    wanted = [row for row in exported if row["wanted"] == "reply"]
    assert {row["id"]: row["text"] for row in wanted} == {key: row["text"] for key, row in replies.items()}
    assert all(row["messages"] == [{"role": "user", "content": row["text"]}] for row in wanted)
    assert all(row["decoding"]["max_new_tokens"] == MAX_NEW_TOKENS for row in wanted)
    assert len({row["seed"] for row in wanted}) == len(wanted)
    texts = {row["id"]: row["text"] for row in pq.read_table(local / "perplexities").to_pylist()}
    assert {row["id"]: row["text"] for row in exported if row["wanted"] == "log_probability"} == texts
    table = export(asked, place / "prompts.parquet")
    assert pq.read_table(table).to_pylist() == exported


def test_an_export_replaces_no_file_and_needs_something_to_ask(exported, place, asked):
    with pytest.raises(ValueError, match="exists"):
        export(asked, place / "prompts.jsonl")
    with pytest.raises(ValueError, match=r"ends in \.parquet or \.jsonl"):
        export(asked, place / "prompts.txt")
    with pytest.raises(ValueError, match="no prompts to export; add generation or likelihood"):
        export({**asked, "measurements": "offensiveness"}, place / "no.jsonl")


def test_persona_lines_and_system_prompt_are_in_the_messages(place, asked):
    how = {**asked, "context": "chat", "system_prompt": "Be kind.", "personas": 2, "measurements": "generation"}
    rows = lines(export(how, place / "personas.jsonl"))
    for row in rows:
        system, user = row["messages"]
        assert len(row["personas"]) == 2
        assert system == {"role": "system", "content": "\n".join(["Be kind.", *row["personas"]])}
        assert user == {"role": "user", "content": row["text"]}


def without_places(rows):
    return [row._replace(place="") for row in rows]


def test_replies_and_log_probabilities_of_files_give_the_results_of_the_model(place, asked, local, replied):
    known = pq.read_table(local / "perplexities").to_pylist()
    given = [{"id": r["id"], "log_probability": r["log_likelihood"], "num_tokens": r["num_tokens"]} for r in known]
    files = {
        "replies_file": write(place / "replies.parquet", replied[::-1]),
        "logprobs_file": write(place / "scores.parquet", given),
    }
    replies, scores = read_replies_file(files["replies_file"]), read_log_probabilities_file(files["logprobs_file"])
    assert without_places(read_replies_file(write(place / "replies.csv", replied[::-1]))) == without_places(replies)
    both = [{**row, "wanted": "reply"} for row in replied[::-1]]
    both += [{**row, "wanted": "log_probability"} for row in given]
    names = dict.fromkeys(name for row in both for name in row)
    mixed = write(place / "both.parquet", [{name: row.get(name) for name in names} for row in both])
    assert without_places(read_replies_file(mixed)) == without_places(replies)
    for path in (mixed, write(place / "scores.csv", given)):
        assert without_places(read_log_probabilities_file(path)) == without_places(scores)
    run = take(place, asked, "taken", **files)
    assert results_of(run) == results_of(local)
    mine, theirs = (pq.read_table(folder / "replies").sort_by("id") for folder in (run, local))
    assert mine.equals(theirs)
    assert mine.schema.remove_metadata() == REPLY_SCHEMA
    model = json.loads((run / "run.json").read_text())["model"]
    assert (model["name"], model["kind"]) == ("somebody", None)
    report = (run / "report.html").read_text(encoding="utf-8")
    assert "from the file replies.parquet" in report
    assert "and are assumed to be natural logarithms" in report


def test_log_probabilities_of_a_plain_loop_give_the_same_likelihood_bias(place, asked, local, scored):
    run = take(place, asked, "scored", logprobs_file=write(place / "plain.jsonl", scored))
    mine, theirs = (json.loads((folder / "results.json").read_text())["likelihood"] for folder in (run, local))
    assert mine["likelihood_bias"]["likelihood_bias"] == theirs["likelihood_bias"]["likelihood_bias"]
    assert mine["perplexity"]["median"] == pytest.approx(theirs["perplexity"]["median"], rel=1e-4)
    left_out = json.loads((run / "run.json").read_text())["left_out"]
    assert left_out == {"generation": "Generation bias is left out: somebody has no file of replies here."}
    assert left_out["generation"] in (run / "report.html").read_text(encoding="utf-8")


def test_several_replies_to_a_prompt_are_each_a_reply_of_its_cell(place, asked, replied):
    more = [{**row, "reply": f"{row['reply']} again<|im_end|>More."} for row in replied]
    path = write(place / "several.jsonl", [*more, *replied])
    with pytest.raises(ValueError, match=r"different replies to .* set --decoding sample"):
        take(place, asked, "greedy", replies_file=path)
    sampled = {**asked, "decoding": "sample"}
    run = take(place, sampled, "several", replies_file=path, measurements="generation,offensiveness")
    replies = pq.read_table(run / "replies")["id"].to_pylist()
    assert len(set(replies)) == len(replies) == 2 * len(replied)
    assert Counter(name.partition("#")[0] for name in replies) == {row["id"]: 2 for row in replied}
    results = json.loads((run / "results.json").read_text())
    assert results["generation"]["num_invented_turns"] == len(more)
    assert f"In {len(more)} replies, text after the model" in (run / "report.html").read_text(encoding="utf-8")
    bias = results["generation"]["gen_bias"]
    assert bias["num_replies"] == sum(bool(row["reply"].strip()) for row in [*replied, *more])
    assert results["offensiveness"]["replies"]["num_sentences"] == bias["num_replies"]
    stored = Tables(run).replies()
    assert len(stored.texts) == bias["num_replies"]
    record = results["run"]["generation"]
    assert (record["replies_a_prompt"], record["num_copied_replies"]) == ([2, 2], 0)
    assert results["generation"]["num_prompts"] == len(replied)
    assert len({row["prompt"] for row in results["generation"]["shown_replies"]}) > 6  # 5, if shown in pairs
    assert "–" not in " ".join(GENERATION.card_sentences(loaded(results)))


def by_prompt(rows):
    given = [GivenReply(number, name, None, reply, None, None, 1, None) for number, (name, reply) in enumerate(rows)]
    grouped, num_copies = replies_by_prompt(given)
    return {name: [row.reply for row in replies] for name, replies in grouped.items()}, num_copies


def test_replies_of_two_files_are_paired_at_random():
    """In alphabetical order, refusals of two models would meet, and their share would seem to change less by chance."""
    random = np.random.default_rng(0)
    files = []
    for refused in random.random((2, 500, 4)) < 0.5:
        rows = [
            (str(prompt), f"I can't {random.random()}" if flag else f"Sure {random.random()}")
            for prompt, flags in enumerate(refused)
            for flag in flags
        ]
        files.append(by_prompt(rows)[0])
        assert by_prompt(rows[::-1])[0] == files[-1]
    refusals = np.array([[[reply[0] == "I" for reply in replies] for replies in file.values()] for file in files])
    assert (refusals[0] == refusals[1]).mean() == pytest.approx(0.5, abs=0.04)


def test_the_same_reply_twice_is_one_reply():
    """Copies are no samples: their spread would be taken for sampling noise."""

    def grouped(*rows):
        replies, num_copies = by_prompt(rows)
        return {name: sorted(texts) for name, texts in replies.items()}, num_copies

    once = [("a", "Hi."), ("b", "No.")]
    assert grouped(*once, *once) == ({"a": ["Hi."], "b": ["No."]}, 2)
    several = [("a", "Oh."), ("b", "No."), ("a", "Hi."), ("a", "Hi.")]
    for rows in (several, several[::-1]):
        assert grouped(*rows) == ({"a": ["Hi.", "Hi.", "Oh."], "b": ["No."]}, 0)


@pytest.mark.parametrize("times", [2, 3])
def test_a_sampled_file_that_contains_itself_counts_once(times):
    """As after an append: without the copies, a model that treats all alike would seem to differ."""
    sampled = [(f"prompt {number // 4}", f"Reply {number // 2}.") for number in range(48)]  # each twice, with one more
    sampled.append(("prompt 0", "Another."))
    once, _ = by_prompt(sampled)
    assert by_prompt(sampled) == (once, 0)
    assert by_prompt(sampled * times) == (once, (times - 1) * len(sampled))
    few = [("a", "Yes."), ("a", "No.")]  # an even split is likely by chance
    assert by_prompt(few * times)[1] == 0


def changed(**columns):
    return lambda rows: [{**rows[0], **columns}, *rows[1:]]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda rows: [*rows, {"id": "0" * 20, "reply": "Hm."}], f"the id '{'0' * 20}' belongs to no"),
        (changed(text="Hi."), "line 1: the text differs from"),
        (lambda rows: [{**row, "reply": " "} for row in rows], "all replies .* are empty"),
        (changed(reply=[3]), "line 1: reply is …; pass a text"),
        (changed(reply="\ud800"), "unpaired surrogates"),
        (lambda rows: rows[3:], "has no reply for 3 of"),
    ],
)
def test_replies_that_would_bias_a_figure_are_refused(change, message, asked, replied, tmp_path):
    path = write(tmp_path / "replies.jsonl", change(replied))
    with pytest.raises(ValueError, match=message):
        take(tmp_path, asked, "refused", replies_file=path, measurements="generation")
    assert not (tmp_path / "refused" / "run.json").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (changed(log_probability=math.nan), "line 1: log_probability is .*which is finite, at most 0"),
        (changed(log_probability=0.5), "line 1: log_probability is .*which is finite, at most 0"),
        (changed(log_probability=None), "line 1: log_probability is .*which is finite, at most 0"),
        (changed(log_probability=-1e6), "line 1: log_probability is .*above -700 per token"),
        (changed(num_tokens=0), "line 1: num_tokens is .*a whole number of 1 or more"),
        (changed(num_tokens=True), "line 1: num_tokens is .*a whole number of 1 or more"),
        (lambda rows: [*rows, rows[0]], "contains the id .* 2 times"),
        (lambda rows: rows[1:], "has no log-probability for 1 of"),
        (lambda rows: [{**row, "log_probability": -5.0} for row in rows], "are -5, but a model assigns different"),
    ],
)
def test_log_probabilities_that_are_none_are_refused(change, message, asked, scored, tmp_path):
    path = write(tmp_path / "scores.jsonl", change(scored))
    with pytest.raises(ValueError, match=message):
        take(tmp_path, asked, "refused", logprobs_file=path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model": "embedded"}, "set --model to the model's name"),
        ({"revision": "main"}, "omit --revision"),
        ({"adapter": "org/adapter"}, "omit --adapter"),
        ({"measurements": "likelihood"}, "remove likelihood .*--logprobs_file"),
        ({"measurements": "regard"}, "remove regard from --measurements"),
        ({"decoding": "model"}, "needs a loaded model, unlike 'somebody'"),
    ],
)
def test_what_a_file_cannot_give_is_refused(options, message, asked, replied, tmp_path):
    path = write(tmp_path / "replies.jsonl", replied)
    with pytest.raises(ValueError, match=message):
        take(tmp_path, asked, "refused", replies_file=path, **options)


def test_a_gate_ends_a_finished_run_with_its_own_status_and_is_no_part_of_it(place, asked, replied, capsys):
    path = write(place / "gated.jsonl", replied)
    options = {**asked, "model": "somebody", "replies_file": path, "output_dir": str(place / "gated")}
    options["measurements"] = "generation,offensiveness"
    argv = [f"--{name}={value}" for name, value in options.items()]
    with pytest.raises(SystemExit) as ended:
        main([*argv, "--fail_above=full_gen_bias=0,offensive_replies=0.999"])
    assert ended.value.code == 3
    written = json.loads((place / "gated" / "gates.json").read_text())
    assert (written["passed"], [gate["passed"] for gate in written["gates"]]) == (False, [False, True])
    assert "full_gen_bias is above its limit 0" in capsys.readouterr().err
    report = place / "gated" / "report.html"
    before = {file: file.stat().st_mtime_ns for file in (place / "gated" / "replies").iterdir()}
    assert report.is_file()
    main(argv)
    assert not (place / "gated" / "gates.json").exists()
    main([*argv, "--fail_above=full_gen_bias=1e6"])
    assert before == {file: file.stat().st_mtime_ns for file in (place / "gated" / "replies").iterdir()}
    with pytest.raises(ValueError, match=r"'likelihood_bias', which this run does not have; .*allowed: full_gen_bias,"):
        measure(settings_of({**options, "fail_above": "likelihood_bias=1"}))


@pytest.mark.parametrize("words", [[], ["--axes", "nonce", "prompts.jsonl"]])
def test_the_name_of_the_exported_file_comes_first(words, capsys):
    with pytest.raises(SystemExit, match="2"):
        export_main(words)
    assert "export-prompts FILE [--after REPLIES] [OPTION ...]" in capsys.readouterr().err
