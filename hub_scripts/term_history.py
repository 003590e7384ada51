"""What the frozen versions removed and renamed: shown by the check, so that nobody adds it again without knowing."""

import itertools
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from hb_dataset.versions import frozen_versions, version_folder
from hb_dataset.yaml_lines import Fault
from hub_scripts.near_terms import differ_in_ending, same_but_for_spelling, same_in_other_words
from hub_scripts.term_changes import Changed, Changes, compare
from hub_scripts.term_entries import STANDALONE, TERM, Contents, Entry, read_contents

_NAMES = frozenset(("axis", "term", "noun", "noun_phrase", "template"))

RETURNED = (
    "{kind} {name!r} was in {before} ({axis}), and {version} removed it; if it is to be back, say in `note` why, else "
    "remove it"
)


class Removed(NamedTuple):
    """An entry that a version removed, and the entries of that version that say nearly the same."""

    entry: Entry
    near: tuple[Entry, ...]


class VersionHistory(NamedTuple):
    """What a frozen version removed, and renamed or moved to another axis, of the version before it."""

    before: str
    version: str
    removed: tuple[Removed, ...]
    renamed: tuple[Changed, ...]


def version_history() -> tuple[VersionHistory, ...]:
    """The history of the package's frozen versions, newest first, without versions that removed and renamed nothing.

    Versions whose folder is missing are left out; the check reports them.
    """
    folders = {version: version_folder(version) for version in frozen_versions()}
    return _history(tuple((version, folder) for version, folder in folders.items() if folder.is_dir()))


@cache
def _history(folders: tuple[tuple[str, Path], ...]) -> tuple[VersionHistory, ...]:
    """The history of versions, given as (name, folder), oldest first."""
    contents = {version: read_contents(folder) for version, folder in folders}
    history = []
    for before, version in itertools.pairwise(contents):
        changes = compare(contents[before], contents[version])
        removed = tuple(Removed(entry, tuple(_near(entry, contents[version]))) for entry in changes.removed)
        renamed = tuple(change for change in changes.changed if _NAMES & {name for name, _, _ in change.differences})
        if removed or renamed:
            history.append(VersionHistory(before, version, removed, renamed))
    return tuple(reversed(history))


def returned(changes: Changes) -> list[Fault]:
    """A thing to look at for each new entry that a frozen version had and a later one removed."""
    faults = []
    for entry in changes.added:
        for history in version_history():
            former = next((gone.entry for gone in history.removed if _says(gone.entry, entry)), None)
            if former is not None:
                names = {"before": history.before, "version": history.version, "axis": former.axis or former.kind}
                message = RETURNED.format(kind=entry.kind, name=entry.name, **names)
                faults.append(Fault(entry.file, entry.line, message))
                break
    return faults


def _says(former: Entry, entry: Entry) -> bool:
    return former.kind == entry.kind and same_but_for_spelling(former.name, entry.name)


def _near(entry: Entry, after: Contents) -> Iterator[Entry]:
    """The entries that say nearly the same as a removed one: that of another axis, a phrase, another ending."""
    if entry.kind not in (TERM, STANDALONE):
        return
    name = entry.value.term
    for other in after.of_kind(TERM, STANDALONE):
        other_name = other.value.term
        if (
            same_but_for_spelling(name, other_name)
            or same_in_other_words(name, other_name)
            or differ_in_ending(name, other_name)
        ):
            yield other
