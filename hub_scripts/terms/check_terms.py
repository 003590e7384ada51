"""Checks a change to the vocabulary, and reports faults, possible mistakes and new sentences.

A fault must be corrected. A possible mistake may be intended, and its message states what to do in that case.

    holistic-bias check-terms [--vocabulary DIR] [--against REV]

The exit code is 0 if there are no faults, 1 if there are faults, and 2 if the check failed.
"""

import os
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import hb_dataset
from hb_dataset.command_line import CommandParser
from hb_dataset.decisions import decision_rows
from hb_dataset.matching import squeezed
from hb_dataset.names import NAMES_FILE, read_names
from hb_dataset.noun_phrases import article_by_sound, first_letter_article, noun_phrase
from hb_dataset.prompt_columns import content_digest
from hb_dataset.prompt_table import prompt_table, standalone_table
from hb_dataset.versions import (
    CHANGELOG_FILE,
    FROZEN_FILE,
    NEXT,
    FrozenError,
    read_frozen,
    verify_version,
    version_folder,
    version_number,
)
from hb_dataset.vocabulary import MAX_WORDS_BEFORE, is_version, read_vocabulary, with_article, with_articles
from hb_dataset.vocabulary_entries import Descriptor, PersonNoun, Vocabulary, follows_noun
from hb_dataset.written_text import is_invisible, other_letters
from hb_dataset.yaml_lines import Fault, FaultsError
from hub_scripts.terms.entries import (
    NOUN,
    STANDALONE,
    TEMPLATE,
    TERM,
    Changed,
    Changes,
    Entry,
    compare,
    read_against,
    read_folder,
    resemble,
)

NUM_ENTRIES, NUM_SENTENCES = 25, 10  # the entries whose sentences are shown, and the sentences of each
# A change to one of these keys may create a duplicate or wrong English.
_NAMING = frozenset(("term", "noun", "axis", "preference"))
WORDING = frozenset(("term", "noun", "noun_phrase", "template", "bucket", "plural", "article"))
_PARTS_BEFORE = 4  # the maximum number of words between spaces or hyphens, as in "seventy-five-year-old"
LICENCE = Path(hb_dataset.__file__).parent / "LICENSE"  # the vocabulary's licence


class Report(NamedTuple):
    """The result of a check, with sentences of added and reworded entries, and the number of such entries."""

    folder: Path
    against: str
    faults: list[Fault]
    hints: list[Fault]
    changes: Changes
    sentences: list[tuple[Entry, list[str]]]
    num_reworded: int


def check(folder: Path, against: str | None = None) -> Report:
    """Checks a vocabulary folder, and compares it with another folder or a git revision (see `read_against`)."""
    if not folder.is_dir():
        raise ValueError(f"the vocabulary folder {folder} does not exist; set --vocabulary to an existing folder")
    name, before = read_against(folder, against)
    if faults := link_faults(folder):  # nothing is read, because a link could point anywhere
        return Report(folder, name, faults, [], Changes([], [], []), [], 0)
    for path in sorted(folder.iterdir()):
        is_unread = path.name != ".git" and (path.name.startswith(".") or path.suffix == ".md")
        if is_unread and path.is_dir():  # the reader of a vocabulary reports other folders
            faults.append(Fault(path.name, 1, "is a folder, but a vocabulary consists of files; remove the folder"))
    faults += frozen_faults(folder)
    for read, file in ((read_names, "../names.yaml"), (decision_rows, "../../decisions/questions.yaml")):
        if is_version(folder) and (folder / file).is_file():  # a pull request's check has only the vocabulary
            try:
                read(folder / file)
            except FaultsError as error:
                faults += [fault._replace(file=file) for fault in error.faults]
    entries, vocabulary = read_folder(folder), None
    try:
        vocabulary = read_vocabulary(folder)
    except FaultsError as error:
        faults += error.faults
    if not is_version(folder):  # prompts of a user's own vocabulary have right articles
        vocabulary = vocabulary and with_articles(vocabulary)
        before, entries = ([_with_article(entry) for entry in listed] for listed in (before, entries))
    changes = compare(before, entries)
    faults += source_faults(before, changes) if before else []  # a user's own vocabulary needs no sources
    worded = (*changes.added, *_changed_in(changes, WORDING))
    readable = [entry for entry in worded if entry.kind in (TERM, NOUN, TEMPLATE, STANDALONE)]
    sentences = []
    if vocabulary is not None:
        sentences = [(entry, _sentences(entry, vocabulary)) for entry in readable[:NUM_ENTRIES]]
    possible_mistakes = [*hints(entries, changes), *newly_frozen(folder)]
    return Report(folder, name, sorted(faults), sorted(possible_mistakes), changes, sentences, len(readable))


