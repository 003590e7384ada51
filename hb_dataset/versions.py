"""Reads versions of the vocabulary, and checks that frozen versions have not changed.

Pull requests change only the version `next`. For each frozen version, `frozen.json` records the date, the digest of the
vocabulary, the number of rows in each config, and the SHA-256 digest of each config's sentences. `read_version` checks
a version against this record. It does not check the sentences, because building them would take seconds.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hb_dataset import vocabulary as _vocabulary
from hb_dataset.command_line import check_known
from hb_dataset.vocabulary import read_vocabulary
from hb_dataset.vocabulary_entries import Vocabulary
from hb_dataset.yaml_lines import FaultsError

if TYPE_CHECKING:
    import pyarrow as pa

NEXT = "next"
FROZEN_FILE = "frozen.json"
CHANGELOG_FILE = "CHANGELOG.md"  # the changes in each version
VERSION_NAME = re.compile(r"v([0-9]+)\.([0-9]+)")


class FrozenError(ValueError):
    def __init__(self, version: str, reason: str) -> None:
        self.reason = reason
        super().__init__(
            f"the vocabulary {version} is frozen and was changed: {reason}; undo the change (git checkout), and "
            f"change '{NEXT}' instead"
        )


def frozen_versions(root: Path | None = None) -> tuple[str, ...]:
    return tuple(sorted(read_frozen(root), key=version_number))


def read_frozen(root: Path | None = None) -> dict[str, dict[str, Any]]:
    path = version_folder(FROZEN_FILE, root)
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")).items())
    except (ValueError, AttributeError, RecursionError) as error:
        raise ValueError(f"'{path}' is damaged ({error}); undo the change (git checkout)") from error


def version_folder(version: str, root: Path | None = None) -> Path:
    return (root or _vocabulary.VOCABULARIES) / version


def read_version(version: str, root: Path | None = None) -> Vocabulary:
    """Reads a version (`"v1.0"`, …, or `"next"`).

    Raises:
        ValueError: The version does not exist, or it is frozen and was changed (`FrozenError`).
        FaultsError: The vocabulary has faults.
    """
    frozen = read_frozen(root)
    check_known(version, [*sorted(frozen, key=version_number), NEXT], f"version '{version}' does not exist")
    return read_vocabulary(version_folder(NEXT, root)) if version == NEXT else verify_version(version, root)


def verify_version(
    version: str,
    root: Path | None = None,
    *,
    record: Mapping[str, Any] | None = None,
    made: Mapping[str, Mapping[str, object]] | None = None,
) -> Vocabulary:
    """Reads a frozen version. Raises `FrozenError` if the version differs from its record.

    To check the sentences too, build the version's configs and pass their `table_counts` as `made`.
    """
    record = read_frozen(root)[version] if record is None else record
    if not isinstance(record, Mapping) or record.get("record_digest") != _record_digest(version, record):
        raise FrozenError(version, f"its record in {FROZEN_FILE} was changed")
    folder = version_folder(version, root)
    if not folder.is_dir():
        raise FrozenError(version, f"its folder {folder} does not exist")
    try:
        vocabulary = read_vocabulary(folder)
    except FaultsError as error:
        raise FrozenError(version, f"it cannot be read ({error.faults[0]})") from error
    if vocabulary.digest != record["digest"]:
        raise FrozenError(version, f"its digest is {vocabulary.digest}, not {record['digest']}")
    for name, counts in (made or {}).items():
        if record["counts"][name] != counts:
            raise ValueError(f"the code changes {name} of {version}; use the code with which it was frozen")
    return vocabulary


def frozen_record(version: str, vocabulary: Vocabulary, counts: Mapping[str, object], day: str) -> dict[str, object]:
    """Makes the record of a frozen version. `counts` are its `table_counts`."""
    record = {"digest": vocabulary.digest, "date": day, "counts": dict(counts)}
    return {**record, "record_digest": _record_digest(version, record)}


def table_counts(tables: "Mapping[str, pa.Table]") -> dict[str, dict[str, object]]:
    """Counts the rows and distinct texts of each config, and hashes its texts (one per line)."""
    texts = {config: table["text"] for config, table in tables.items() if "text" in table.column_names}
    return {
        "rows": {config: table.num_rows for config, table in tables.items()},
        "distinct_texts": {config: len(column.unique()) for config, column in texts.items()},
        "text_digests": {
            config: hashlib.sha256("\n".join(column.to_pylist()).encode()).hexdigest()
            for config, column in texts.items()
        },
    }


def version_number(version: str) -> tuple[int, int]:
    match = VERSION_NAME.fullmatch(version)
    if match is None:
        raise ValueError(f"'{version}' is not the name of a version; write v<number>.<number>, such as v2.0")
    return int(match[1]), int(match[2])


def _record_digest(version: str, record: Mapping[str, object]) -> str:
    content = {name: value for name, value in record.items() if name != "record_digest"}
    return hashlib.sha256(json.dumps({version: content}, sort_keys=True).encode()).hexdigest()
