"""Reads the entries of a vocabulary folder or a git revision with their lines, and compares two vocabularies.

Unlike `hb_dataset.read_vocabulary`, this module tolerates faults.
"""

import difflib
import functools
import io
import re
import subprocess
import tarfile
import tempfile
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple

from hb_dataset.matching import as_it_looks
from hb_dataset.versions import frozen_versions, version_folder
from hb_dataset.vocabulary import LISTS, is_version
from hb_dataset.vocabulary_entries import Descriptor
from hb_dataset.yaml_lines import load_with_lines, read_entries

MIN_SIMILARITY = 0.85  # of letters: a word of seven letters and the same word with another letter have 0.86
_MIN_LETTERS = 5  # of words that differ in one letter, because "fat" is not a misspelling of "fit"
_LOOK_ALIKES = (("rn", "m"), ("vv", "w"), ("cl", "d"))


def resemble(one: str, other: str) -> bool:
    """Returns whether phrases differ only in case, hyphens, accents, look-alike characters or a few letters.

    Phrases with different numbers, such as "20-year-old" and "30-year-old", never resemble each other.
    """
    if len({re.sub(r"\D", "", phrase) for phrase in (one, other)} - {""}) > 1:
        return False
    one, other = _letters(one), _letters(other)
    if _one_edit_apart(one, other) or _looks(one) == _looks(other):
        return True
    return bool(difflib.get_close_matches(one, [other], cutoff=MIN_SIMILARITY))


def _one_edit_apart(one: str, other: str) -> bool:
    """Returns whether words differ in one letter, which is added, removed, replaced or swapped with the next."""
    if min(len(one), len(other)) < _MIN_LETTERS or abs(len(one) - len(other)) > 1:
        return False
    short, long = sorted((one, other), key=len)
    same = next((index for index, letter in enumerate(short) if letter != long[index]), len(short))
    short, long = short[same:], long[same:]
    if len(short) < len(long):
        return short == long[1:]
    return short[1:] == long[1:] or (short[:2] == long[1::-1] and short[2:] == long[2:])


@functools.cache
def _letters(phrase: str) -> str:
    return as_it_looks("".join(filter(str.isalnum, phrase)))


@functools.cache
def _looks(letters: str) -> str:
    for pair, letter in _LOOK_ALIKES:
        letters = letters.replace(pair, letter)
    return letters


TERM, NOUN, TEMPLATE, STANDALONE = "term", "noun", "template", "standalone noun phrase"
# Maps each file to the kind of its entries and the key that contains their names. Files that are not in `LISTS` contain
# the terms of an axis. Files that are in `LISTS` but not here contain rules, which have no names.
_NAMED = {
    "nouns": (NOUN, "noun"),
    "templates": (TEMPLATE, "template"),
    "seat_templates": ("SEAT template", "template"),
    "standalone_noun_phrases": (STANDALONE, "noun_phrase"),
}
_BRANCHES = ("origin/main", "main")


class Entry(NamedTuple):
    """An entry. `file_source` is its file's `source`, which applies to entries without their own source."""

    kind: str
    name: str
    file: str
    line: int
    value: Any
    file_source: str | None

    @property
    def axis(self) -> str | None:
        return self.value.axis if self.kind in (TERM, STANDALONE) else None

    @property
    def fields(self) -> dict[str, object]:
        """Returns the values of all fields, with remarks last."""
        names = sorted((field.name for field in fields(self.value)), key=lambda name: name in ("note", "source"))
        return {name: getattr(self.value, name) for name in names}


class Changed(NamedTuple):
    before: Entry
    after: Entry

    @property
    def differences(self) -> dict[str, tuple[Any, Any]]:
        old = self.before.fields
        return {name: (old[name], value) for name, value in self.after.fields.items() if value != old[name]}


class Changes(NamedTuple):
    added: list[Entry]
    removed: list[Entry]
    changed: list[Changed]


def read_folder(folder: Path) -> list[Entry]:
    """Reads all valid entries that have a name."""
    entries = []
    for path in sorted(folder.glob("*.yaml")):
        kind, name = _NAMED.get(path.stem, (TERM, "term"))
        if path.stem not in LISTS:
            located = read_entries(path, "terms", Descriptor, [], axis=path.stem)
        elif path.stem in _NAMED:
            located = read_entries(path, *LISTS[path.stem], [])
        else:
            continue
        source = load_with_lines(path)[0].get("source") if located else None
        entries += [Entry(kind, getattr(value, name), file, line, value, source) for file, line, value in located]
    return entries


def read_against(folder: Path, against: str | None) -> tuple[str, list[Entry]]:
    """Returns the name and the entries of the vocabulary to compare with, which is in a folder or a git revision.

    By default, the revision is the commit at which the current branch leaves the main branch. Without git, the next
    version is compared with the newest frozen version, and a user's own vocabulary with an empty one.
    """
    if against is None:
        for branch in _BRANCHES:
            commit = _git(folder, "merge-base", "HEAD", branch)
            entries = None if commit is None else _read_revision(folder, commit.decode().strip())
            if entries is not None:
                return f"the branch {branch}", entries
        if not is_version(folder):
            return "an empty vocabulary", []
        newest = frozen_versions()[-1]
        return newest, read_folder(version_folder(newest))
    if against and Path(against).is_dir():
        return against, read_folder(Path(against))
    entries = _read_revision(folder, against)
    if entries is None:
        raise ValueError(
            f"--against {against!r} is neither a folder nor a git revision that contains {folder}; set one of them (if "
            "it is new, first run `git fetch`)"
        )
    return against, entries


def compare(before: Sequence[Entry], after: Sequence[Entry]) -> Changes:
    """Compares two vocabularies. A term on another axis and an entry with another spelling count as changed."""
    old, new = ({_key(entry): entry for entry in entries} for entries in (before, after))
    changed = [Changed(old[key], entry) for key, entry in new.items() if key in old]
    removed = [entry for key, entry in old.items() if key not in new]
    added = []
    for entry in (entry for key, entry in new.items() if key not in old):
        former = next((other for other in removed if _is_former(other, entry)), None)
        if former is None:
            added.append(entry)
        else:
            removed.remove(former)
            changed.append(Changed(former, entry))
    return Changes(added, removed, [change for change in changed if change.differences])


def _key(entry: Entry) -> tuple[str | None, ...]:
    # A phrase may have two entries with different plurals ("Rastas", "Rastafari").
    return entry.kind, entry.axis, entry.name, entry.value.plural if entry.kind == STANDALONE else None


def _is_former(old: Entry, new: Entry) -> bool:
    if old.kind != new.kind or old.axis != new.axis:
        return (old.kind, old.name) == (new.kind, new.name)
    return resemble(old.name, new.name)


def _read_revision(folder: Path, revision: str) -> list[Entry] | None:
    archive = _git(folder, "archive", "--format=tar", "--end-of-options", revision)
    if archive is None:
        return None
    with tempfile.TemporaryDirectory() as scratch, tarfile.open(fileobj=io.BytesIO(archive)) as files:
        files.extractall(scratch, filter="data")
        return read_folder(Path(scratch))


def _git(folder: Path, *arguments: str) -> bytes | None:
    try:
        return subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, check=True).stdout
    except (subprocess.CalledProcessError, FileNotFoundError):
        return None
