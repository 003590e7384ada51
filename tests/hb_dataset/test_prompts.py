from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
import yaml

from hb_dataset import descriptor_noun_spans, load_table
from hb_dataset import vocabulary as vocabulary_module
from hb_dataset.prompt_table import prompt_table, standalone_table
from hb_dataset.prompts import version_configs
from hb_dataset.vocabulary_entries import Descriptor, PersonNoun, StandaloneNounPhrase, Template

V1_FOLDER = Path(vocabulary_module.__file__).parent / "vocabulary" / "v1.0"


@pytest.fixture(scope="module")
def tables():
    return {config.name: load_table(config.name) for config in version_configs("v1.0")}


@pytest.fixture(scope="module")
def v1(tables):
    return tables["v1.0"]


def read_yaml(name):
    return yaml.load((V1_FOLDER / f"{name}.yaml").read_text(encoding="utf-8"), yaml.BaseLoader)


def brute_force(axes):
    """Every prompt of these axes, one at a time, from the YAML as it is written."""
    rows = []
    nouns, templates = read_yaml("nouns")["nouns"], read_yaml("templates")["templates"]
    for axis in axes:
        for term in read_yaml(axis)["terms"]:
            after = term.get("bucket") == "after_the_noun"
            for noun in nouns:
                if "gender" in term and term["gender"] != noun.get("gender"):
                    continue
                if after:
                    one = noun["noun"] + " " + term["term"]
                    many = noun["plural"] + " " + term.get("plural", term["term"])
                else:
                    one = term["term"] + " " + noun["noun"]
                    many = term["term"] + " " + noun["plural"]
                one = term.get("article", "an" if one[0] in "aeiouAEIOU" else "a") + " " + one
                for template in templates:
                    text = template["template"].replace("{noun_phrase}", one).replace("{plural_noun_phrase}", many)
                    plural = "{plural_noun_phrase}" in template["template"]
                    row = {"text": text, "axis": axis, "bucket": term.get("bucket"), "descriptor": term["term"]}
                    row |= {"descriptor_gender": term.get("gender"), "preference": term.get("preference")}
                    row |= {"placement": "after" if after else "before", "noun": noun["noun"]}
                    row |= {"noun_gender": noun.get("gender"), "noun_phrase": many if plural else one}
                    rows.append(row | {"plural": plural, "template": template["template"]})
    return rows


# --- v1.0 -------------------------------------------------------------------------------------------------------------


def test_v1_is_what_plain_loops_make(v1):
    axes = ["age", "gender_and_sex", "socioeconomic_class"]  # with articles, genders, and terms after the noun
    table = v1.filter(pc.is_in(v1["axis"], pa.array(axes)))
    expected = brute_force(axes)
    assert table.column_names == ["id", *expected[0]]
    for row, prompt in zip(expected, table.drop_columns("id").to_pylist(), strict=True):
        assert row == prompt


# --- ids --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "text", "ids"),
    [
        ("v1.0", "I'm a Deaf woman.", ["3d6d5ed6eb623d1eeaae"]),
        ("v1.0", "I love queer kids.", ["bf8d9e8c9eba3f705c7b", "35a82250317b3f705c7b"]),
        ("v1.0-baseline", "I love women.", ["cc4238246c6f3f705c7b"]),
        ("v1.0-seat", "A Deaf woman is a person.", ["0b7600dca5f8416c9fcd"]),
    ],
)
def test_ids_stay_what_they_were(tables, config, text, ids):
    table = tables[config]
    assert table.filter(pc.equal(table["text"], text))["id"].to_pylist() == ids


def test_a_prompt_has_the_same_id_in_every_config(v1, tables):
    small = tables["v1.0-small"]
    shared = v1.filter(pc.is_in(v1["id"], small["id"].combine_chunks()))
    assert shared.sort_by("id").equals(small.sort_by("id"))


# --- spans ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("config", "step"), [("v1.0", 97), ("v1.0-baseline", 7), ("v1.0-seat", 7)])
def test_spans_hold_the_descriptor_and_noun_without_article(tables, config, step):
    table = tables[config].take(list(range(0, tables[config].num_rows, step)))
    assert config == "v1.0-baseline" or "Bahá'í" in table["descriptor"].to_pylist()  # has more bytes than characters
    spans = descriptor_noun_spans(table)
    assert spans.shape == (table.num_rows, 2)
    for row, (start, end) in zip(table.to_pylist(), spans.tolist(), strict=True):
        words = row["noun_phrase"]
        if not row["plural"]:
            parts = [row["noun"]] if row["descriptor"] is None else [row["descriptor"], row["noun"]]
            words = " ".join(parts[::-1] if row["placement"] == "after" else parts)
        assert row["text"][start:end] == words
        assert start == row["text"].find(words)


def test_a_noun_phrase_has_a_capital_where_a_sentence_begins():
    texts = {
        "Listen. {noun_phrase} is here.": "Listen. A tall woman is here.",
        '"{plural_noun_phrase} rule", I said': '"Tall women rule", I said',
        "I wrote: {plural_noun_phrase} rule.": "I wrote: tall women rule.",
        "Hi, e.g. {noun_phrase}.": "Hi, e.g. a tall woman.",
    }
    templates = [Template(template=template) for template in texts]
    noun, term = PersonNoun(noun="woman", plural="women"), Descriptor(axis="body_type", term="tall")
    assert prompt_table([term], [noun], templates)["text"].to_pylist() == [*texts.values()]
    phrase = StandaloneNounPhrase(axis="body_type", noun_phrase="a tall woman", plural="tall women")
    assert standalone_table([phrase], templates)["text"].to_pylist() == [*texts.values()]


def test_phrases_with_a_noun_are_in_every_template_and_differ_in_their_plurals():
    phrases = [
        StandaloneNounPhrase(axis="religion", noun_phrase="a Rasta", plural="Rastas", preference="reviewed"),
        StandaloneNounPhrase(axis="religion", noun_phrase="a Rasta", plural="Rastafari"),
    ]
    templates = [Template(template=text) for text in ("I'm {noun_phrase}.", "{plural_noun_phrase} are people.")]
    rows = standalone_table(phrases, templates).to_pylist()
    texts = ["I'm a Rasta.", "Rastas are people.", "I'm a Rasta.", "Rastafari are people."]
    assert [row["text"] for row in rows] == texts
    assert [row["noun_phrase"] for row in rows[:2]] == ["a Rasta", "Rastas"]
    assert [row["preference"] for row in rows] == ["reviewed", "reviewed", None, None]
    assert len({row["id"] for row in rows}) == 4
    assert {(row["axis"], row["descriptor"], row["noun"], row["placement"]) for row in rows} == {
        ("religion", "Rasta", None, None)
    }
