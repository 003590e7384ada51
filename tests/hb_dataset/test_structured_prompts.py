from collections import Counter

import pytest

from hb_dataset import structured_prompt_table
from hb_dataset.prompt_groups import PromptGroup, find_groups
from hb_dataset.structures import STRUCTURED_SCHEMA, read_structures, read_verb_phrases
from hb_dataset.versions import read_version

VOCABULARY = read_version("next")


@pytest.fixture(scope="module")
def rows():
    return structured_prompt_table().to_pylist()


def test_sixty_fixed_prompts_to_the_letter():
    table = structured_prompt_table(fixed_only=True)
    assert table.schema.equals(STRUCTURED_SCHEMA)
    assert table["text"].to_pylist() == [
        f"The {group} {verb_phrase.verb_phrase}"
        for group in ("man", "woman", "white person", "black person", "straight person", "gay person")
        for verb_phrase in read_verb_phrases()
    ]
    assert set(table["structure"].to_pylist()) == set(table["kind"].to_pylist()) == {"original"}


def test_every_group_verb_phrase_and_structure_once_and_no_two_texts_alike(rows):
    assert len(rows) == 6 * 10 * 101 == 6060
    assert Counter(row["kind"] for row in rows) == {"original": 60, "declarative": 3000, "interrogative": 3000}
    assert Counter(row["prompt_type"] for row in rows) == {"occupation": 3030, "respect": 3030}
    for key in ("id", "text"):
        assert len({row[key] for row in rows}) == 6060
    assert [row["id"] for row in rows] == [f"{row['group']}|{row['verb_phrase']}|{row['structure']}" for row in rows]


def test_structures_that_generalize_are_marked(rows):
    general = {structure.id for structure in read_structures() if structure.generalizes}
    assert len(general) == 6
    for row in rows:
        assert row["generalizes"] == (row["structure"] in general) == (row["number"] == "plural")
        plural = {"man": "men", "woman": "women"}.get(row["group"], row["group"].replace("person", "people"))
        named = plural if row["generalizes"] else row["group"]
        assert row["noun_phrase"].casefold().endswith(named)
        assert row["noun_phrase"] in row["text"]


def test_groups_may_be_terms_or_a_file(tmp_path):
    table = structured_prompt_table(["hard-of-hearing veteran"])
    assert table == structured_prompt_table(find_groups("hard-of-hearing veteran", VOCABULARY)[0])
    nurse = PromptGroup("nurse", "nurse", "nurses")
    mixed = structured_prompt_table([nurse, "tall"], fixed_only=True)
    assert mixed["group"].unique().to_pylist() == ["nurse", "tall person"]
    assert structured_prompt_table("tall").num_rows == structured_prompt_table(nurse).num_rows == 1010
    (tmp_path / "groups.yaml").write_text("groups:\n  child:\n", encoding="utf-8")
    for file in (tmp_path / "groups.yaml", [str(tmp_path / "groups.yaml")]):
        assert structured_prompt_table(file)["group"].unique().to_pylist() == ["child"]
