import json
import shutil
from pathlib import Path

import pytest

from hb_dataset.vocabulary import VOCABULARIES, VocabularyError, read_vocabulary
from hub_scripts.convert_lists import convert_lists, main, vocabulary_texts

LISTS = Path(__file__).parent / "lists_v1.1"


def read(name):
    return json.loads((LISTS / name).read_text(encoding="utf-8"))


@pytest.fixture
def lists(tmp_path):
    return shutil.copytree(LISTS, tmp_path / "lists")


@pytest.fixture(scope="module")
def vocabulary():
    return read_vocabulary(VOCABULARIES / "v1.1")


def edit(path, change):
    content = json.loads(path.read_text(encoding="utf-8"))
    change(content)
    path.write_text(json.dumps(content), encoding="utf-8")


def as_dict(entry, key):
    return {key: entry} if isinstance(entry, str) else entry


def test_the_frozen_version_is_what_the_lists_make():
    frozen = {path.name: path.read_text(encoding="utf-8") for path in (VOCABULARIES / "v1.1").iterdir()}
    assert vocabulary_texts(LISTS) == frozen


def test_terms_have_the_buckets_genders_articles_and_labels_of_the_lists(vocabulary):
    expected = [
        (axis, None if bucket == "all" else bucket, *(entry.get(key) for key in keys))
        for axis, buckets in read("descriptors.json").items()
        for bucket, entries in buckets.items()
        for entry in (as_dict(entry, "descriptor") for entry in entries)
        for keys in [("descriptor", "gender", "article", "preference")]
    ]
    before = [
        (term.axis, term.bucket, term.term, term.gender, term.article, term.preference)
        for term in vocabulary.descriptors
        if term.placement == "before"
    ]
    assert before == expected
    assert len(before) == 583


def test_every_phrase_of_the_lists_is_after_a_noun_or_stands_alone(vocabulary):
    start = "{article} {noun} "
    expected = [
        (axis, entry["noun_phrase"], entry.get("plural_noun_phrase"), entry.get("preference"))
        for axis, entries in read("standalone_noun_phrases.json").items()
        for entry in (as_dict(entry, "noun_phrase") for entry in entries)
    ]
    after = [
        (term.axis, start + term.term, term.plural and start + term.plural, term.preference)
        for term in vocabulary.descriptors
        if term.placement == "after"
    ]
    alone = [
        (phrase.axis, phrase.noun_phrase, phrase.plural, phrase.preference)
        for phrase in vocabulary.standalone_noun_phrases
    ]
    assert (len(after), len(alone)) == (94, 98)
    assert sorted(after + alone, key=repr) == sorted(expected, key=repr)


def test_nouns_and_templates_are_those_of_the_lists(vocabulary):
    nouns = [
        (noun, plural, None if gender == "neutral" else gender)
        for gender, of_gender in read("nouns.json").items()
        for noun, plural in of_gender
    ]
    assert [(noun.noun, noun.plural, noun.gender) for noun in vocabulary.nouns] == nouns
    marks = read("sentence_templates.json")
    assert [template.template for template in vocabulary.templates] == list(marks)
    of_first_turn = {template.template for template in vocabulary.templates if "first turn" in (template.note or "")}
    assert of_first_turn == {template for template, mark in marks.items() if "first_turn_only" in mark}
    of_noun_phrase = {template.template for template in vocabulary.templates if "a term alone" in (template.note or "")}
    assert of_noun_phrase == {template for template, mark in marks.items() if "must_be_noun" in mark}


def test_what_v1_has_keeps_its_source_and_note(vocabulary):
    by_term = {(term.axis, term.term): term for term in vocabulary.descriptors}
    assert by_term["ability", "Deaf"].source == "Smith et al. (2022), Table 5"
    assert by_term["ability", "four-eyed"].source == "Smith et al. (2022), Table 5"  # on another axis there
    assert by_term["ability", "crippled"].source == "HolisticBias v1.1, the authors' lists"
    assert by_term["religion", "Unitarian"].note.startswith('said "yoo-"')


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("descriptors.json", lambda lists: lists["age"]["old"].append({"descriptor": "x", "label": 1}), "key 'label'"),
        ("standalone_noun_phrases.json", lambda lists: lists["age"].append({"noun_phrase": "a x", "p": 1}), "key 'p'"),
        (
            "standalone_noun_phrases.json",
            lambda lists: lists["age"].append("a tall {noun}"),
            "'a tall {noun}', which is neither a whole phrase nor one that starts with '{article} {noun} '",
        ),
        ("sentence_templates.json", lambda lists: lists.update({"I am {noun_phrase}.": {"late": True}}), "key 'late'"),
    ],
)
def test_what_is_not_known_is_refused(lists, tmp_path, name, change, message):
    edit(lists / name, change)
    with pytest.raises(ValueError, match=rf"^{name} has ") as caught:
        convert_lists(lists, tmp_path / "out")
    assert message in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_faults_of_the_words_are_those_of_any_vocabulary(lists, tmp_path):
    edit(lists / "standalone_noun_phrases.json", lambda lists: lists["age"].append({"noun_phrase": "youth"}))
    with pytest.raises(VocabularyError, match="entry has no `plural`"):
        convert_lists(lists, tmp_path / "out")


def test_the_command_says_in_one_line_what_is_wrong(lists, tmp_path, capsys):
    main([str(lists), str(tmp_path / "out")])
    assert "677 terms" in capsys.readouterr().out
    with pytest.raises(SystemExit, match=r"out' exists and is not an empty folder; give another, or remove it"):
        main([str(lists), str(tmp_path / "out")])
    (lists / "nouns.json").write_text("[]", encoding="utf-8")
    with pytest.raises(SystemExit, match=r"nouns\.json' cannot be read \(it is not an object\); give a folder with"):
        main([str(lists), str(tmp_path / "other")])
    with pytest.raises(SystemExit, match=r"descriptors\.json' cannot be read \(.*No such file"):
        main([str(tmp_path / "nowhere"), str(tmp_path / "other")])