def _with_article(entry: Entry) -> Entry:
    return entry._replace(value=with_article(entry.value)) if entry.kind in (TERM, NOUN) else entry


def link_faults(folder: Path) -> list[Fault]:
    """Reports links as faults without following them, because a link in a pull request could point anywhere."""
    links = [path for path in (folder, *sorted(folder.iterdir())) if path.is_symlink()]
    return [Fault(os.path.relpath(path, folder), 1, "is a link; replace it with the file itself") for path in links]


def frozen_faults(folder: Path) -> list[Fault]:
    """Compares the frozen versions beside a folder in a checkout with the records in this package."""
    if not is_version(folder):
        return []
    root = folder.absolute().parent
    own, recorded, faults = read_frozen(), _recorded(root), []
    for version, record in {**recorded, **own}.items():
        try:
            version_number(version)
            if recorded.get(version) != record:
                raise FrozenError(version, f"its record in {FROZEN_FILE} was changed")
            verify_version(version, root, record=record)
        except ValueError as error:
            faults.append(Fault(f"../{version}", 1, str(error)))
    known = {NEXT, *own, *recorded, FROZEN_FILE, CHANGELOG_FILE, NAMES_FILE.name}
    for path in root.iterdir():
        if path.name not in known and not (path.name.startswith(".") and path.is_file()):  # systems create such files
            message = "is neither a frozen version nor a file of the vocabulary; remove it"
            faults.append(Fault(f"../{path.name}", 1, message))
    licence = root.parent / LICENCE.name
    if not licence.is_file() or licence.read_bytes() != LICENCE.read_bytes():
        faults.append(Fault(f"../../{LICENCE.name}", 1, "is the vocabulary's licence; undo the change (git checkout)"))
    return faults


def newly_frozen(folder: Path) -> list[Fault]:
    about = (
        "is newly frozen and can never change; ask a maintainer to compare it with the output of "
        "hub_scripts/terms/freeze_version.py"
    )
    new = sorted(_recorded(folder.absolute().parent).keys() - read_frozen())
    return [Fault(f"../{FROZEN_FILE}", 1, f"{version!r} {about}") for version in new]


def _recorded(root: Path) -> dict[str, dict[str, Any]]:
    try:
        return read_frozen(root)
    except (ValueError, OSError):
        return {}


def source_faults(before: Sequence[Entry], changes: Changes) -> list[Fault]:
    """Reports new entries without their own source. A file's source applies only to its older entries."""
    faults, old_files = [], {entry.file for entry in before}
    for entry in changes.added:
        source = entry.value.source
        if source is None or (entry.file in old_files and source == entry.file_source):
            message = "is new and has no `source`; write `source:` and a text, a person or a community that uses it"
            faults.append(Fault(entry.file, entry.line, f"{entry.kind} {entry.name!r} {message}"))
    return faults


