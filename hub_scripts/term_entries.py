"""Reads the entries of a vocabulary folder or of a git revision, with their files and lines.

Unlike `hb_dataset.read_vocabulary`, this module tolerates faults.
"""

import io
import subprocess
import tarfile
import tempfile
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from hb_dataset.versions import frozen_versions, version_folder
from hb_dataset.vocabulary import LISTS, read_vocabulary
from hb_dataset.vocabulary_entries import (
    ADJECTIVE_ORDER_FILE,
    LEFT_OUT_FILE,
    LEFT_OUT_NOUNS_FILE,
    NOUNS_FILE,
    SEAT_TEMPLATES_FILE,
    STANDALONE_FILE,
    TEMPLATES_FILE,
    Descriptor,
    LeftOutNoun,
    PersonNoun,
    Template,
)
from hb_dataset.yaml_entries import read_entries
from hb_dataset.yaml_lines import Fault, FaultsError, load_with_lines

TERM, NOUN, TEMPLATE, SEAT_TEMPLATE = "term", "noun", "template", "SEAT template"
STANDALONE = "standalone noun phrase"
ORDER, LEFT_OUT, LEFT_OUT_NOUN = "position among the adjectives", "pair left out", "noun left out of some terms"
# Maps a kind to the key that contains an entry's name. For kinds that are not listed here, the key is "template".
_NAMES = {TERM: "term", NOUN: "noun", STANDALONE: "noun_phrase"}
# Maps each file to the kind of its entries. All other .yaml files contain the terms of an axis.
_KINDS = {
    NOUNS_FILE: NOUN,
    TEMPLATES_FILE: TEMPLATE,
    SEAT_TEMPLATES_FILE: SEAT_TEMPLATE,
    ADJECTIVE_ORDER_FILE: ORDER,
    LEFT_OUT_FILE: LEFT_OUT,
    LEFT_OUT_NOUNS_FILE: LEFT_OUT_NOUN,
    STANDALONE_FILE: STANDALONE,
}


class AgainstError(ValueError):
    pass


class Entry(NamedTuple):
    """An entry. `file_source` is its file's `source`, which applies to entries without their own source."""

    kind: str
    file: str
    line: int
    value: Any
    file_source: str | None

    @property
    def name(self) -> str:
        return getattr(self.value, _NAMES.get(self.kind, "template"))

    @property
    def axis(self) -> str | None:
        return self.value.axis if self.kind in (TERM, STANDALONE) else None

    @property
    def fields(self) -> dict[str, Any]:
        return {field.name: getattr(self.value, field.name) for field in fields(self.value)}


class Contents(NamedTuple):
    """All readable entries of a folder, its files and its faults. `unread` lists the files with unreadable entries."""

    entries: tuple[Entry, ...]
    files: frozenset[str]
    faults: tuple[Fault, ...]
    unread: frozenset[str] = frozenset()

    def of_kind(self, *kinds: str) -> list[Entry]:
        return [entry for entry in self.entries if entry.kind in kinds]

    @property
    def descriptors(self) -> list[Descriptor]:
        return [entry.value for entry in self.of_kind(TERM)]

    @property
    def nouns(self) -> list[PersonNoun]:
        return [entry.value for entry in self.of_kind(NOUN)]

    @property
    def left_out_nouns(self) -> list[LeftOutNoun]:
        return [entry.value for entry in self.of_kind(LEFT_OUT_NOUN)]

    @property
    def templates(self) -> list[Template]:
        slots = ("{noun_phrase}", "{plural_noun_phrase}")
        templates: list[Template] = [entry.value for entry in self.of_kind(TEMPLATE)]
        return [template for template in templates if sum(map(template.template.count, slots)) == 1]


def read_contents(folder: Path) -> Contents:
    try:
        read_vocabulary(folder)
        faults: tuple[Fault, ...] = ()
    except FaultsError as error:
        faults = tuple(error.faults)
    paths = [path for path in sorted(folder.iterdir()) if path.suffix == ".yaml" and path.is_file()]
    read = {path.name: _entries(path) for path in paths}
    return Contents(
        entries=tuple(entry for entries, _ in read.values() for entry in entries),
        files=frozenset(read),
        faults=faults,
        unread=frozenset(name for name, (_, whole) in read.items() if not whole),
    )


def read_against(folder: Path, against: str | None) -> tuple[str, Contents]:
    """Returns the name and the contents of another folder, a git revision or, by default, the newest frozen version."""
    if against is None:
        newest = frozen_versions()[-1]
        return newest, read_contents(version_folder(newest))
    if against and Path(against).is_dir():
        return against, read_contents(Path(against))
    with tempfile.TemporaryDirectory() as scratch:
        _write_revision(folder, against, Path(scratch))
        return against, read_contents(Path(scratch))


def _entries(path: Path) -> tuple[list[Entry], bool]:
    list_name, entry_type, _ = LISTS.get(path.name, ("terms", Descriptor, "descriptors"))
    kind = _KINDS.get(path.name, TERM)
    try:
        document, _ = load_with_lines(path, [])
    except (yaml.YAMLError, UnicodeDecodeError, OSError):
        return [], False
    listed = document.get(list_name) if isinstance(document, dict) else None
    if not isinstance(document, dict) or not isinstance(listed, list):
        return [], False
    source = document.get("source")
    file_source = source if isinstance(source, str) else None
    axis = {"axis": path.stem} if kind == TERM else {}
    located = read_entries(path, list_name, entry_type, [], **axis)
    return [Entry(kind, file, line, value, file_source) for file, line, value in located], len(located) == len(listed)


def _write_revision(folder: Path, revision: str, target: Path) -> None:
    command = ["git", "-C", str(folder), "archive", "--format=tar", "--end-of-options", revision]
    try:
        archive = subprocess.run(command, capture_output=True, check=True).stdout
    except (subprocess.CalledProcessError, FileNotFoundError) as error:
        output = getattr(error, "stderr", b"git is not installed").decode(errors="replace")
        raise AgainstError(
            f"--against {revision!r} is neither a folder nor a git revision that contains {folder} "
            f"({' '.join(output.split())}); set a folder, a branch, a tag or a commit (if it is new, first run `git "
            "fetch`)"
        ) from error
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        for member in files:
            content = files.extractfile(member) if member.isfile() and "/" not in member.name else None
            if content is not None:
                (target / member.name).write_bytes(content.read())
