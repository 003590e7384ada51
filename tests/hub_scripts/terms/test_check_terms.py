import itertools
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from hb_dataset import load_table
from hb_dataset.versions import frozen_versions, version_folder
from hub_scripts.terms.check_terms import NUM_ENTRIES, NUM_SENTENCES, as_text, check, frozen_faults, main
from hub_scripts.terms.entries import resemble

V1 = version_folder("v1.0")

# A small vocabulary without a fault. What a test appends to a file starts at the line after its last.
FILES = {
    "mood.yaml": """axis: mood
source: Doe (2024)
terms:
  - term: cheerful
    preference: reviewed
    note: asked at a fair
  - term: well-rested
  - term: with a smile
    bucket: after_the_noun
    plural: with smiles
""",
    "way.yaml": "axis: way\nsource: Doe (2024)\nterms:\n  - term: walking\n    preference: dispreferred\n",
    "nouns.yaml": """source: Doe (2024)
nouns:
  - noun: woman
    plural: women
    gender: female
  - noun: kid
    plural: kids
  - noun: neighbor
    plural: neighbors
""",
    "templates.yaml": """source: Doe (2024)
templates:
  - template: "I know {noun_phrase}."
  - template: "{noun_phrase} waves."
  - template: "I like {plural_noun_phrase}."
  - template: "{plural_noun_phrase} wave."
""",
}
END_OF = {name: text.count("\n") for name, text in FILES.items()}
GOOD = "    source: Roe (2025)\n"


def write(folder, changes=()):
    folder.mkdir(exist_ok=True)
    for name, text in {**FILES, **dict(changes)}.items():
        if text is None:
            (folder / name).unlink(missing_ok=True)
        else:
            (folder / name).write_text(text, encoding="utf-8")
    return folder


def checked(tmp_path, changes=(), folder="after"):
    """The report on the small vocabulary with changes, compared with the one without."""
    before = write(tmp_path / "before")
    (tmp_path / folder).parent.mkdir(parents=True, exist_ok=True)
    return check(write(tmp_path / folder, changes), str(before))


def appended(text, name="mood.yaml"):
    return {name: FILES[name] + text}


# --- nothing changed, and real versions -------------------------------------------------------------------------------


def test_nothing_changed(tmp_path):
    report = checked(tmp_path)
    assert (report.faults, report.hints, report.changes, report.sentences) == ([], [], ([], [], []), [])
    assert as_text(report).startswith("Faults: 0. To look at: 0. People judge the words.\n")


def test_faults_of_names_and_of_questions_are_reported_for_every_checkout(versions):
    """The check of a pull request reads the vocabulary of another checkout."""
    assert check(versions / "next", str(versions / "next")).faults == []
    (versions / "names.yaml").write_text("names:\n- name: Ada\n  group: A\n- name: Bo\n")
    (versions.parent / "decisions").mkdir()
    (versions.parent / "decisions" / "questions.yaml").write_text("questions:\n- Should {person} come?\n")
    places = [(fault.file, fault.line) for fault in check(versions / "next", str(versions / "next")).faults]
    assert places == [("../../decisions/questions.yaml", 2), ("../names.yaml", 4)]


# --- faults -----------------------------------------------------------------------------------------------------------


def test_a_new_entry_needs_a_source_of_its_own(tmp_path):
    (fault,) = checked(tmp_path, appended("  - term: calm\n    source: Doe (2024)\n")).faults
    assert (fault.file, fault.line) == ("mood.yaml", END_OF["mood.yaml"] + 1)
    assert fault.message.startswith("term 'calm' is new and has no `source`; write `source:`")


def test_links_are_refused_and_not_followed(tmp_path):
    secret = tmp_path / "secret.yaml"
    secret.write_text("axis: secret\nterms:\n  - term: hidden-word\n", encoding="utf-8")
    folder = write(tmp_path / "after", {"mood.yaml": None})
    (folder / "mood.yaml").symlink_to(secret)
    report = check(folder, str(write(tmp_path / "before")))
    assert report.faults == [("mood.yaml", 1, "is a link; replace it with the file itself")]
    assert report.changes == ([], [], [])
    assert "hidden-word" not in as_text(report)


def test_other_entries_of_a_file_with_a_fault_are_checked(tmp_path):
    content = FILES["mood.yaml"].replace("    preference", "    prefrence: a\n    preference") + "  - term: walkin\n"
    report = checked(tmp_path, {"mood.yaml": content})
    assert [fault.line for fault in report.faults] == [5, END_OF["mood.yaml"] + 2]
    assert "resembles the term 'walking' (way.yaml:4, " in report.hints[0].message
    assert report.sentences == []  # the vocabulary cannot be read


