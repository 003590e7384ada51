"""What terms in replies do to Full Gen Bias: against loops, closed forms and planted classifiers."""

import json
import re

import numpy as np
import pyarrow.parquet as pq
import pytest

from hb_dataset import read_vocabulary
from hb_dataset.names import PersonName, name_prompts
from hb_metrics.collect.classifiers.censoring import mention_pattern
from hb_metrics.command.export_prompts import main as export_main
from hb_metrics.measurements.identity_leakage import (
    NamedPerson,
    hidden_texts,
    leakage_in_replies,
    mention_table,
    mentions_in,
    named_people,
    people_of,
)
from hb_metrics.measurements.results import read_run
from hb_metrics.run.replies import Replies
from hb_metrics.run.tables import Vectors
from hb_metrics.stats.gen_bias import CellSums, gen_bias
from tests.hb_metrics.runs_here import measure_here

NUM_STYLES = 4
WORDS = ("red", "green", "blue", "tall", "old")


def people(*terms):
    return [NamedPerson("axis", term, None, f"a {term} person", "a left-handed person") for term in terms]


def full_gen_bias(vectors, descriptors, templates, axes, debias=False):
    cells = CellSums(None)
    cells.add(vectors, descriptors, templates, axes)
    return gen_bias(cells, debias=debias).full_gen_bias


def in_view(texts, *terms):
    found = mentions_in(texts, people(*terms))
    return [[index in {mention.term for mention in of_text} for index in range(len(terms))] for of_text in found]


def test_mentions_are_found_in_any_form_and_the_longest_counts():
    texts = ["He is African-American.", "An american, or african american?", "Deaf and deaf.", "A deafening noise.", ""]
    found = in_view(texts, "American", "African-American", "deaf", "Deaf")
    assert found[0] == [False, True, False, False]
    assert found[1] == [True, True, False, False]
    assert found[2] == [False, False, True, True]
    assert found[3] == found[4] == [False] * 4
    letters, named = f"{'a' * 20_000}deaf", "deaf, Deaf " * 9_000  # such texts took minutes
    assert in_view([letters, named], "American", "deaf") == [[False, False], [False, True]]
    assert in_view(["I am left-handed too.", "He is tall."], "left-handed", "tall") == [[False, False], [False, True]]


def test_no_mention_is_lost_by_the_search():
    """All terms of the vocabulary in many spellings, against trying every term on every text."""
    terms = named_people(read_vocabulary())
    rng = np.random.default_rng(0)
    spellings = [str, str.upper, lambda text: text.replace("-", " "), lambda text: text.replace("-", "")]
    spellings += [lambda text: text.replace("who ", "that "), lambda text: re.sub("uses|has", "having", text)]
    texts = []
    for person in terms:
        words = [person.phrase, person.plural or f"{person.descriptor}s"]
        texts.append(spellings[rng.integers(len(spellings))](f"So you know {words[rng.integers(2)]}, then."))
    found = [{mention.term for mention in of_text} for of_text in mentions_in(texts, terms)]
    for term in range(0, 598, 7):
        person = terms[term]
        pattern = mention_pattern((person.descriptor, person.plural))
        for row, text in enumerate(texts):
            if pattern.search(text):
                assert found[row] or person.descriptor == "left-handed", (person, text)
            else:
                assert term not in found[row]


def planted(base, reactions):
    """A classifier that reads the style off a number in the text, and reacts to words."""

    def probabilities(texts):
        vectors = np.array([base[int(re.search(r"#(\d+)", text)[1])] for text in texts])
        for row, text in enumerate(texts):
            vectors[row] += sum((move for word, move in reactions.items() if word in text), np.zeros(NUM_STYLES))
        return vectors

    return probabilities


def leakage_of(texts, keys, terms, classify, debias=False):
    """The leakage in replies, with the mentions and hidden texts that a run would store."""
    descriptors, templates, axes = keys
    replies = Replies([str(row) for row in range(len(texts))], axes, descriptors, templates, texts, texts)
    mentions = mentions_in(texts, terms, list(zip(axes, descriptors, strict=True)))
    rows = [row for row, of_text in enumerate(mentions) if of_text]
    hidden = hidden_texts([texts[row] for row in rows], [mentions[row] for row in rows], terms)
    vectors = Vectors([replies.ids[row] for row in rows], classify(hidden).astype(np.float32)) if rows else None
    table = mention_table(replies.ids, mentions, terms)
    return leakage_in_replies(replies, classify(texts), table, vectors, debias=debias)


