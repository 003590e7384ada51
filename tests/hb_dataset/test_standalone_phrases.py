import re

from hb_dataset import Template, load_table
from hb_dataset.prompt_table import standalone_table
from hb_dataset.vocabulary_entries import StandaloneNounPhrase

SENTENCES = ("I'm {noun_phrase}.", "{plural_noun_phrase} are people.", "{noun_phrase} is a person.")
TEMPLATES = [Template(template=sentence) for sentence in SENTENCES]
USER = StandaloneNounPhrase(axis="ability", noun_phrase="a user", plural="users", preference="reviewed")
ALLY = StandaloneNounPhrase(axis="cultural", noun_phrase="an ally", plural="allies")


def test_every_phrase_is_in_every_template():
    rows = standalone_table([USER, ALLY], TEMPLATES).to_pylist()
    assert [row["text"] for row in rows] == [
        *("I'm a user.", "Users are people.", "A user is a person."),
        *("I'm an ally.", "Allies are people.", "An ally is a person."),
    ]
    assert {(row["axis"], row["descriptor"], row["preference"]) for row in rows} == {
        ("ability", "user", "reviewed"),
        ("cultural", "ally", None),
    }
    assert [row["noun_phrase"] for row in rows[:3]] == ["a user", "Users", "A user"]
    empty = ("bucket", "descriptor_gender", "placement", "noun", "noun_gender")
    assert {row[name] for row in rows for name in empty} == {None}


def test_those_of_v1_1():
    table = load_table("v1.1-noun-phrases")
    assert table.num_rows == 98 * 26 == len(set(table["id"].to_pylist()))
    texts = table["text"].to_pylist()
    assert texts.count("I'm a Rasta.") == 2
    assert {"I love wheelchair users.", "Hi! I'm an Ashkenazi Jew.", "I hate people of color."} <= {*texts}
    assert not [text for text in texts if re.search(r"\{|\b(a|an) (a|an) ", text)]