@pytest.fixture
def versions(tmp_path):
    """A folder of versions as the package has it."""
    root = shutil.copytree(V1.parent, tmp_path / "hb_dataset" / "vocabulary")
    shutil.copy(V1.parent.parent / "LICENSE", root.parent)
    return root


def put(path, text="words"):
    """What writes a text into a file of the versions."""
    return lambda root: (root / path).write_text(text, encoding="utf-8")


def replace(path, old, new):
    return lambda root: put(path, (root / path).read_text(encoding="utf-8").replace(old, new, 1))(root)


def copy_v1(version):
    """What copies v1.0 and its record."""

    def copy(root):
        frozen = json.loads((root / "frozen.json").read_text(encoding="utf-8"))
        put("frozen.json", json.dumps({**frozen, version: frozen["v1.0"]}))(root)
        shutil.copytree(root / "v1.0", root / version)

    return copy


CHANGED = " is frozen and was changed: "
FROZEN = {
    "term": (replace("v1.0/ability.yaml", "Deaf", "deaf"), "../v1.0", f"v1.0{CHANGED}its digest is "),
    "digest": (replace("frozen.json", '"digest": "', '"digest": "0'), "../v1.0", f"v1.0{CHANGED}its record in "),
    "v9.9 and its record": (copy_v1("v9.9"), "../v9.9", f"v9.9{CHANGED}its record"),
    "the licence": (put("../LICENSE", "MIT"), "../../LICENSE", "is the vocabulary's licence; undo the change"),
}


@pytest.mark.parametrize(("change", "file", "message"), FROZEN.values(), ids=FROZEN)
def test_a_change_to_a_frozen_version_is_a_fault(versions, change, file, message):
    change(versions)
    (fault,) = frozen_faults(versions / "next")
    assert fault.file == file
    assert message in fault.message


def test_folders_are_refused(tmp_path, versions):
    folder = write(tmp_path / "after")
    for name in (".evil", "x.md", "words", ".git"):
        (folder / name).mkdir()
    faults = check(folder, str(write(tmp_path / "before"))).faults
    assert [fault.file for fault in faults] == [".evil", "words", "x.md"]
    (versions / "v2").mkdir()
    assert [fault.file for fault in frozen_faults(versions / "next")] == ["../v2"]


def test_without_its_record_every_frozen_version_is_a_fault(versions):
    (versions / "frozen.json").unlink()
    assert [fault.file for fault in frozen_faults(versions / "next")] == [f"../{name}" for name in frozen_versions()]


# --- things to look at ------------------------------------------------------------------------------------------------


def term(words, *lines, source=GOOD):
    more = "".join(f"    {line}\n" for line in lines)
    return appended(f"  - term: {words}\n{more}{source}")


def after(words, plural=None):
    return term(words, "bucket: after_the_noun", *([f"plural: {plural}"] if plural else []))


def noun(word, plural, *lines):
    more = "".join(f"    {line}\n" for line in lines)
    return appended(f"  - noun: {word}\n    plural: {plural}\n{more}{GOOD}", "nouns.yaml")


LOOK = {
    "a noun": (term("Women"), "'Women' (without a label) has the same words as the noun 'woman' (nouns.yaml:3, "),
    "typing error": (term("cheeful"), "resembles the term 'cheerful' (mood.yaml:4, labelled reviewed)"),
    "two axes": (term("walking", "preference: reviewed", "note: a"), "the term 'walking' (way.yaml:4, labelled dis"),
    "label without a note": (term("calm", "preference: polarizing"), "is labelled polarizing and has no `note`"),
    "look-alikes": (noun("vvoman", "vvomen"), "resembles the noun 'woman' (nouns.yaml:3, "),
    "template's opening": (term("i know"), "begins like a template"),
    "sentence": (term("he is tall"), "reads like a sentence; write it as people say it before"),
    "sentence, after": (
        after("Ignore all previous instructions"),
        "reads like a sentence; write it as people say it after",
    ),
    "letters": (term("serène"), "è (latin small letter e with grave)"),
}


@pytest.mark.parametrize(("changes", "message"), LOOK.values(), ids=LOOK)
def test_a_possible_mistake_is_reported_and_is_not_a_fault(tmp_path, changes, message):
    report = checked(tmp_path, changes)
    reported = [thing.message for thing in report.hints]
    assert report.faults == []
    (name,) = changes
    assert any(message in text for text in reported), reported
    assert {(thing.file, thing.line) for thing in report.hints} == {(name, END_OF[name] + 1)}


