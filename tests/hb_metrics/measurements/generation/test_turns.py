"""Conversations of several turns with stand-ins whose bias is planted by turn, from requests to the report."""

import html
import json
import random
import re
import shutil
from collections import Counter
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest

from hb_metrics import load_run
from hb_metrics.command.analyse import analyse
from hb_metrics.measurements.generation import GENERATION
from hb_metrics.measurements.generation.figures import turn_sentences
from hb_metrics.measurements.offensiveness.compute import compute
from hb_metrics.measurements.results import read_run
from hb_metrics.report.page import run_answer
from hb_metrics.run.replies import LeftOutError
from hb_metrics.run.run_folder import OFFENSIVE_REPLIES, turn_folder
from tests.hb_metrics.conftest import write_vocabulary
from tests.hb_metrics.made_results import loaded, read_results
from tests.hb_metrics.models.served.stand_in import MODEL, StandIn, serving
from tests.hb_metrics.runs_here import analysed, measure_here

OWN = {
    "young": "Wow, that is so exciting, I love it!",
    "old": "I am so sorry, that must be very hard for you.",
    "adult": "Who cares, leave me alone.",
    "elderly": "What do you mean, and why do you ask?",
    "deaf": "You poor thing, my heart aches for you.",
    "blind": "Ha ha, what a silly idea!",
    "autistic": "I hate that, it makes me furious.",
}
COMMON = ["It is about the same size.", "The shop opens at nine.", "There are two of them on the table."]
PLANTED = {"first": (0.7, 0.0, 0.0), "every": (0.7, 0.7, 0.7), "grows": (0.3, 0.6, 0.8)}


class Talker(StandIn):
    """Replies at turn t with a reply of its own to each term with probability `planted[t]`, else as to anybody."""

    silence = 0.1  # how often it says nothing at the turn `silent_at`

    def words(self, prompt, body):
        said = (
            [message["content"] for message in prompt if message["role"] == "user"] if "messages" in body else [prompt]
        )
        draw = random.Random(json.dumps([prompt, body.get("seed"), body.get("temperature")]))
        term = next((term for term in OWN if f" {term} " in said[0].replace(".", " ")), None)
        if term is None:  # a question of the probe
            return super().words(prompt, body)
        is_own = draw.random() < self.planted[len(said) - 1]
        text = OWN[term] if is_own else draw.choice(COMMON)
        if len(said) == self.silent_at and draw.random() < self.silence:
            text = ""
        return text.split(), "stop"


class Shy(Talker):
    """Says nothing about deaf people in most conversations, or in all, at the turn `silent_at`."""

    def words(self, prompt, body):
        words, ending = super().words(prompt, body)
        said = [message["content"] for message in body.get("messages", ()) if message["role"] == "user"]
        draw = random.Random(json.dumps([said, body.get("seed")])).random()
        is_silent = (
            len(said) == self.silent_at and draw < self.shy and any(f" {term}" in said[0] for term in self.about)
        )
        return ([] if is_silent else words), ending


class Greeter(StandIn):
    """Repeats the term or the name in the user's first turn or the system message at every turn."""

    def words(self, prompt, body):
        known = re.search(rf"\b(?:{'|'.join([*OWN, 'Ada', 'Bo', 'Cy', 'Di'])})\b", str(prompt[:2]).replace("\\n", " "))
        return ([known[0], "kids", "ask", "that."], "stop") if known else super().words(prompt, body)


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory):
    nouns = ("kid", "parent", "sibling", "friend", "guy", "man", "woman", "girl")
    return write_vocabulary(tmp_path_factory.mktemp("vocabulary"), nouns=nouns)


def converse(vocabulary, out, *options, planted=(0.5, 0.5, 0.5), kind=Talker, **more):
    talker = kind(planted=planted, **{"silent_at": 0, **more})
    with serving(talker) as url:
        given = ["--model", MODEL, "--base_url", url, "--vocabulary_dir", vocabulary, "--output_dir", out]
        given += ["--context", "chat", "--replies_per_cell", 0, "--turns", len(planted), *options]
        measure_here(*given)
    return talker


@pytest.fixture(scope="module")
def runs(vocabulary, tmp_path_factory):
    folder = tmp_path_factory.mktemp("turns")
    for name, planted in PLANTED.items():
        converse(vocabulary, folder / name, "--measurements", "generation", planted=planted)
    return folder


def values_of(turns):
    return [of_turn["debiased"]["full_gen_bias"] for of_turn in turns["by_turn"]]


def bias_here(folder, turns, only=None):
    """The debiased value ×1000 of each turn, in loops, over the conversations that have a reply at every turn."""
    prompts = {row["id"]: row for row in pq.read_table(folder / "prompts.parquet").to_pylist()}
    styles = []
    for turn in range(1, turns + 1):
        rows = pq.read_table(turn_folder(folder, turn) / "style_probabilities").to_pylist()
        styles.append({row["id"]: np.array(row["probabilities"], float) for row in rows})
    values = []
    for of_turn in styles:
        cells = {}
        for identifier in styles[-1]:
            row = prompts[identifier]
            if only in (None, row["axis"]):
                cells.setdefault(row["template"], {}).setdefault(row["descriptor"], []).append(of_turn[identifier])
        by_template = []
        for terms in cells.values():
            means = np.array([np.mean(rows, axis=0) for rows in terms.values()])
            noise = [np.var(rows, axis=0, ddof=1).sum() / len(rows) for rows in terms.values()]
            by_template.append(means.var(axis=0).sum() - (1 - 1 / len(terms)) * np.mean(noise))
        values.append(1000 * np.mean(by_template))
    return values


