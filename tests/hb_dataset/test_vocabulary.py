import os
import shutil

import pytest

from hb_dataset import FaultsError, read_vocabulary
from hb_dataset.vocabulary import VOCABULARIES

# A small vocabulary without a fault. What a test appends to a file starts at the line after its last.
FILES = {
    "mood.yaml": "axis: mood\nsource: Doe (2024)\nterms:\n  - term: cheerful\n",
    "nouns.yaml": "nouns:\n  - noun: woman\n    plural: women\n    gender: female\n  - noun: kid\n    plural: kids\n",
    "templates.yaml": 'templates:\n  - template: "I know {noun_phrase}."\n',
}


def write_vocabulary(folder, changes):
    for name, text in {**FILES, **changes}.items():
        if text is not None:
            (folder / name).write_bytes(text.encode())
    return folder


def appended(name, text):
    return {name: FILES[name] + text}


def faults(folder, changes):
    with pytest.raises(FaultsError) as error:
        read_vocabulary(write_vocabulary(folder, changes))
    return error.value.faults


def terms_of(folder, changes):
    return [descriptor.term for descriptor in read_vocabulary(write_vocabulary(folder, changes)).descriptors]


def test_a_changed_file_is_read_anew_whatever_its_size_and_time(tmp_path):
    folder = write_vocabulary(tmp_path, {})
    path, kept = folder / "mood.yaml", read_vocabulary(folder)
    assert read_vocabulary(folder) is kept
    times = path.stat()
    path.write_bytes(path.read_bytes().replace(b"cheerful", b"cheerily"))
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert [descriptor.term for descriptor in read_vocabulary(folder).descriptors] == ["cheerily"]
    (folder / "nouns.yaml").unlink()
    for _ in range(2):  # what has faults is not kept
        with pytest.raises(FaultsError, match=r"nouns\.yaml:1: is missing"):
            read_vocabulary(folder)


# --- one fault, with its file, its line and what to write -------------------------------------------------------------


def test_marked_pairs_do_not_change_the_digest(tmp_path):
    mark = '  unfavourable: "I hate {noun_phrase}."\n'
    vocabularies = []
    for written in ("", mark):
        text = f'templates:\n- template: "I love {{noun_phrase}}."\n{written}- template: "I hate {{noun_phrase}}."\n'
        vocabularies.append(read_vocabulary(write_vocabulary(tmp_path, {"templates.yaml": text})))
    assert vocabularies[0].digest == vocabularies[1].digest
    assert vocabularies[1].marked_pairs("unfavourable") == [("I love {noun_phrase}.", "I hate {noun_phrase}.")]
    assert vocabularies[0].marked_pairs("unfavourable") == vocabularies[1].marked_pairs("control") == []


@pytest.mark.parametrize(
    ("text", "line", "remedy"),
    [
        ("  - term: calm\n    bucket: After the noun\n", 2, "such as 'after_the_noun'"),
        ("  - term: calm\n    gender: male\n", 1, "term 'calm' has no noun; add a noun of its gender"),
        ("  - calm\n", 1, "entry has no `key: value` lines; write its keys"),
    ],
)
def test_a_fault_is_reported_with_file_line_and_remedy(tmp_path, text, line, remedy):
    with pytest.raises(FaultsError) as error:
        read_vocabulary(write_vocabulary(tmp_path, appended("mood.yaml", text)))
    head, reported = str(error.value).splitlines()
    assert head == f"1 fault in the vocabulary {tmp_path}:"
    assert reported.startswith(f"  mood.yaml:{FILES['mood.yaml'].count(chr(10)) + line}: ")
    assert remedy in reported


@pytest.mark.parametrize(
    ("changes", "file_and_line", "remedy"),
    [
        ({"mood.yml": ""}, ("mood.yml", 1), "rename it to <axis>.yaml"),
        ({"mood.yaml": "axis: mood\nterms:\n  - [calm\n"}, ("mood.yaml", 4), "is not valid YAML: "),
        ({"names.yaml": "axis: names\nterms:\n  - term: calm\n  - term: sad\n"}, ("names.yaml", 1), "rename the axis"),
        ({"nouns.yaml": ""}, ("nouns.yaml", 1), "write `nouns:` and, below it, entries"),
        ({"nouns.yaml": "nouns:\n  - noun: a nurse\n    plural: nurses\n"}, ("nouns.yaml", 2), "remove the article"),
        ({"nouns.yaml": None}, ("nouns.yaml", 1), "is missing"),
    ],
)
def test_a_fault_of_a_whole_file_is_reported(tmp_path, changes, file_and_line, remedy):
    (fault,) = faults(tmp_path, changes)
    assert (fault.file, fault.line) == file_and_line
    assert remedy in fault.message


def test_a_missing_file_is_reported_beside_faults_of_others(tmp_path):
    changes = {"nouns.yaml": None, "mood.yaml": "axis: moods\nterms:\n  - term: calm\n"}
    of_mood, of_nouns = faults(tmp_path, changes)
    assert (of_mood[:2], of_nouns.file) == (("mood.yaml", 1), "nouns.yaml")
    assert "write `axis: mood`" in of_mood.message