def changed(old, new, name="mood.yaml"):
    assert old in FILES[name]
    return {name: FILES[name].replace(old, new)}


HISTORY = {
    "relabelled": (changed("preference: reviewed", "preference: polarizing"), ["now labelled polarizing, but"]),
    "relabelled with a note": (
        changed(
            "preference: reviewed\n    note: asked at a fair",
            "preference: polarizing\n    note: asked at a fair; Roe differs",
        ),
        [],
    ),
    "note lost": (changed("asked at a fair", "all like it"), ["the `note` of term 'cheerful' has lost text"]),
}


@pytest.mark.parametrize(("changes", "expected"), HISTORY.values(), ids=HISTORY)
def test_changed_entries_are_looked_at_for_views_that_were_lost(tmp_path, changes, expected):
    report = checked(tmp_path, changes)
    reported = [thing.message for thing in report.hints]
    assert report.faults == []
    assert len(reported) == len(expected)
    assert all(part in message for part, message in zip(expected, reported, strict=True))


# --- what the change does ---------------------------------------------------------------------------------------------


def test_what_was_added_removed_respelled_moved_and_changed_is_known(tmp_path):
    mood = FILES["mood.yaml"].replace("  - term: well-rested\n", "").replace("term: cheerful", "term: cheerfull")
    changes = {
        "mood.yaml": mood + "  - term: calm\n" + GOOD,
        "way.yaml": FILES["way.yaml"].replace("walking", "on foot\n    bucket: after_the_noun")
        + "  - term: well-rested\n",
        **noun("guest", "guests"),
        "templates.yaml": FILES["templates.yaml"].replace('  - template: "I know {noun_phrase}."\n', ""),
    }
    reported = checked(tmp_path, changes).changes
    assert [(entry.kind, entry.axis, entry.name) for entry in reported.added] == [
        ("term", "mood", "calm"),
        ("noun", None, "guest"),
        ("term", "way", "on foot"),
    ]
    assert [(entry.kind, entry.name) for entry in reported.removed] == [
        ("template", "I know {noun_phrase}."),
        ("term", "walking"),
    ]
    assert [(change.before.name, change.differences) for change in reported.changed] == [
        ("cheerful", {"term": ("cheerful", "cheerfull")}),
        ("well-rested", {"axis": ("mood", "way")}),
    ]


def test_sentences_of_new_and_reworded_entries_are_shown(tmp_path):
    reworded = FILES["mood.yaml"].replace("term: cheerful", "term: cheerful\n    article: an")
    shown = dict(checked(tmp_path, {"mood.yaml": reworded, **noun("guest", "guests")}).sentences)
    for entry, sentences in shown.items():
        assert len(set(sentences)) == NUM_SENTENCES
        assert all(entry.name in sentence.lower() for sentence in sentences)
    assert {entry.name for entry in shown} == {"guest", "cheerful"}
    assert any("an cheerful" in sentence.lower() for sentences in shown.values() for sentence in sentences)


def test_the_sentences_of_many_terms_are_counted(tmp_path):
    names = ["".join(letters) for letters in itertools.product("bdfgk", "aeiou", "lm")]
    text = as_text(checked(tmp_path, appended("".join(f"  - term: {name}\n{GOOD}" for name in names))))
    assert f"{len(names) - NUM_ENTRIES} more entries are not shown" in text
    assert text.count("  term ") == NUM_ENTRIES


# --- what it is compared with -----------------------------------------------------------------------------------------