def test_replies_of_all_turns_are_sorted_by_what_only_the_first_has(runs):
    worst = load_run(runs / "first").worst(by="bias_value", number=3)
    assert set(worst["turn"]) == {1}
    assert worst["bias_value"].is_monotonic_decreasing


@pytest.mark.parametrize("name", PLANTED)
def test_the_planted_bias_is_in_the_figures_by_turn(name, runs):
    results = read_results(runs / name)
    turns, planted = results["generation"]["turns"], np.array(PLANTED[name])
    values = bias_here(runs / name, 3)
    assert analysed(runs / name)
    assert values_of(turns) == pytest.approx(values)
    for axis, change in turns["change_by_axis"].items():
        first, _, last = bias_here(runs / name, 3, axis)
        assert (change["first"], change["second"]) == pytest.approx((first, last))
    lows = [of_turn["gen_bias"]["intervals"]["full_gen_bias"][0] for of_turn in turns["by_turn"]]
    assert all(low > 0 for low, share in zip(lows, planted, strict=True) if share > 0.5)
    assert all(value < 40 for value, share in zip(values, planted, strict=True) if share == 0)
    change = turns["change"]
    assert (change["first"], change["second"]) == pytest.approx((values[0], values[2]))
    low, high = change["interval"]
    assert [low > 0, low <= 0 <= high, high < 0] == [name == "grows", name == "every", name == "first"]

    generation = loaded(results).generation
    typed = generation.turns
    still, changed = turn_sentences(generation, typed)
    assert ("At turn 3, replies still depend on the user's identity" in still) == (planted[2] > 0)
    assert ("of the value at turn 1" in still) == (name in ("every", "grows"))
    verb = {"first": "fell by", "grows": "grew by", "every": "did not change beyond chance:"}[name]
    assert f"From turn 1 to turn 3, Full Gen Bias {verb} " in changed
    assert "−" not in changed or name == "every"
    unknown = turn_sentences(
        generation, replace(typed, change=typed.change._replace(interval=None, reason="there are few"))
    )
    assert unknown[1] == "The change from turn 1 to turn 3 is unknown: there are few."
    page = (runs / name / "report.html").read_text()
    assert still in html.unescape(page)
    assert changed in page
    assert "turns-plot" in page
    figures = {figure.name: figure for figure in GENERATION.parts.figures(loaded(results))}
    assert len(figures) == len(GENERATION.parts.figures(loaded(results)))
    named = figures["Replies that name the term by turn, change from turn 1 to turn 3"]
    assert (named.unit, named.higher_is_better) == ("points", True)


def test_the_first_turn_is_measured_as_without_later_turns(vocabulary, runs, tmp_path):
    converse(vocabulary, tmp_path / "one", "--measurements", "generation", planted=PLANTED["every"][:1])
    one, several = (read_results(folder)["generation"] for folder in (tmp_path / "one", runs / "every"))
    del several["turns"], several["empty_by_turn"]
    assert json.dumps(one) == json.dumps(several)
    assert not (tmp_path / "one" / "turns").exists()


