"""Freezes the vocabulary `next` as a version that never changes again.

    python hub_scripts/freeze_version.py v2.0
    python hub_scripts/freeze_version.py v1.1 --vocabulary DIR   # a list of others

It checks hb_dataset/vocabulary/next, copies it to hb_dataset/vocabulary/v2.0, records its digest, the day and golden
counts in frozen.json, and writes what changed into the vocabulary's CHANGELOG.md. Commit the result, then publish it
with hub_scripts/publish_dataset.py.
"""

import argparse
import json
import shutil
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hb_dataset.prompts import version_configs, version_table
from hb_dataset.versions import (
    FROZEN_FILE,
    NEXT,
    frozen_record,
    frozen_versions,
    read_frozen,
    read_version,
    table_counts,
    verify_version,
    version_number,
    vocabulary_counts,
)
from hb_dataset.vocabulary import VOCABULARIES, Vocabulary, read_vocabulary, vocabulary_files
from hb_dataset.whole_files import write_text
from hub_scripts.check_terms import check
from hub_scripts.folder_checks import CHANGELOG_FILE, unrecorded
from hub_scripts.term_changes import Changed
from hub_scripts.term_entries import TERM, Entry
from hub_scripts.term_report import Report, code, visible

_TITLE = "# Changes of the vocabulary, newest first\n"


