"""Checks a change to the vocabulary, and reports faults, possible mistakes and new sentences.

    holistic-bias check-terms [--vocabulary DIR] [--against REV]

The exit code is 0 if there are no faults, 1 if there are faults, and 2 if the check failed.
"""

import argparse
import hashlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from hb_dataset.command_line import CommandParser
from hb_dataset.decisions import decision_rows
from hb_dataset.names import read_names
from hb_dataset.prompt_table import prompt_table, standalone_table
from hb_dataset.versions import NEXT, version_folder
from hb_dataset.vocabulary import VOCABULARIES, Vocabulary, read_vocabulary
from hb_dataset.written_text import is_invisible
from hb_dataset.yaml_lines import Fault, FaultsError
from hub_scripts.terms.entries import (
    NOUN,
    STANDALONE,
    TEMPLATE,
    TERM,
    Changes,
    Entry,
    compare,
    read_against,
    read_folder,
)
from hub_scripts.terms.folder_checks import frozen_faults, link_faults, newly_frozen, shown_path, subfolder_faults
from hub_scripts.terms.hints import WORDING, hints, source_faults

NUM_ENTRIES, NUM_SENTENCES = 25, 10  # the entries whose sentences are shown, and the sentences of each
_CLIPPED_TO = 400  # the maximum number of characters in a message


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
    faults = [*link_faults(folder), *subfolder_faults(folder), *frozen_faults(folder)]
    if folder.resolve().parent == VOCABULARIES:
        for read, place in ((read_names, ".."), (decision_rows, "../../decisions")):
            try:
                read()
            except FaultsError as error:
                faults += [fault._replace(file=f"{place}/{fault.file}") for fault in error.faults]
    name, before = read_against(folder, against)
    if link_faults(folder):  # nothing is read, because a link could point anywhere
        return Report(folder, name, sorted(faults), [], Changes([], [], []), [], 0)
    entries, vocabulary = read_folder(folder), None
    try:
        vocabulary = read_vocabulary(folder)
    except FaultsError as error:
        faults += error.faults
    changes = compare(before, entries)
    faults += source_faults(before, changes)
    reworded = [change.after for change in changes.changed if WORDING & change.differences.keys()]
    readable = [entry for entry in (*changes.added, *reworded) if entry.kind in (TERM, NOUN, TEMPLATE, STANDALONE)]
    sentences = []
    if vocabulary is not None:
        sentences = [(entry, _sentences(entry, vocabulary)) for entry in readable[:NUM_ENTRIES]]
    things = [*hints(entries, changes), *newly_frozen(folder)]
    return Report(folder, name, sorted(faults), sorted(things), changes, sentences, len(readable))


def main(argv: Sequence[str] | None = None) -> None:
    default = Path(shown_path(version_folder(NEXT)))
    parser = CommandParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--vocabulary",
        type=Path,
        default=default,
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
    except ValueError as error:
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
    lines = ["", title] if faults else []
    for fault in faults:
        message = visible(fault.message)
        if len(message) > _CLIPPED_TO:
            message = f"{message[:_CLIPPED_TO]}… ({len(message) - _CLIPPED_TO:,} more characters)"
        lines.append(f"  {visible(os.path.normpath(folder / fault.file))}:{fault.line}: {message}")
    return lines


def _sentences(entry: Entry, vocabulary: Vocabulary) -> list[str]:
    """Draws sentences that contain an entry. A hash makes the draw independent of the rest of the vocabulary."""
    of_kind = {TERM: vocabulary.descriptors, NOUN: vocabulary.nouns, TEMPLATE: vocabulary.templates}
    if entry.kind == STANDALONE:
        texts = standalone_table([entry.value], vocabulary.templates)["text"]
    else:
        parts: list[Any] = [[entry.value] if entry.kind == kind else values for kind, values in of_kind.items()]
        texts = prompt_table(parts[0], parts[1], parts[2], vocabulary.left_out_nouns)["text"]
    return sorted(texts.unique().to_pylist(), key=lambda text: hashlib.sha256(text.encode()).digest())[:NUM_SENTENCES]


if __name__ == "__main__":
    main()