def hints(entries: Sequence[Entry], changes: Changes) -> set[Fault]:
    """Returns the possible mistakes in added and changed entries."""
    nouns = [entry.value for entry in entries if entry.kind == NOUN]
    templates = [entry.value for entry in entries if entry.kind == TEMPLATE and entry.name.count("{") == 1]
    openings = [_spoken(template.parts[0]) for template in templates]
    messages = [(change.after, message) for change in changes.changed for message in _history(change)]
    for entry in (*changes.added, *_changed_in(changes, _NAMING)):
        messages += [(entry, message) for message in _near(entry, entries)]
    for entry in (*changes.added, *_changed_in(changes, WORDING)):
        messages += [(entry, message) for message in _wording(entry, nouns, openings)]
    for entry in changes.added:
        if entry.kind in (TERM, STANDALONE) and entry.value.preference is not None and entry.value.note is None:
            about = "has no `note`; state who was asked and when, or omit `preference`"
            messages.append((entry, f"term {entry.name!r} is labelled {entry.value.preference} and {about}"))
    return {Fault(entry.file, entry.line, message) for entry, message in messages}


def _changed_in(changes: Changes, keys: frozenset[str]) -> list[Entry]:
    return [change.after for change in changes.changed if keys & change.differences.keys()]


def _near(entry: Entry, others: Sequence[Entry]) -> Iterator[str]:
    for other in others if entry.kind in (TERM, NOUN) else ():
        if other.kind not in (TERM, NOUN) or (other.file, other.line) == (entry.file, entry.line):
            continue
        names = [other.name, other.value.plural] if other.kind == NOUN else [other.name]
        other_is = f"the {other.kind} {other.name!r} ({other.file}:{other.line}, {_labelled(other)})"
        if entry.name.casefold() in [name.casefold() for name in names]:
            about = "if it has two meanings, state them in `note`, otherwise remove one"
            yield f"{entry.kind} {entry.name!r} ({_labelled(entry)}) has the same words as {other_is}; {about}"
        elif entry.kind == other.kind and resemble(entry.name, other.name):
            about = "correct a typing error, keep one of two spellings, or leave both if they are different words"
            yield f"{entry.kind} {entry.name!r} resembles {other_is}; {about}"


def _wording(entry: Entry, nouns: Sequence[PersonNoun], openings: Sequence[Sequence[str]]) -> Iterator[str]:
    value = entry.value
    if letters := other_letters(" ".join([entry.name, str(entry.fields.get("plural") or "")])):
        shown = ", ".join(letters)
        yield f"{entry.kind} {entry.name!r} has letters other than a to z: {shown}; check that none is a look-alike"
    words = _spoken(entry.name)
    if entry.kind in (TERM, NOUN) and any(
        opening and words[: len(opening)] == opening[: len(words)] for opening in openings
    ):
        yield f"{entry.kind} {entry.name!r} begins like a template; write only words for people"
    if entry.kind == TERM and _like_a_sentence(value):
        yield f'term {value.term!r} reads like a sentence; write it as people say it {value.placement} "person"'
    is_before = entry.kind == NOUN or (entry.kind == TERM and value.placement == "before" and nouns)
    if is_before and value.article is None and article_by_sound(entry.name) != first_letter_article(entry.name):
        written = noun_phrase(None, value) if entry.kind == NOUN else noun_phrase(value, nouns[0])
        yield f"{entry.kind} {entry.name!r} would be {written!r}; if the article is wrong, add `article: a` or `an`"


def _spoken(text: str) -> list[str]:
    return re.findall(r"[\w']+", squeezed(text))


def _like_a_sentence(term: Descriptor) -> bool:
    words = term.term.split()
    if term.placement == "after":
        return not follows_noun(term.term) and not words[0].endswith(("ing", "ed"))
    begins_one = len(words) > 1 and words[0][0].isupper() and words[1][0].islower()
    return begins_one or len(words) >= MAX_WORDS_BEFORE or len(re.split("[ -]", term.term)) > _PARTS_BEFORE