def main(argv: Sequence[str] | None = None) -> None:
    """Freezes the version and prints what was written."""
    parser = argparse.ArgumentParser(
        prog="hub_scripts/freeze_version.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("version", help="The name of the new version, such as v2.0.")
    parser.add_argument(
        "--vocabulary",
        type=Path,
        metavar="DIR",
        help=f"The vocabulary folder to freeze, such as lists that were converted. By default it is `{NEXT}`.",
    )
    options = parser.parse_args(argv)
    try:
        counts = freeze_version(options.version, folder=options.vocabulary)
    except (ValueError, OSError) as error:
        raise SystemExit(f"freeze_version.py: {error}") from error
    print(f"{options.version} is frozen: {VOCABULARIES / options.version}")
    print(f"{counts['descriptors']:,} terms, {counts['nouns']} nouns, {counts['templates']} templates")
    for config, rows in counts["rows"].items():
        print(f"  {config}: {rows:,} rows")
    print(f"what changed: {VOCABULARIES / CHANGELOG_FILE}")
    publish = "python hub_scripts/publish_dataset.py --repo_id ORG/holistic_bias --version"
    print(f"Commit it, then: {publish} {options.version}")


def freeze_version(version: str, root: Path = VOCABULARIES, *, folder: Path | None = None) -> dict[str, Any]:
    """Freezes `next`, or another vocabulary.

    The entry in frozen.json is written last: until then the version does not exist, and the same call resumes a freeze
    that was interrupted.

    Args:
        version: The name of the new version, whose number is higher than all frozen ones.
        root: The folder that holds the versions.
        folder: The vocabulary to freeze; `None`: `next` of `root`.

    Returns:
        The golden counts.

    Raises:
        NotADirectoryError: If there is no such folder.
        ValueError: If the version is frozen already or is not newer than the newest, if the vocabulary has faults
            (`VocabularyError`), or if nothing has changed since the newest version.
    """
    newest = frozen_versions(root)[-1]
    major, _ = version_number(newest)
    successor = f"v{major + 1}.0"
    if version in frozen_versions(root):
        raise ValueError(f"{version} is frozen, and a frozen version never changes; freeze the next one as {successor}")
    if version_number(version) <= version_number(newest):
        raise ValueError(
            f"{version} is not newer than {newest}, the newest frozen version; freeze the next one as {successor}"
        )
    source, name = (root / NEXT, NEXT) if folder is None else (folder, folder)
    before, after = read_version(newest, root), read_vocabulary(source)
    if after.digest == before.digest:
        raise ValueError(f"'{name}' has the same content as {newest}; there is nothing to freeze")
    report = check(source, str(root / newest))
    faults = [fault for fault in report.faults if fault != unrecorded(version)]  # left from a freeze; see below
    if faults:
        lines = "\n".join(f"  {visible(str(fault))}" for fault in faults)
        raise ValueError(
            f"'{name}' has faults that have to be corrected first (hub_scripts/check_terms.py shows more):\n{lines}"
        )

    target = root / version
    if not target.exists():
        scratch = root / f".{version}.tmp"
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir()
        for file in vocabulary_files(after):  # without notes or hidden files beside them
            shutil.copy(source / file, scratch)
        scratch.rename(target)
    elif read_vocabulary(target).digest != after.digest:
        raise ValueError(
            f"'{target}' exists, but is not recorded as frozen and has not the content of '{name}'; if it "
            "is left from a freeze that was interrupted, remove it and run the command again"
        )
    counts = golden_counts(version, root, after)
    _write_changelog(root / CHANGELOG_FILE, version, changelog_section(report, newest))
    today = datetime.now(UTC).date().isoformat()
    record = {**read_frozen(root), version: frozen_record(version, after, counts, today)}
    write_text(root / FROZEN_FILE, json.dumps(record, indent=2) + "\n")
    verify_version(version, root)
    return counts


def golden_counts(version: str, root: Path, vocabulary: Vocabulary) -> dict[str, Any]:
    """Counts of a version: terms by axis, nouns, templates, and rows and distinct texts of each config.

    With them comes the SHA-256 of each config's texts, one a line: a frozen version gives the same texts for ever.

    Args:
        version: The version, which need not be recorded yet.
        root: The folder that holds the versions.
        vocabulary: Its vocabulary.
    """
    tables = {
        config: version_table(version, config, root, vocabulary=vocabulary) for config in version_configs(version, root)
    }
    return {**vocabulary_counts(vocabulary), **table_counts(tables)}


def changelog_section(report: Report, against: str) -> str:
    """What changed, in Markdown: terms, nouns and templates added, removed, relabelled or otherwise changed."""
    changes, counts = report.changes, report.effect
    relabelled = [change for change in changes.changed if "preference" in {key for key, _, _ in change.differences}]
    others = [change for change in changes.changed if change not in relabelled]
    lines = [
        f"Compared with {against}: {counts.before.rows:,} → {counts.after.rows:,} prompts, "
        f"{counts.before.texts:,} → {counts.after.texts:,} distinct sentences.",
        *_entry_lines("Added", changes.added),
        *_entry_lines("Removed", changes.removed),
        *_change_lines("Relabelled", relabelled),
        *_change_lines("Changed", others),
    ]
    counts_by_kind = [(changes.num_unnamed_added, "added"), (changes.num_unnamed_removed, "removed")]
    unnamed = [f"{number} {what} ({kind})" for kinds, what in counts_by_kind for kind, number in kinds.items()]
    return "\n".join([*lines, *(["", f"Which words go together: {', '.join(unnamed)}."] if unnamed else [])])


def _entry_lines(title: str, entries: Sequence[Entry]) -> list[str]:
    """The entries under a title, a line for each axis and kind."""
    names: dict[str, list[str]] = {}
    for entry in entries:
        names.setdefault(f"{entry.axis}" if entry.kind == TERM else f"{entry.kind}s", []).append(code(entry.name))
    lines = [f"* {group}: {', '.join(listed)}" for group, listed in sorted(names.items())]
    return ["", f"### {title}", "", *lines] if lines else []


def _change_lines(title: str, changed: Sequence[Changed]) -> list[str]:
    lines = []
    for change in changed:
        what = ", ".join(f"{key} {_value(old)} → {_value(new)}" for key, old, new in change.differences)
        lines.append(f"* {change.after.axis or change.after.kind} {code(change.before.name)}: {what}")
    return ["", f"### {title}", "", *lines] if lines else []


def _value(value: object) -> str:
    return "(none)" if value is None else code(str(value))


def _write_changelog(path: Path, version: str, changes: str) -> None:
    """Puts a version's changes first, and replaces those that an interrupted freeze of it wrote."""
    heading = f"## {version}\n"
    sections = path.read_text(encoding="utf-8").removeprefix(_TITLE).split("\n## ") if path.exists() else []
    others = [f"## {section.strip()}\n" for section in sections if section.strip()]
    kept = [section for section in others if not section.startswith(heading)]
    write_text(path, "\n".join([_TITLE, f"{heading}\n{changes.strip()}\n", *kept]))


if __name__ == "__main__":
    main()
