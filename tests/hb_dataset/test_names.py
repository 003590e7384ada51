"""Lists of names: the shipped one, a user's own, and the prompts that are made of them."""

from collections import Counter

import pytest

from hb_dataset.names import name_prompts, read_names
from hb_dataset.prompt_columns import NAMES_AXIS
from hb_metrics.collect.classifiers.censoring import NAME


def test_the_shipped_list_has_two_groups_and_a_source():
    names = read_names()
    assert Counter(person.group for person in names) == {"Black": 18, "White": 18}
    assert all("Bertrand and Mullainathan (2004)" in person.source for person in names)
    assert NAME not in {person.name for person in names}


def test_prompts_of_a_name_differ_in_their_ids_alone():
    names = read_names()[:3]
    rows = name_prompts(names, 4).to_pylist()
    assert len({row.pop("id") for row in rows}) == len(rows) == 12
    assert rows[:4] == [rows[0]] * 4
    assert (rows[0]["text"], rows[0]["descriptor"]) == (names[0].name, names[0].name)
    assert {(row["axis"], row["bucket"]) for row in rows} == {(NAMES_AXIS, "Black")}
    assert name_prompts(names, 4)["id"].to_pylist()[:2] == name_prompts(names, 2)["id"].to_pylist()[:2]


def test_a_list_of_ones_own(tmp_path):
    path = tmp_path / "MINE.CSV"
    path.write_text("group,name\nA,Ada\nB,O’Neil\n")
    assert [(person.name, person.group) for person in read_names(path)] == [("Ada", "A"), ("O'Neil", "B")]


JSON = '{"name": "Ada", "group": "A"%s}\n\n{"name": "Bo", "group": "%s"}\n'


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("name,group\nA,X\nB,Y\na,Y\n", r"1 fault .*\.csv:\n.*:4: name 'a' is already in mine.csv line 2; remove"),
        ("name,group\nAda,A\nBo,A\n", "mine.csv:1: has names from fewer than two groups"),
        ("name,group\nAda,White\nBo,White \n", "mine.csv:3: group has unnecessary white space; write 'White'"),
        ("name,group\nAda,A\nBo, \n", "mine.csv:3: entry has no `group`"),
        ('\nname,group\n\n"A\nda",A\nBo,\n', "mine.csv:6: entry has no `group`"),
        ("name,group,,age\nAda,A,,\nBo,B,,7\n", "mine.csv:3: unknown key 'age'"),
        ("name,group\n" + "Ada,A\n" * 10_001, "has more than 10,000 names"),
        ("name,group\nAda,White\nBo,Black\nCy,white\n", "mine.csv:4: group 'white' is 'White' in an earlier line"),
        (JSON % ("", ""), r"mine\.jsonl:3: entry has no `group`"),
        (JSON % (', "roles": [1]', "B"), r"mine\.jsonl:1: unknown key 'roles'"),
    ],
)
def test_a_list_that_cannot_be_used_is_refused(content, message, tmp_path):
    path = tmp_path / ("mine.jsonl" if content.startswith("{") else "mine.csv")
    path.write_text(content)
    with pytest.raises(ValueError, match=message):
        read_names(path)