def _history(change: Changed) -> Iterator[str]:
    """Reports notes that have lost text, and new labels without a new note, so that no recorded view is lost."""
    before, after = change.before, change.after
    old_note, note = before.value.note, after.value.note
    if old_note is not None and old_note.strip() not in (note or ""):
        yield f"the `note` of {after.kind} {after.name!r} has lost text; restore it, unless it was factually wrong"
    if _labelled(before) != _labelled(after) and note == old_note:
        yield (
            f"{after.kind} {after.name!r} was {_labelled(before)} and is now {_labelled(after)}, but its `note` is "
            "unchanged; state in the `note` who said what, and keep the former view"
        )


def _labelled(entry: Entry) -> str:
    label = entry.value.preference if entry.kind in (TERM, STANDALONE) else None
    return f"labelled {label}" if label else "without a label"


def main(argv: Sequence[str] | None = None) -> None:
    parser = CommandParser(description=__doc__)
    parser.add_argument(
        "--vocabulary",
        type=Path,
        default=Path(os.path.relpath(version_folder(NEXT))),
        metavar="DIR",
        help="The vocabulary folder to check. Default: %(default)s.",
    )
    parser.add_argument(
        "--against",
        metavar="REV",
        help="The folder, git branch, git tag or commit to compare with. Default: the commit at which your branch "
        "leaves the main branch.",
    )
    options = parser.parse_args(argv)
    try:
        report = check(options.vocabulary, options.against)
    except (ValueError, OSError) as error:
        parser.exit(2, f"{parser.prog}: {error}\n")
    print(as_text(report), end="")
    sys.exit(1 if report.faults else 0)


def as_text(report: Report) -> str:
    """Writes a report as text. Anyone can propose words, so invisible characters are shown as numbers."""
    num_added, num_changed = len(report.changes.added), len(report.changes.changed)
    lines = [
        f"Faults: {len(report.faults):,}. To look at: {len(report.hints):,}. People judge the words.",
        f"Compared with {visible(report.against)}: {num_added:,} added, {len(report.changes.removed):,} removed and "
        f"{num_changed:,} changed entries.",
    ]
    lines += _listed(report.folder, "Faults: correct these before the terms can be added.", report.faults)
    about = "To look at: these may be intended. If so, leave them, and explain why in `note` or in the pull request."
    lines += _listed(report.folder, about, report.hints)
    if report.sentences:
        lines += ["", "Read these sentences aloud. Kind and hateful sentences are included on purpose."]
    for entry, sentences in report.sentences:
        lines += [f"  {visible(f'{entry.kind} {entry.name}')}:", *(f"    {visible(text)}" for text in sentences)]
    if report.num_reworded > len(report.sentences):
        lines += ["", f"Sentences of {report.num_reworded - len(report.sentences):,} more entries are not shown."]
    return "\n".join(lines) + "\n"


def visible(text: str) -> str:
    return "".join(
        f"[U+{ord(character):04X}]" if character != " " and is_invisible(character) else character for character in text
    )


def _listed(folder: Path, title: str, faults: Sequence[Fault]) -> list[str]:
    places = [f"{os.path.normpath(folder / fault.file)}:{fault.line}" for fault in faults]
    lines = [f"  {visible(f'{place}: {fault.message}')}" for place, fault in zip(places, faults, strict=True)]
    return ["", title, *lines] if faults else []


def _sentences(entry: Entry, vocabulary: Vocabulary) -> list[str]:
    """Draws sentences that contain an entry. A hash makes the draw independent of the rest of the vocabulary."""
    of_kind = {TERM: vocabulary.descriptors, NOUN: vocabulary.nouns, TEMPLATE: vocabulary.templates}
    if entry.kind == STANDALONE:
        texts = standalone_table([entry.value], vocabulary.templates)["text"]
    else:
        parts: list[Any] = [[entry.value] if entry.kind == kind else values for kind, values in of_kind.items()]
        texts = prompt_table(parts[0], parts[1], parts[2], vocabulary.left_out_nouns)["text"]
    return sorted(texts.unique().to_pylist(), key=content_digest)[:NUM_SENTENCES]


if __name__ == "__main__":
    main()