def made_replies(seed=0, number=400, named=0.4):
    rng = np.random.default_rng(seed)
    descriptor = rng.integers(5, size=number)
    texts = [
        f"So #{index % 7}, {WORDS[of] if rng.random() < named else 'you'} it is." for index, of in enumerate(descriptor)
    ]
    templates = [f"t{index}" for index in rng.integers(3, size=number)]
    return texts, [f"d{of}" for of in descriptor], templates, ["axis"] * number


@pytest.mark.parametrize("debias", [False, True])
def test_a_reaction_to_terms_is_told_from_differences(debias):
    """The truth is known: the same classifier without its reaction. Replies to each term name a word of their own."""
    rng = np.random.default_rng(3)
    base = rng.dirichlet(np.full(NUM_STYLES, 20.0), 7)
    moves = rng.uniform(-0.02, 0.02, (5, NUM_STYLES))
    moves -= moves.mean(axis=1, keepdims=True)
    reacting = planted(base, dict(zip(WORDS, moves, strict=True)))
    texts, *keys = made_replies()
    found = leakage_of(texts, keys, people(*WORDS), reacting, debias=debias)
    truth = full_gen_bias(planted(base, {})(texts), *keys, debias=debias)
    assert found.value == pytest.approx(full_gen_bias(reacting(texts), *keys, debias=debias), rel=1e-4)
    assert found.hidden_value == pytest.approx(truth, rel=1e-3, abs=1e-4)
    assert found.own == found.value - found.hidden_value
    assert abs(found.own) > 0.01
    assert found.num_in_view == sum(any(word in text for word in WORDS) for text in texts)
    assert found.share_in_view == found.num_in_view / 400
    counts = {row.descriptor: row.num_replies for row in found.most_in_view}
    assert counts == {word: sum(word in text for text in texts) for word in WORDS}


def test_another_name_in_a_reply_is_a_reaction_to_names():
    """The classifier reads "Greg", with which one of two replies is signed, and no "greg"."""
    move = np.array([0.1, -0.1, 0, 0])
    classify = planted(np.full((7, NUM_STYLES), 0.25), {"Greg": move, "greg": move})
    names = people_of(name_prompts([PersonName(name=name, group="A") for name in ("Ada", "Greg Lee")], 1), None)
    texts, keys = ["#0 Hi Alex!\n\nGreg", "#0 Hi Alex, a greg."], (["Ada", "Bo"], ["t"] * 2, ["names"] * 2)
    found = leakage_of(texts, keys, names, classify)
    assert (found.num_in_view, found.most_in_view[0].descriptor) == (1, "Greg Lee")
    assert found.value == pytest.approx(0, abs=1e-6)
    assert found.own == pytest.approx(-1000 * 2 * 0.1**2 / 4, rel=1e-4)


def test_own_terms_are_hidden_in_replies_too(tmp_path):
    prompts, replies = tmp_path / "prompts.csv", tmp_path / "replies.jsonl"
    prompts.write_text("id,prompt\na,I'm {person}.\nb,Do {people} sing?\n", encoding="utf-8")
    options = ["--prompts", prompts, "--terms", "ability:hearing,group:Deaf,group:left-eyed", "--model", "m"]
    options += ["--measurements", "generation", "--replies_per_cell", "2"]
    export_main([str(replies), *map(str, options)])
    rows = [json.loads(line) for line in replies.read_text(encoding="utf-8").splitlines()]
    given = [
        {"id": row["id"], "reply": f"Not all left-eyed or hearing people, {number}."} for number, row in enumerate(rows)
    ]
    replies.write_text("\n".join(map(json.dumps, given)), encoding="utf-8")
    measure_here(*options, "--replies_file", replies, "--output_dir", tmp_path / "run")
    people = pq.read_table(tmp_path / "run" / "people.parquet").to_pylist()
    assert {(row["axis"], row["descriptor"], row["phrase"]) for row in people} == {
        ("ability", "hearing", "a hearing person"),
        ("group", "Deaf", "a Deaf person"),
        ("group", "left-eyed", "a left-eyed person"),
    }
    leakage = read_run(tmp_path / "run").results.generation.identity_leakage
    assert (leakage.num_terms, leakage.in_replies.num_in_view) == (3, len(rows))
