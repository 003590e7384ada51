import shutil

import pytest

from hb_dataset.versions import version_folder
from hub_scripts.check_terms import check
from hub_scripts.near_terms import differ_in_ending
from hub_scripts.term_history import version_history
from hub_scripts.term_report import as_markdown, as_text
from tests.hub_scripts.versions_on_disk import freeze_small

NEXT = version_folder("next")


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """Of a folder beside no versions, where terms that v1.1 removed are added again."""
    folder = shutil.copytree(NEXT, tmp_path_factory.mktemp("own") / "vocabulary")
    for axis, term in (("cultural", "incel"), ("age", "Miniature"), ("age", "growing")):
        bucket = {"cultural": "cultural_descriptors", "age": "young"}[axis]
        with (folder / f"{axis}.yaml").open("a", encoding="utf-8") as file:
            file.write(f"  - term: {term}\n    bucket: {bucket}\n    source: a test\n")
    return check(folder, show=0)


def test_v1_1_removed_and_renamed_what_it_did():
    (history,) = version_history()
    assert (history.before, history.version) == ("v1.0", "v1.1")
    gone = {(gone.entry.axis, gone.entry.name): [near.name for near in gone.near] for gone in history.removed}
    assert gone == {
        ("ability", "cochlear-implant-using"): [],
        ("ability", "wheelchair-user"): ["who uses a wheelchair", "a wheelchair user"],
        ("body_type", "miniature"): [],
        ("body_type", "glasses-wearing"): ["glasses-wearing"],
        ("cultural", "blue-collar"): ["blue-collar"],
        ("cultural", "white-collar"): ["white-collar"],
        ("cultural", "incel"): [],
        ("political_ideologies", "anti-vaxxer"): ["anti-vax"],
        ("race_ethnicity", "Arabic"): ["Arab"],
        ("socioeconomic_class", "trailer trash"): [],
    }
    renamed = {change.before.name: (change.after.axis, change.after.name) for change in history.renamed}
    assert renamed["who is deaf"] == ("ability", "who is Deaf")
    assert renamed["pro-choice"] == ("cultural", "pro-choice")
    assert len(renamed) == 10


def test_the_check_shows_it(report):
    text, markdown = as_text(report), as_markdown(report)
    assert "\nRemoved in v1.1, compared with v1.0:\n" in text
    assert "'Arabic', axis race_ethnicity, bucket white" in text
    assert "(still there: Arab in race_ethnicity)\n" in text
    assert "\nRenamed or moved in v1.1, compared with v1.0:\n" in text
    assert "'pro-life': axis political_ideologies → cultural" in text
    assert "<summary>Removed in v1.1, compared with v1.0: 10</summary>" in markdown
    assert (
        "| `Arabic` | term, axis `race_ethnicity`, bucket `white`, preference `dispreferred` | `Arab` in " in markdown
    )
    assert "<summary>Renamed or moved in v1.1, compared with v1.0: 10</summary>" in markdown


def test_a_term_that_was_removed_is_pointed_out_if_it_comes_back(report):
    returned = [fault.message for fault in report.to_look_at if "removed it" in fault.message]
    assert returned == [
        "term 'Miniature' was in v1.0 (body_type), and v1.1 removed it; if it is to be back, say in `note` why, else "
        "remove it",
        "term 'incel' was in v1.0 (cultural), and v1.1 removed it; if it is to be back, say in `note` why, else remove "
        "it",
    ]


def test_one_version_has_no_history_and_a_missing_folder_is_left_out(tmp_path, monkeypatch):
    root = freeze_small(tmp_path, "v1.0")
    monkeypatch.setattr("hb_dataset.vocabulary.VOCABULARIES", root)
    assert version_history() == ()
    freeze_small(root, "v2.0", without="age")
    assert {gone.entry.axis for gone in version_history()[0].removed} == {"age"}
    shutil.rmtree(root / "v1.0")
    assert version_history() == ()


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("Arab", "Arabic", True),
        ("anti-vax", "anti-vaxxer", True),
        ("Arab", "Arab", False),
        ("fat", "fatter", False),
        ("trans", "transgender", False),
        ("Korea", "Chorean", False),
    ],
)
def test_phrases_that_differ_in_their_ending(one, other, expected):
    assert differ_in_ending(one, other) == differ_in_ending(other, one) == expected
