"""The checks of a vocabulary folder as a whole, before entries are compared, and of the frozen versions beside it."""

import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from hb_dataset.prompts import version_configs, version_table
from hb_dataset.versions import (
    FROZEN_FILE,
    NEXT,
    VERSION_NAME,
    FrozenError,
    read_frozen,
    table_counts,
    verify_version,
    version_folder,
    version_number,
)
from hb_dataset.vocabulary import VocabularyError, read_vocabulary
from hb_dataset.yaml_lines import Fault
from hub_scripts.term_entries import Contents

CHANGELOG_FILE = "CHANGELOG.md"  # of the versions, written by hub_scripts/freeze_version.py

LINK = "is a link; put the file itself here"
FOLDER_TOO_LARGE = (
    "holds {files:,} files of {size:,} bytes together, and is not read; the check takes {most_files:,} files of "
    "{most_size:,} bytes"
)
TOO_MUCH = (
    "holds {entries:,} entries, which make {rows:,} sentences, and is not compared; the check takes {most_entries:,} "
    "entries and {most_rows:,} sentences. Propose fewer at a time"
)
FROZEN_CHANGED = (
    "{version} is frozen and was changed ({reason}); undo the change (git checkout -- {folder}), and make it in the "
    f"folder `{NEXT}`"
)
FROZEN_MISSING = "the frozen version {version} is not here; put it back (git checkout -- {folder})"
FROZEN_RECORD = (
    "the record of the frozen version {version} was changed; undo the change (git checkout -- {file}): the record of a "
    "version stays as it was"
)
NOT_NEWER = "{version} is no name for a version after {newest}; only hub_scripts/freeze_version.py freezes, as v2.0"
NOT_RECORDED = "is no frozen version of which there is a record; remove it (hub_scripts/freeze_version.py freezes)"
NO_PART = "is no part of the versions of the vocabulary; remove it"
NEWLY_FROZEN = (
    "{version} is newly frozen here, and cannot be changed later; that is for maintainers, who look whether "
    "hub_scripts/freeze_version.py gives the same"
)

# What the check takes: it compares all entries with all others and builds all sentences, which has to end in minutes.
MAX_FILES, MAX_FOLDER_BYTES = 100, 1_000_000  # `next` has 17 files of 50,000 bytes
MAX_ENTRIES, MAX_ROWS = 3_000, 2_000_000  # and 850 entries, 510,000 sentences


def link_faults(folder: Path) -> list[Fault]:
    """Links among the files: they are not followed, since a pull request could point them anywhere."""
    names = [path.name for path in sorted(folder.iterdir()) if path.is_symlink()]
    return [Fault(name, 1, LINK) for name in (["."] if folder.is_symlink() else []) + names]


def size_faults(folder: Path) -> list[Fault]:
    """A folder too large to be read."""
    sizes = [path.stat().st_size for path in folder.iterdir() if path.is_file()]
    if len(sizes) <= MAX_FILES and sum(sizes) <= MAX_FOLDER_BYTES:
        return []
    given = {"files": len(sizes), "size": sum(sizes), "most_files": MAX_FILES, "most_size": MAX_FOLDER_BYTES}
    return [Fault(".", 1, FOLDER_TOO_LARGE.format(**given))]


def number_faults(contents: Contents) -> list[Fault]:
    """More entries than can be compared, or that make more sentences than can be built."""
    rows = len(contents.descriptors) * len(contents.nouns) * len(contents.templates)
    if len(contents.entries) <= MAX_ENTRIES and rows <= MAX_ROWS:
        return []
    given = {"entries": len(contents.entries), "rows": rows, "most_entries": MAX_ENTRIES, "most_rows": MAX_ROWS}
    return [Fault(".", 1, TOO_MUCH.format(**given))]


def frozen_faults(folder: Path) -> list[Fault]:
    """Changes to the frozen versions that stand beside a folder (or are it), against what our own package records.

    The sentences of our own versions are made again. Those of others are not: it is their record that must be ours.
    """
    folder = folder.absolute()
    root, own = folder.parent, read_frozen()
    own_root = version_folder(FROZEN_FILE).parent.resolve()
    # A folder of that name in a checkout holds the versions, whatever somebody has removed from it.
    if not (root / FROZEN_FILE).is_file() and root.resolve().parts[-2:] != own_root.parts[-2:]:
        beside = [version for version in own if folder.name == NEXT and (root / version).is_dir()]
        return [fault for version in beside for fault in _version_faults(root, version, own[version])]
    faults = []
    recorded = _recorded(root)
    for version, record in own.items():
        if recorded.get(version) != record:
            message = FROZEN_RECORD.format(version=version, file=version_name(root / FROZEN_FILE))
            faults.append(Fault(f"../{FROZEN_FILE}", 1, message))
        made = _made(root, version, record["digest"]) if root.resolve() == own_root else None
        faults += _version_faults(root, version, record, made)
    newest = max(own, key=version_number)
    for version in recorded.keys() - own:
        if VERSION_NAME.fullmatch(version) is None or version_number(version) < version_number(newest):
            faults.append(Fault(f"../{FROZEN_FILE}", 1, NOT_NEWER.format(version=repr(version), newest=newest)))
        else:
            faults += _version_faults(root, version, recorded[version])
    for path in root.iterdir():
        if path.name.startswith(".") or path.name in (NEXT, *own, *recorded, FROZEN_FILE, CHANGELOG_FILE):
            continue
        faults.append(unrecorded(path.name) if path.is_dir() else Fault(f"../{path.name}", 1, NO_PART))
    return faults


def newly_frozen(folder: Path) -> list[Fault]:
    """Versions that are recorded beside a folder, and not in our own package."""
    root = folder.absolute().parent
    new = sorted(_recorded(root).keys() - read_frozen())
    return [Fault(f"../{FROZEN_FILE}", 1, NEWLY_FROZEN.format(version=repr(version))) for version in new]


def unrecorded(version: str) -> Fault:
    """The fault of a folder among the versions of which there is no record."""
    return Fault(f"../{version}", 1, NOT_RECORDED)


def version_name(path: Path) -> str:
    """A path as a person in the checkout would write it."""
    relative = os.path.relpath(path)
    return str(path) if relative.startswith("..") else relative


def _version_faults(
    root: Path, version: str, record: Mapping[str, Any], made: Mapping[str, Mapping[str, Any]] | None = None
) -> list[Fault]:
    """A frozen version that is not there or is not as it was frozen."""
    path = root / version
    names = {"version": version, "folder": version_name(path)}
    if not path.is_dir():
        return [Fault(f"../{version}", 1, FROZEN_MISSING.format(**names))]
    links = [*link_faults(path), *size_faults(path)]
    try:
        if not links:
            verify_version(version, root, record=record, made=made)
            return []
        reason = str(links[0])
    except ValueError as error:
        reason = error.reason if isinstance(error, FrozenError) else str(error)
    return [Fault(f"../{version}", 1, FROZEN_CHANGED.format(**names, reason=reason))]


@cache
def _made(root: Path, version: str, digest: str) -> Mapping[str, Mapping[str, Any]] | None:
    """What today's code makes of a version with this digest; `None`: that is not it, which is told in another way."""
    try:
        if read_vocabulary(root / version).digest != digest:
            return None
    except (VocabularyError, NotADirectoryError):
        return None
    return table_counts({config: version_table(version, config, root) for config in version_configs(version, root)})


def _recorded(root: Path) -> dict[str, Any]:
    """What is recorded in a folder of versions; nothing if that cannot be read."""
    try:
        return read_frozen(root)
    except (ValueError, OSError):
        return {}