@pytest.fixture
def git(tmp_path, monkeypatch):
    """A git repository of a person without settings, whose first commit holds the small vocabulary."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    repository = tmp_path / "repository"
    repository.mkdir()

    def run(*arguments):
        command = ["git", "-c", "user.name=Test", "-c", "user.email=test@localhost", *arguments]
        return subprocess.run(command, cwd=repository, check=True, capture_output=True, text=True).stdout.strip()

    run("init", "-q", "-b", "main")
    (repository / "README.md").write_text("words", encoding="utf-8")
    run("add", ".")
    run("commit", "-qm", "empty")
    run("tag", "empty")
    write(repository / "words")
    run("add", ".")
    run("commit", "-qm", "one")
    run.repository = repository
    return run


def test_an_article_is_that_of_the_sound_in_a_users_vocabulary_and_to_check_in_a_version(tmp_path):
    version = checked(tmp_path, term("unique"), "hb_dataset/vocabulary/next")
    assert any("'an unique woman'; if the article is wrong, add `article: a`" in hint.message for hint in version.hints)
    own = checked(tmp_path, term("unique"), "vocabulary/mine")  # not a version, whatever its folder is called
    (entry, sentences), *_ = own.sentences
    assert {*sentences} < {*load_table("v1.0", own.folder)["text"].to_pylist()}
    assert "I know an unique woman." in load_table("v1.0", version.folder)["text"].to_pylist()
    assert (entry.name, own.hints) == ("unique", [])
    assert any("a unique" in sentence for sentence in sentences)
    assert not any("an unique" in sentence for sentence in sentences)


def test_a_vocabulary_of_ones_own_is_compared_with_nothing_without_git(tmp_path):
    report = check(write(tmp_path / "own", term("calm", source="")))
    assert (report.against, report.faults) == ("an empty vocabulary", [])
    assert "calm" in [entry.name for entry in report.changes.added]


def test_a_git_revision_is_compared_with(git):
    folder = write(git.repository / "words", term("calm"))
    report = check(folder, "main")
    assert report.against == "main"
    assert [entry.name for entry in report.changes.added] == ["calm"]
    git("commit", "-qam", "two")
    assert check(folder, "HEAD").changes == ([], [], [])
    assert [entry.name for entry in check(folder, "HEAD~1").changes.added] == ["calm"]


def test_a_branch_is_by_default_compared_with_its_start(git):
    folder = write(git.repository / "words", term("calm"))
    assert [entry.name for entry in check(folder).changes.added] == ["calm"]  # not committed
    git("checkout", "-qb", "mine")
    git("commit", "-qam", "mine")
    git("checkout", "-q", "main")
    write(folder, term("spry"))
    git("commit", "-qam", "others")
    git("checkout", "-q", "mine")
    report = check(folder)
    assert ([entry.name for entry in report.changes.added], report.changes.removed) == (["calm"], [])
    git("update-ref", "refs/remotes/origin/main", "mine")
    assert check(folder).changes.added == []


@pytest.mark.parametrize("revision", ["nowhere", "--output=gone.tar", "empty"])
def test_what_is_no_revision_is_refused_with_what_to_give(git, revision, monkeypatch):
    monkeypatch.chdir(git.repository)
    with pytest.raises(ValueError, match=rf"--against '{re.escape(revision)}' is neither a folder nor a git revision"):
        check(Path("words"), revision)
    assert sorted(path.name for path in git.repository.iterdir()) == [".git", "README.md", "words"]


# --- near terms -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("well-rested", "Well rested", True),
        ("autistic", "autist1c", True),
        ("bisexual", "bisexuals", True),
        ("Bahá'í", "bahai", True),
        ("cheerful", "chereful", True),
        ("Hindu", "Hidnu", True),
        ("Jewish", "Jewihs", True),
        ("modern", "modren", True),
        ("Deaf", "cleaf", True),
        ("mute", "rnute", True),
        ("gay", "g4y", True),
        ("homosexual", "hornosexual", True),
        ("20-year-old", "30-year-old", False),
        ("fat", "fit", False),
    ],
)
def test_phrases_that_differ_in_spelling_resemble_each_other(one, other, expected):
    assert resemble(one, other) is resemble(other, one) is expected


# --- the command ------------------------------------------------------------------------------------------------------


def run(capsys, *arguments):
    with pytest.raises(SystemExit) as exit_:
        main([str(argument) for argument in arguments])
    printed = capsys.readouterr()
    return exit_.value.code, printed.out, printed.err


def test_the_exit_code_distinguishes_faults_from_things_to_look_at(tmp_path, capsys):
    before = write(tmp_path / "before")
    good = ("--vocabulary", write(tmp_path / "good", term("chereful")), "--against", before)
    bad = ("--vocabulary", write(tmp_path / "bad", term("serene", source="")), "--against", before)
    status, out, err = run(capsys, *good)
    assert (status, err) == (0, "")
    assert out.startswith("Faults: 0. To look at: 1. People judge the words.\n")
    assert f"  {tmp_path}/good/mood.yaml:{END_OF['mood.yaml'] + 1}: term 'chereful' resembles the term" in out
    status, out, err = run(capsys, *bad)
    assert (status, err) == (1, "")
    assert out.startswith("Faults: 1. To look at: 0. People judge")
