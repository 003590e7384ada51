"""Freezes the vocabulary `next` as a version that never changes again.

    python hub_scripts/terms/freeze_version.py v2.0

The script checks hb_dataset/vocabulary/next and copies it to hb_dataset/vocabulary/v2.0. It records the version in
frozen.json, and adds the changes to the vocabulary's CHANGELOG.md. Commit the result, then publish it with
hub_scripts/publish_dataset.py.
"""

import json
import shutil
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hb_dataset.command_line import CommandParser
from hb_dataset.grouped import grouped
from hb_dataset.prompts import config_table, version_configs
from hb_dataset.versions import (
    CHANGELOG_FILE,
    FROZEN_FILE,
    NEXT,
    frozen_record,
    frozen_versions,
    read_frozen,
    read_version,
    table_counts,
    verify_version,
    version_number,
)
from hb_dataset.vocabulary import VOCABULARIES, vocabulary_files
from hb_dataset.whole_files import write_text
from hub_scripts.terms.check_terms import check, visible
from hub_scripts.terms.entries import TERM, Changed, Changes, Entry

_TITLE = "# Changes of the vocabulary, newest first\n"


def main(argv: Sequence[str] | None = None) -> None:
    parser = CommandParser(prog="hub_scripts/terms/freeze_version.py", description=__doc__)
    parser.add_argument("version", help="The name of the new version, such as v2.0.")
    options = parser.parse_args(argv)
    try:
        rows = freeze_version(options.version)["rows"]
    except (ValueError, OSError) as error:
        raise SystemExit(f"freeze_version.py: {error}") from error
    print(f"{options.version} is frozen: {VOCABULARIES / options.version}")
    print(f"{rows['descriptors']:,} terms, {rows['nouns']} nouns, {rows['templates']} templates")
    print(
        "Commit these files, then run: holistic-bias publish dataset --repo_id ORG/holistic_bias --version "
        f"{options.version}"
    )


def freeze_version(version: str, root: Path = VOCABULARIES) -> dict[str, Any]:
    """Freezes `next` as a new version, and returns its `table_counts`.

    The entry in frozen.json is written last. Without this entry, the version does not exist. If freezing is
    interrupted, remove the folder of the version and start again.
    """
    newest = frozen_versions(root)[-1]
    major, _ = version_number(newest)
    if version_number(version) <= version_number(newest):
        raise ValueError(f"{version} is not newer than {newest}, the newest frozen version; freeze v{major + 1}.0")
    before, after = read_version(newest, root), read_version(NEXT, root)
    if after.digest == before.digest:
        raise ValueError(f"'{NEXT}' has the same content as {newest}; change '{NEXT}' before you freeze a version")
    report = check(root / NEXT, str(root / newest))
    if report.faults:
        lines = "\n".join(f"  {visible(str(fault))}" for fault in report.faults)
        raise ValueError(f"'{NEXT}' has faults; correct them first (see `holistic-bias check-terms`):\n{lines}")

    (root / version).mkdir()
    for file in vocabulary_files(after):  # notes and hidden files in the folder are not copied
        shutil.copy(root / NEXT / file, root / version)
    tables = {config.name: config_table(config, after) for config in version_configs(version, root)}
    counts: dict[str, Any] = table_counts(tables)
    frozen = read_frozen(root)
    old, new = frozen[newest]["counts"], counts
    changelog = root / CHANGELOG_FILE
    earlier = changelog.read_text(encoding="utf-8").removeprefix(_TITLE) if changelog.exists() else ""
    section = [
        f"{_TITLE}\n## {version}\n",
        f"Compared with {newest}: {old['rows'][newest]:,} → {new['rows'][version]:,} prompts, "
        f"{old['distinct_texts'][newest]:,} → {new['distinct_texts'][version]:,} distinct sentences.",
        *changelog_lines(report.changes),
    ]
    write_text(changelog, "\n".join(section) + f"\n{earlier}")
    today = datetime.now(UTC).date().isoformat()
    record = {**frozen, version: frozen_record(version, after, counts, today)}
    write_text(root / FROZEN_FILE, json.dumps(record, indent=2) + "\n")
    verify_version(version, root)
    return counts


def changelog_lines(changes: Changes) -> list[str]:
    relabelled = [change for change in changes.changed if "preference" in change.differences]
    changed = [change for change in changes.changed if "preference" not in change.differences]
    sections = {
        "Added": _entry_lines(changes.added),
        "Removed": _entry_lines(changes.removed),
        "Relabelled": [_change_line(change) for change in relabelled],
        "Changed": [_change_line(change) for change in changed],
    }
    return [line for title, lines in sections.items() if lines for line in ("", f"### {title}", "", *lines)]


def _entry_lines(entries: Sequence[Entry]) -> list[str]:
    names = grouped(
        (f"{entry.axis}" if entry.kind == TERM else f"{entry.kind}s", _code(entry.name)) for entry in entries
    )
    return [f"* {group}: {', '.join(listed)}" for group, listed in sorted(names.items())]


def _change_line(change: Changed) -> str:
    what = ", ".join(f"{key} {_code(old)} → {_code(new)}" for key, (old, new) in change.differences.items())
    return f"* {change.after.axis or change.after.kind} {_code(change.before.name)}: {what}"


def _code(value: object) -> str:
    return "(none)" if value is None else f"`{str(value).replace('`', chr(39))}`"


if __name__ == "__main__":
    main()
