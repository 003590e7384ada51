import shutil
from datetime import UTC, date, datetime

import pytest
import yaml

from hb_dataset import read_vocabulary
from hb_dataset import vocabulary as vocabulary_module
from hb_dataset.prompts import version_configs, version_table
from hb_dataset.versions import NEXT, read_frozen, read_version
from hb_dataset.vocabulary import VOCABULARIES
from hb_dataset.vocabulary_entries import TEMPLATES_FILE
from hub_scripts.freeze_version import freeze_version
from tests.hub_scripts.versions_on_disk import record_as_frozen

AXES = ("age", "sexual_orientation")
NUM_TEMPLATES = 4
TERM = "  - term: {term}\n    bucket: young\n    source: a test\n"


@pytest.fixture
def root(tmp_path, monkeypatch):
    """v1.0 and next in the package's place, with two axes and few templates, and without which words go together."""
    root = tmp_path / "vocabulary"
    for version in ("v1.0", NEXT):
        shutil.copytree(VOCABULARIES / version, root / version)
        for file in (root / version).iterdir():
            holds_terms = "\naxis:" in file.read_text(encoding="utf-8")
            if (holds_terms and file.stem not in AXES) or file.stem.startswith(
                ("adjective_order", "left_out", "standalone")
            ):
                file.unlink()
        templates = root / version / TEMPLATES_FILE
        document = yaml.safe_load(templates.read_text(encoding="utf-8"))
        document["templates"] = document["templates"][:NUM_TEMPLATES]
        templates.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
    record_as_frozen(root, "v1.0")
    monkeypatch.setattr(vocabulary_module, "VOCABULARIES", root)
    return root


def edit(path, old, new):
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


def add(root, term):
    with (root / NEXT / "age.yaml").open("a", encoding="utf-8") as file:
        file.write(TERM.format(term=term))


def snapshot(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_next_becomes_the_version(root):
    add(root, "growing")
    before = snapshot(root / "v1.0")
    counts = freeze_version("v2.0", root)
    assert read_version("v2.0", root) == read_version(NEXT, root)
    assert snapshot(root / "v1.0") == before
    assert {path.name for path in root.iterdir()} == {"v1.0", "v2.0", NEXT, "frozen.json", "CHANGELOG.md"}
    record = read_frozen(root)["v2.0"]
    assert date.fromisoformat(record.pop("date")) <= datetime.now(UTC).date()
    assert len(record.pop("record_digest")) == 64
    assert record == {"digest": read_vocabulary(root / NEXT).digest, "counts": counts}
    tables = {config: version_table("v2.0", config, root) for config in version_configs("v2.0", root)}
    assert counts["rows"] == {config: table.num_rows for config, table in tables.items()}
    assert counts["descriptors_by_axis"] == {"age": 63, "sexual_orientation": 20}


def test_the_changelog_lists_what_changed(root):
    add(root, "growing")
    edit(root / NEXT / "age.yaml", "  - term: spry\n    bucket: old\n", "")
    edit(root / NEXT / "age.yaml", "  - term: elderly\n    bucket: old\n", "  - term: elderly\n    bucket: adult\n")
    edit(
        root / NEXT / "age.yaml",
        "  - term: senior\n    bucket: old\n",
        "  - term: senior\n    bucket: old\n    preference: dispreferred\n",
    )
    rows = {version: version_table(version, version, root).num_rows for version in ("v1.0", NEXT)}
    freeze_version("v2.0", root)
    changelog = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    assert changelog.startswith("# Changes of the vocabulary, newest first\n\n## v2.0\n\n")
    assert f"Compared with v1.0: {rows['v1.0']:,} → {rows[NEXT]:,} prompts" in changelog
    assert (
        "### Added\n\n* age: `geriatric`, `mature`, `growing`\n* nouns: `gal`, `sista`, `enby`, `demiboy`, `demigirl`\n"
        in changelog
    )
    assert "### Removed\n\n* age: `spry`\n" in changelog
    assert "### Relabelled\n\n* age `senior`: preference (none) → `dispreferred`\n" in changelog
    assert "* age `elderly`: bucket `old` → `adult`\n" in changelog
    assert "* age `80-year-old`: article (none) → `an`" in changelog


@pytest.mark.parametrize(
    ("version", "message"),
    [
        ("v1.0", "v1.0 is not newer than v1.0, the newest frozen version, and frozen versions never change"),
        ("../v2.0", "'../v2.0' is not the name of a version"),
    ],
)
def test_other_versions_are_refused(root, version, message):
    add(root, "growing")
    before = snapshot(root)
    with pytest.raises(ValueError, match="version") as caught:
        freeze_version(version, root)
    assert message in str(caught.value)
    assert snapshot(root) == before


def test_all_faults_are_listed_and_nothing_is_written(root):
    edit(root / NEXT / "age.yaml", "  - term: spry\n", "  - word: spry\n")
    edit(root / NEXT / "nouns.yaml", "    plural: enbies\n", "")
    before = snapshot(root)
    with pytest.raises(ValueError, match=r"(?s)age\.yaml:\d+: .*nouns\.yaml:\d+: entry has no `plural`"):
        freeze_version("v2.0", root)
    assert snapshot(root) == before


def test_a_new_term_without_a_source_is_refused(root):
    with (root / NEXT / "age.yaml").open("a", encoding="utf-8") as file:
        file.write("  - term: growing\n    bucket: young\n")
    before = snapshot(root)
    with pytest.raises(ValueError, match=r"'next' has faults; correct them first .*\n  age\.yaml:\d+: .*source"):
        freeze_version("v2.0", root)
    assert snapshot(root) == before