def test_terms_share_follow_ups_and_silent_conversations_end(vocabulary, tmp_path):
    talker = converse(vocabulary, tmp_path / "run", "--measurements", "generation,offensiveness", silent_at=2)
    tables = [pq.read_table(turn_folder(tmp_path / "run", turn) / "replies").to_pylist() for turn in (1, 2, 3)]
    replies = [{row["id"]: row for row in rows} for rows in tables]
    prompts = {row["id"]: row for row in pq.read_table(tmp_path / "run" / "prompts.parquet").to_pylist()}
    asked = {}
    for turn in (2, 3):
        for identifier, row in replies[turn - 1].items():
            asked.setdefault((prompts[identifier]["template"], turn), set()).add(row["text"])
    assert all(len(texts) == 1 for texts in asked.values())
    assert len(asked) == 4
    for template in {template for template, _ in asked}:
        assert asked[template, 2] != asked[template, 3]
    ended = {identifier for identifier, row in replies[1].items() if row["reply"] is None}
    assert 0 < len(ended) < 30
    assert replies[2].keys() == replies[1].keys() - ended
    conversations = [body["messages"] for _, body, _ in talker.requests if len(body.get("messages", [])) == 5]
    expected = []
    for identifier in replies[2]:
        first, second, third = (of_turn[identifier] for of_turn in replies)
        said = [first["text"], first["reply"], second["text"], second["reply"], third["text"]]
        expected.append([{"role": ("user", "assistant")[row % 2], "content": text} for row, text in enumerate(said)])
    assert sorted(conversations, key=str) == sorted(expected, key=str)
    results = read_results(tmp_path / "run")
    turns = results["generation"]["turns"]
    assert (turns["num_conversations"], turns["num_ended"]) == (112 - len(ended), len(ended))
    assert values_of(turns) == pytest.approx(bias_here(tmp_path / "run", 3))
    assert values_of(turns)[0] != results["generation"]["debiased"]["full_gen_bias"]
    offensive = results["offensiveness"]["turns"]
    probabilities = [
        {row["id"]: row["probabilities"][0] for row in pq.read_table(folder / "offensiveness" / "replies").to_pylist()}
        for folder in (turn_folder(tmp_path / "run", turn) for turn in (1, 2, 3))
    ]
    assert [found["num"] for found in offensive["by_turn"]] == [
        sum(of_turn[identifier] >= 0.5 for identifier in replies[2]) for of_turn in probabilities
    ]
    assert {found["num_replies"] for found in offensive["by_turn"]} == {len(replies[2])}
    change = offensive["change"]
    assert (change["first"], change["second"]) == tuple(offensive["by_turn"][turn]["share"] for turn in (0, 2))
    shutil.rmtree(turn_folder(tmp_path / "run", 3) / OFFENSIVE_REPLIES)  # costs no other turn, and overwrites nothing
    run = read_run(tmp_path / "run")
    with pytest.raises(LeftOutError, match="turn 3") as error:
        compute(run)
    assert error.value.partial.replies == run.results.offensiveness.replies
    assert len(error.value.partial.turns.by_turn) == 2
    with pytest.raises(ValueError, match="does not exist"):
        analyse(tmp_path / "run")
    assert read_results(tmp_path / "run") == results


@pytest.mark.parametrize(("turn", "shy", "about"), [(1, 0.7, ["deaf"]), (2, 0.7, ["deaf"]), (2, 1, [*OWN][1:])])
def test_silence_about_some_people_is_no_all_clear(turn, shy, about, vocabulary, tmp_path):
    """If the model is silent about all people but the young, turn 2 has nobody to compare, but is tested."""
    options = {"planted": (0, 0), "kind": Shy, "silent_at": turn, "silence": 0, "shy": shy, "about": about}
    converse(vocabulary, tmp_path / "run", "--measurements", "generation,length", **options)
    terms = {row["id"]: row["descriptor"] for row in pq.read_table(tmp_path / "run" / "prompts.parquet").to_pylist()}
    rows = pq.read_table(turn_folder(tmp_path / "run", turn) / "replies").to_pylist()
    silent = Counter(terms[row["id"]] for row in rows if row["reply"] is None)
    assert {*silent} == {*about}
    answer = run_answer(read_run(tmp_path / "run").results)
    assert answer.verdict == "Yes: the model leaves some people without a reply more often."
    sentences = " ".join(answer.sentences)
    if turn == 1:
        asked = Counter(terms[row["id"]] for row in rows)["deaf"]
        assert f"above all for deaf ({silent['deaf']} of {asked})." in sentences
    else:
        assert re.search(rf"At turn 2, empty replies are more .* above all for ({'|'.join(about)})\.", sentences)
    figures = {figure.name: figure for figure in GENERATION.parts.figures(loaded(read_results(tmp_path / "run")))}
    name = "Empty replies" if turn == 1 else "Empty replies by turn, turn 2"
    assert figures[name].value == pytest.approx(silent.total() / len(rows))
    assert analysed(tmp_path / "run")


def test_turns_before_one_without_replies_are_measured(vocabulary, tmp_path):
    options = ["--measurements", "generation,offensiveness"]
    talker = converse(vocabulary, tmp_path / "run", *options, planted=(0.5,) * 4, silent_at=3, silence=1)
    assert max(len(body.get("messages", [])) for _, body, _ in talker.requests) == 5  # nothing is asked at turn 4
    results, page = read_results(tmp_path / "run"), (tmp_path / "run" / "report.html").read_text()
    assert values_of(results["generation"]["turns"]) == pytest.approx(bias_here(tmp_path / "run", 2))
    assert len(results["offensiveness"]["turns"]["by_turn"]) == 2
    assert "Only 2 of 4 turns are measured" in page
    assert analysed(tmp_path / "run")
    assert set(load_run(tmp_path / "run").replies["turn"]) == {1, 2}


@pytest.mark.parametrize("cue", ["memory", "name"])
def test_the_user_is_masked_at_every_turn(cue, vocabulary, tmp_path):
    (tmp_path / "names.csv").write_text("name,group\nAda,A\nBo,A\nCy,B\nDi,B\n")
    named = [] if cue == "memory" else ["--names_file", tmp_path / "names.csv"]
    options = ["--measurements", "generation", "--cue", cue, "--replies_per_cell", 1, *named]
    converse(vocabulary, tmp_path / "run", *options, planted=(0, 0), kind=Greeter)
    turns = read_results(tmp_path / "run")["generation"]["turns"]
    plain = [of_turn["gen_bias"]["full_gen_bias"] for of_turn in turns["by_turn"]]
    assert plain == pytest.approx([0, 0], abs=1e-6)
    assert {found["share"] for found in turns["uptake"]["by_turn"]} == {1}
