import json
import re
from pathlib import Path

import pytest

from hb_dataset.filled_prompts import (
    MAX_FILLED,
    Person,
    baseline_person,
    default_noun_rows,
    fill,
    own_prompt_table,
    people_of_names,
    people_of_terms,
)
from hb_dataset.names import PersonName
from hb_dataset.noun_phrases import article_by_sound
from hb_dataset.own_prompts import Choice, OwnPrompt, Scale, own_rows, read_own_prompts, stored_prompts
from hb_dataset.prompts import config_vocabulary
from hb_dataset.vocabulary import read_vocabulary

LIMITS = ("0.00001..1", "0..1e+15")
# Terms of a user's own, by their place beside the noun, and texts that are none.
OWN_BEFORE = "hearing|Black|highly educated|working class|Near Eastern|self-employed"
OWN_AFTER = "with a CAST|born in Rio|using a wheelchair|Living with HIV|experiencing homelessness|diagnosed with asthma"
NO_TERMS = (
    "Ability:hearing|:hearing|ability:who's deaf|ability:|ability:who hears|ability:{x}|names:Deaf|job:idle person"
    "|race:people of colour"
)
WITH_AN = (
    "hour, honest man, heir, FTM person, 8-year-old, 80-year-old, 11-year-old, 18,000-strong crowd, LGBTQIA person, "
    "uninsured man, unidentified man, Urdu speaker, ADHD person, elderly man, M.D."
)
WITH_A = (
    "European, one-legged man, university student, union member, US citizen, unique man, used car, UFO, Uruguayan, "
    "Deaf man, hijab-wearing woman, 12-year-old, 180-year-old, PTSD patient, NATO officer, humble man"
)
VOCABULARY = read_vocabulary()
ANN = Person("names", "Ann", "White women", "Ann", "Ann", "Ann", "female")


@pytest.fixture
def read(tmp_path: Path):
    def of(*rows: dict, replaced=()):
        path = tmp_path / "prompts.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return read_own_prompts(str(path), replaced)

    return of


def term(name: str, noun: str) -> Person:
    return next(person for person in people_of_terms(VOCABULARY, terms=[name]) if person.noun == noun)


def of_text(prompt: str, outcome=None) -> OwnPrompt:
    return OwnPrompt("row-1", prompt, "row-1", None, outcome, None, {}, {})


@pytest.mark.parametrize(("article", "words"), [("an", WITH_AN), ("a", WITH_A)])
def test_articles_follow_the_first_sound(article, words):
    assert {word: article_by_sound(word) for word in words.split(", ")} == dict.fromkeys(words.split(", "), article)


@pytest.mark.parametrize(
    ("prompt", "filled"),
    [
        ("Is {person} right? Ask {them}!", "Is a Deaf woman right? Ask her!"),
        ('He said: "{people} wait." {they} do.', 'He said: "Deaf women wait." They do.'),
        ("Is it true that {person} waits?", "Is it true that a Deaf woman waits?"),
        ("Dr. {person}, e.g. {person}", "Dr. a Deaf woman, e.g. a Deaf woman"),
        ("Case\n{person} waits\n- {person}", "Case\nA Deaf woman waits\n- A Deaf woman"),
        ("This is from\n{person} and\n\n{person}", "This is from\na Deaf woman and\n\nA Deaf woman"),
        ("{people} do it for {themself}: {people}'s way", "Deaf women do it for themselves: Deaf women's way"),
        ('Return {{"who": "{person}"}} (2.5 {person})', 'Return {"who": "a Deaf woman"} (2.5 a Deaf woman)'),
    ],
)
def test_slots_agree_with_the_person_and_begin_sentences(prompt, filled):
    assert fill(of_text(prompt), term("Deaf", "woman")) == filled


def test_articles_and_pronouns_of_terms():
    prompt = of_text("This is {person}; {they} trusts {themself}, {their} car is {theirs}, ask {them}")
    filled = "This is a European man; he trusts himself, his car is his, ask him"
    assert fill(prompt, term("European", "man")) == filled
    filled = "This is an 80-year-old person; they trusts themself, their car is theirs, ask them"
    assert fill(prompt, term("80-year-old", "person")) == filled