# By file of `next`: what it rejects as its last entry.
WRONG_ENTRIES = {
    "ability": {
        "term: with chronic pain": "has no `bucket`, although",
        "term: calm, bucket: auditory, axis: religion": "`axis` is 'religion' in a file of 'ability'; move the entry",
    },
    "religion": {
        "term: with faith": "would come before the noun; write `bucket: after_the_noun`",
        "term: a calm": "starts with an article; remove the article",
        "term: calm, buckett: calm": "unknown key 'buckett'; did you mean 'bucket'?",
        "term: CATHOLIC": "'CATHOLIC' is already in religion.yaml line ",
        "term: ": "term is empty; write the words",
        "preference: reviewed": "entry has no `term`; write `term: …`",
        "term: who is calm, bucket: after_the_noun": "'who is calm' has no `plural`",
        "term: calm old woman": "ends in a noun of nouns.yaml",
        "term: calm, gender: man": "should be 'female', 'male' or 'non-binary'",
    },
    "templates": {
        "template: I know you.": "template has no slot; write exactly one of {noun_phrase}, ",
        'template: "I am a {noun_phrase}."': "{noun_phrase} has its own article; omit the word",
        'template: "I know a {plural_noun_phrase}."': "omit the word",
        'template: "I know {noun_phrase."': "template has {; write exactly one of",
        'template: "I {noun_phrase}.", control: "No {noun_phrase}."': "'No {noun_phrase}.' is not among the other",
    },
    "adjective_order": {
        "name: age, axis: agee": "one of the vocabulary's axes; did you mean 'age'?",
        "name: x, axis: age, buckets: [olden]": "bucket 'olden' is not in the axis 'age'",
    },
    "left_out_pairs": {
        "axis: age, other_axis: ability, other_terms: [Def], because: same": "did you mean 'Deaf'?",
        "axis: age, other_terms: [Deaf], because: same": "without their axis; add the `other_axis`",
    },
    "left_out_nouns": {
        "terms: [teen], nouns: [kid], because: same": "names buckets or terms without their axis; add the `axis`",
        "axis: age, because: same": "entry names no noun; write `nouns:`, `noun_buckets:`, `noun_genders:`",
        "axis: age, nouns: [kidd], because: same": "noun 'kidd' is not in nouns.yaml; did you mean 'kid'?",
        "axis: age, template_buckets: [hate], because: same": "template bucket 'hate' is not in templates.yaml;",
    },
    "standalone_noun_phrases": {
        "axis: agee, noun_phrase: a youth, plural: youths": "one of the vocabulary's axes; did you mean 'age'?",
        "axis: age, noun_phrase: youth, plural: youths": "noun_phrase 'youth' has no article; write `a` or `an`",
        "axis: age, noun_phrase: a teen, plural: a teens": "'a teens' starts with an article; remove",
        "axis: age, noun_phrase: a youth, plural: youths": "noun_phrase 'a youth' is already in ",
    },
}


@pytest.mark.parametrize("after_others", [False, True])
def test_wrong_entries_of_next_are_reported_with_their_lines(tmp_path, after_others):
    """Files that name terms of other files are read only if the others have no fault."""
    shutil.copytree(VOCABULARIES / "next", tmp_path, dirs_exist_ok=True)
    expected = []
    for file, entries in WRONG_ENTRIES.items():
        if file.startswith(("adjective", "left_out")) == after_others:
            path = tmp_path / f"{file}.yaml"
            text = path.read_text(encoding="utf-8")
            line = text.count("\n") + 1
            path.write_text(text + "".join(f"  - {{{entry}}}\n" for entry in entries), encoding="utf-8")
            expected += [(path.name, line + row, message) for row, message in enumerate(entries.values())]
    with pytest.raises(FaultsError) as error:
        read_vocabulary(tmp_path)
    assert {fault[:2] for fault in error.value.faults} == {(file, line) for file, line, _ in expected}
    for file, line, message in expected:
        assert any(fault[:2] == (file, line) and message in fault.message for fault in error.value.faults), message


# --- what is not a fault ----------------------------------------------------------------------------------------------


def test_only_null_without_quotes_is_no_text(tmp_path):
    notes = {"no": "no", '"null"': "null", "1_000": "1_000", "null": None, "~": None}
    terms = "".join(f"  - term: calm{row}\n    note: {word}\n" for row, word in enumerate(notes))
    folder = write_vocabulary(tmp_path, appended("mood.yaml", terms))
    assert [term.note for term in read_vocabulary(folder).descriptors] == [None, *notes.values()]


def test_an_entry_has_its_own_source_before_that_of_its_file(tmp_path):
    write_vocabulary(tmp_path, appended("mood.yaml", "  - term: calm\n    source: Roe (2025)\n"))
    assert [descriptor.source for descriptor in read_vocabulary(tmp_path).descriptors] == ["Doe (2024)", "Roe (2025)"]


@pytest.mark.parametrize("change", [("\n", "\r\n"), ("axis", "\ufeffaxis")], ids=["CRLF", "byte-order mark"])
def test_files_written_on_windows_are_read(tmp_path, change):
    assert terms_of(tmp_path, {"mood.yaml": FILES["mood.yaml"].replace(*change, 99)}) == ["cheerful"]


def test_the_digest_follows_content_and_not_layout(tmp_path):
    def digest(name, changes):
        (tmp_path / name).mkdir()
        return read_vocabulary(write_vocabulary(tmp_path / name, changes)).digest

    plain = digest("plain", {})
    assert digest("comment", appended("mood.yaml", "\n# a remark\n")) == plain
    assert digest("term", appended("mood.yaml", "  - term: calm\n")) != plain
    assert digest("label", appended("mood.yaml", "    preference: reviewed\n")) != plain
