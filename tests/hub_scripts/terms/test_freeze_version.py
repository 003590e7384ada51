import shutil
from collections import Counter
from datetime import UTC, date, datetime

import pytest

from hb_dataset import read_vocabulary
from hb_dataset import vocabulary as vocabulary_module
from hb_dataset.prompts import config_table, version_configs
from hb_dataset.versions import NEXT, read_frozen, read_version
from hb_dataset.vocabulary import VOCABULARIES
from hub_scripts.terms.freeze_version import freeze_version
from tests.hub_scripts.versions_on_disk import copy_small, edit, freeze_small, table_of

SPRY = "  - term: spry\n    bucket: old\n"
GROWING = SPRY, f"{SPRY}  - term: growing\n    bucket: young\n    source: a test\n"


@pytest.fixture
def root(tmp_path, monkeypatch):
    """v1.0 and next in the package's place, with two axes and few templates."""
    root = freeze_small(tmp_path / "hb_dataset" / "vocabulary", "v1.0", without="nonce")
    shutil.copy(VOCABULARIES.parent / "LICENSE", root.parent)
    copy_small(NEXT, root / NEXT, without="nonce")
    monkeypatch.setattr(vocabulary_module, "VOCABULARIES", root)
    return root


def snapshot(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_next_becomes_the_version(root):
    edit(root / NEXT / "age.yaml", *GROWING)
    before = snapshot(root / "v1.0")
    counts = freeze_version("v2.0", root)
    assert read_version("v2.0", root) == read_version(NEXT, root)
    assert snapshot(root / "v1.0") == before
    assert {path.name for path in root.iterdir()} == {"v1.0", "v2.0", NEXT, "frozen.json", "CHANGELOG.md"}
    record = read_frozen(root)["v2.0"]
    assert date.fromisoformat(record.pop("date")) <= datetime.now(UTC).date()
    assert len(record.pop("record_digest")) == 64
    assert record == {"digest": read_vocabulary(root / NEXT).digest, "counts": counts}
    version = read_version("v2.0", root)
    tables = {config.name: config_table(config, version) for config in version_configs("v2.0", root)}
    assert counts["rows"] == {config: table.num_rows for config, table in tables.items()}
    assert Counter(tables["descriptors"]["axis"].to_pylist()) == {"age": 63, "sexual_orientation": 20}


def test_the_changelog_lists_what_changed(root):
    for old, new in (
        GROWING,
        (SPRY, ""),
        ("elderly\n    bucket: old\n", "elderly\n    bucket: adult\n"),
        ("senior\n    bucket: old\n", "senior\n    bucket: old\n    preference: dispreferred\n"),
    ):
        edit(root / NEXT / "age.yaml", old, new)
    rows = {version: table_of(root, version, version).num_rows for version in ("v1.0", NEXT)}
    freeze_version("v2.0", root)
    changelog = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    assert changelog.startswith("# Changes of the vocabulary, newest first\n\n## v2.0\n\n")
    assert f"Compared with v1.0: {rows['v1.0']:,} → {rows[NEXT]:,} prompts" in changelog
    assert (
        "### Added\n\n* age: `growing`, `geriatric`, `mature`\n* nouns: `gal`, `sista`, `enby`, `demiboy`, `demigirl`\n"
        in changelog
    )
    assert "### Removed\n\n* age: `spry`\n" in changelog
    assert "### Relabelled\n\n* age `senior`: preference (none) → `dispreferred`\n" in changelog
    assert "* age `elderly`: bucket `old` → `adult`\n" in changelog
    assert "* age `80-year-old`: article (none) → `an`" in changelog


FAULTS = [("age.yaml", "  - term: spry\n", "  - word: spry\n"), ("nouns.yaml", "    plural: enbies\n", "")]


@pytest.mark.parametrize(
    ("version", "edits", "message"),
    [
        ("v1.0", [], r"v1\.0 is not newer than v1\.0, the newest frozen version; freeze v2\.0"),
        ("../v2.0", [], r"'\.\./v2\.0' is not the name of a version"),
        ("v2.0", FAULTS, r"(?s)age\.yaml:\d+: .*nouns\.yaml:\d+: entry has no `plural`"),  # all of them
        (
            "v2.0",
            [("age.yaml", GROWING[0], GROWING[1].replace("    source: a test\n", ""))],
            r"'next' has faults; correct them first .*\n  age\.yaml:\d+: .*source",
        ),
    ],
)
def test_a_version_that_cannot_be_frozen_changes_nothing(root, version, edits, message):
    for name, old, new in edits:
        edit(root / NEXT / name, old, new)
    before = snapshot(root)
    with pytest.raises(ValueError, match=message):
        freeze_version(version, root)
    assert snapshot(root) == before