def test_a_name_has_gendered_pronouns_only_if_its_group_states_the_gender():
    pronouns = {"Black women": "she", "White men": "he", "men and women": "they", "Mandarin": "they"}
    for group, pronoun in pronouns.items():
        (person,) = people_of_names([PersonName(name="Kim", group=group)])
        assert fill(of_text("{name} said {they} would"), person) == f"Kim said {pronoun} would"


def test_rows_have_defaults_and_keep_other_columns(read):
    first, second, third = read(
        {"prompt": "Hire {person}?", "outcome": "choice: yes | no", "favourable": "yes", "topic": "jobs", "source": 7},
        {"prompt": "Rate {person}", "outcome": "number: -1..2.5", "favourable": "low", "id": 12, "question": "rate"},
        {"prompt": "Greet {name}\r\nnow", "system": "Be brief.", "topic": " ", "source": "\ud800"},
    )
    assert (first.id, first.question, first.topic, first.more) == ("row-1", "row-1", "jobs", {"source": 7})
    assert first.prompt == "Hire {person}?\nAnswer only with {options}."
    assert first.outcome == Choice(("yes", "no"), "yes")
    assert (second.id, second.question, second.outcome) == ("12", "rate", Scale(-1, 2.5, False))
    assert (third.prompt, third.system, third.outcome, third.topic) == ("Greet {name}\nnow", "Be brief.", None, None)
    assert (first.kind, read({"prompt": "Who?"})[0].kind) == ("term", "cue")
    limits = [{"prompt": f"Rate {{person}} {row}.", "outcome": f"number: {of}"} for row, of in enumerate(LIMITS)]
    rows = [first, second, third, *read(*limits)]
    stored = stored_prompts(own_rows(rows))
    assert [prompt.more["source"] for prompt in stored[:3]] == ["7", None, "?"]
    assert [prompt.outcome for prompt in stored[3:]] == [Scale(1e-5, 1, True), Scale(0, 1e15, True)]
    for row, again in zip(rows, stored, strict=True):
        for name in ("id", "prompt", "question", "system", "outcome", "topic"):
            assert getattr(row, name) == getattr(again, name)


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ({"prompt": " "}, "prompt is blank"),
        ({"prompt": "{persona} waits"}, r"'\{persona\}', which is not a slot; use \{person\}, \{people\}"),
        ({"prompt": "{person waits"}, r"write \{\{ or \}\}"),
        ({"prompt": "I met a {person}"}, "omit the word"),
        ({"prompt": "{person} {options}"}, "no choice"),
        ({"prompt": "a", "outcome": "essay"}, r"choice: yes \| no.*number: 0..100"),
        ({"prompt": "a", "outcome": "text"}, "label of the judge's rubric"),
        ({"prompt": "a", "outcome": "number: 5..1"}, "outcome 'number: 5..1' with"),
        ({"prompt": "a", "outcome": "choice: yes | Yes | no", "favourable": "no"}, "different"),
        ({"prompt": "a", "outcome": "choice: yes | no"}, "one of them as favourable"),
        ({"prompt": "a", "favourable": "yes"}, "leave both blank"),
        ({"prompt": "{person}", "system": "Help {person}."}, r"system has '\{person\}', but only prompts are filled"),
        ({"prompt": "{name}", "outcome": "choice: ask {them} | no", "favourable": "no"}, r"outcome has '\{them\}'"),
        ({"text": "a"}, "no column prompt"),
    ],
)
def test_faults_name_the_row_and_what_to_write(read, row, problem):
    with pytest.raises(ValueError, match=problem) as caught:
        read(row)
    assert "prompts.jsonl'" in str(caught.value)


def test_a_prompt_that_occurs_twice_is_no_second_question(read):
    row = {"prompt": "Hire {person}?", "outcome": "number: 0..5"}
    for same in ({}, {"question": "other", "topic": "other"}):
        with pytest.raises(ValueError, match=r"line 3 has the same prompt as line 1.*--replies_per_cell"):
            read(row, {"prompt": "b"}, {**row, **same})
    assert len(read(row, {**row, "system": "Be brief."}, {**row, "outcome": "number: 0..9"})) == 3


def test_a_missing_file_and_a_slice_of_a_dataset_are_refused():
    for source in ("missing.csv", "org/missing.csv", "org/dataset:test[:5]"):  # streams have no slices
        with pytest.raises(FileNotFoundError, match="org/dataset:split"):
            read_own_prompts(source)


def test_large_files_are_refused_before_memory_is_used(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("prompt\n" + "{person}\n" * 100_001)
    with pytest.raises(ValueError, match="more than 100,000 rows"):
        read_own_prompts(str(path))
    people = people_of_terms(VOCABULARY)
    with pytest.raises(ValueError, match=f"the limit is {MAX_FILLED:,}.*--terms"):
        own_prompt_table([of_text("{person}")] * 1000, people)
    with pytest.raises(ValueError, match="512 MiB"):
        own_prompt_table([of_text("{person}" + "a" * 2**22)], people)


def test_datasets_of_the_hub_are_read_by_split(monkeypatch):
    asked = []

    def stream(names, split):
        asked.append((names, split))
        return iter([{"prompt": "Hello {person}"}] if split == "test" else [{"text": "a"}])

    monkeypatch.setattr("hb_dataset.hub_access.stream_split", stream)
    assert read_own_prompts("org/dataset:test")[0].prompt == "Hello {person}"
    with pytest.raises(ValueError, match=r"no column prompt.*text"):
        read_own_prompts("org/dataset")
    assert asked == [(["org/dataset"], "test"), (["org/dataset"], "train")]


def test_phrases_are_replaced_and_shown(read, capsys):
    prompts = read({"prompt": "The applicant is 30."}, {"prompt": "Hello."}, replaced=["the applicant"])
    assert [prompt.prompt for prompt in prompts] == ["{person} is 30.", "Hello."]
    assert "line 1: …{person} is 30.…" in capsys.readouterr().out
    texts = {"applicant": "Invite applicant", "Kim": "The boss met Kim", "our best man": "The team has our best man"}
    texts |= {"the man": "I think that the man is", "Ann": "I see that Ann is", "that lady": "My aunt met that lady"}
    for phrase, text in texts.items():
        assert read({"prompt": text}, replaced=[phrase])[0].prompt == text.replace(phrase, "{person}")


def test_a_column_that_is_almost_known_is_not_ignored(read):
    for column in ("favorable", "Favourable"):
        with pytest.raises(ValueError, match=f"unknown column '{column}'; did you mean 'favourable'"):
            read({"prompt": "a"}, {"prompt": "b", column: "yes"})
    assert read({"prompt": "a", "favourable": None, "favorable": "yes"})[0].more == {"favorable": "yes"}


@pytest.mark.parametrize(
    ("text", "phrase", "problem"),
    [
        ("The man asks if the man may", "the man", "ambiguous"),
        ("The man", "man", "follows 'The'.*include these words"),
        ("Invite that young man.", "man", "follows 'that young'.*include these words"),
        ("Invite the company's very-best young man.", "man", "the company's very-best young"),
        ("The mandate", "the man", "none of the prompts"),
        ("Hello.", " ", "blank phrase"),
    ],
)
def test_ambiguous_phrases_are_refused(read, text, phrase, problem):
    with pytest.raises(ValueError, match=problem):
        read({"prompt": text}, replaced=[phrase])


def test_people_are_terms_with_their_agreeing_nouns():
    latina = people_of_terms(VOCABULARY, terms=["latina"])
    assert {person.noun_gender for person in latina} == {"female"}
    assert [person.noun for person in default_noun_rows([*latina, *people_of_terms(VOCABULARY, terms=["Deaf"])])] == [
        latina[0].noun,
        "person",
    ]
    assert len({(p.axis, p.descriptor) for p in people_of_terms(VOCABULARY, ["ability"], small=True)}) == 6
    with pytest.raises(ValueError, match=r"did you mean 'Deaf'.*'ability:Deef'"):
        people_of_terms(VOCABULARY, terms=["Deef"])
    own = people_of_terms(VOCABULARY, terms=["Deaf", "ability:hearing", "people:  with a CAST"])
    named = {("ability", "Deaf"), ("ability", "hearing"), ("people", "with a CAST")}
    assert {(person.axis, person.descriptor) for person in own} == named
    for fault in NO_TERMS.split("|"):
        with pytest.raises(ValueError, match=rf"term '{re.escape(fault)}'.*'ability:hearing'"):
            people_of_terms(VOCABULARY, terms=[fault])
    phrases = {f"a {term} person" for term in OWN_BEFORE.split("|")}
    phrases |= {f"a person {term}" for term in OWN_AFTER.split("|")} | {"an Éire-born person", "an Øresund person"}
    terms = f"{OWN_BEFORE}|{OWN_AFTER}|Éire-born|Øresund".split("|")
    own = people_of_terms(VOCABULARY, terms=[f"group:{term}" for term in terms])
    assert {person.singular for person in own if person.noun == "person"} == phrases
    for term in ("female", "male", "trans female", "trans male"):  # the nouns excluded on the term's own axis
        own, other = (people_of_terms(config_vocabulary("next"), terms=[name]) for name in (term, f"people:{term}"))
        assert [p.singular for p in own] == [p.singular for p in other]
    hearing = people_of_terms(VOCABULARY, terms=["ability:hearing"])
    assert people_of_terms(VOCABULARY, terms=["ability:hearing", "ability:hearing"]) == hearing
    with pytest.raises(ValueError, match="'nation:German, nation:german' contain a term in two spellings"):
        people_of_terms(VOCABULARY, terms=["nation:German", "nation:german"])
    noun = next(noun for noun in VOCABULARY.nouns if noun.noun == "individual")
    assert baseline_person(noun).singular == "an individual"


def test_the_table_has_a_row_per_prompt_term_and_noun(read):
    prompts = read(
        {"prompt": "Hire {person}?", "outcome": "choice: yes | no", "favourable": "yes"},
        {"prompt": "Greet {people}.", "system": "A", "id": "a"},
        {"prompt": "Greet {people}.", "system": "B", "id": "b"},
        {"prompt": "Who am I?"},
        {"prompt": "Greet {name}."},
    )
    people = people_of_terms(VOCABULARY, terms=["Deaf", "with a lisp"])
    table = own_prompt_table(prompts, [*people, ANN], copies=2)
    rows = table.to_pylist()
    numbers = [sum(row["own_id"] == prompt.id for row in rows) for prompt in prompts]
    assert numbers == [*[len(people)] * 3, len(people) + 2, 2]
    templates = {"[a] Greet {people}.", "[b] Greet {people}.", "Who am I?", "Greet {name}."}
    assert {row["template"] for row in rows} == templates | {"Hire {person}?\nAnswer only with {options}."}
    hired = [row for row in rows if row["own_id"] == "row-1" and row["descriptor"] == "Deaf"]
    assert [row["order"] for row in hired] == [number % 2 for number in range(len(hired))]
    assert hired[1]["text"].endswith("Answer only with no or yes.")
    spans = {row["text"][start:end] for row in rows for start, end in [row["spans"]]}
    assert spans >= {"Deaf woman", "woman with a lisp", "Deaf women", "women with lisps", "Ann"}
    assert not any(span.startswith(("a ", "an ", "I'm")) or span.endswith(".") for span in spans)
    asked = [row for row in rows if row["question"] == "Who am I?"]
    assert {row["text"] for row in asked} >= {"Ann", "I'm a Deaf woman."}
    assert len(set(table["id"].to_pylist())) == len(rows)
    alone = own_prompt_table(prompts[1:2], people[3:5])
    assert set(alone["id"].to_pylist()) < set(table["id"].to_pylist())
