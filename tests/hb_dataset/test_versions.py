import hashlib
import shutil

import pytest

from hb_dataset.prompts import config_table, version_configs
from hb_dataset.versions import NEXT, frozen_versions, read_frozen, read_version, table_counts, verify_version
from hb_dataset.vocabulary import VOCABULARIES
from hb_dataset.yaml_lines import FaultsError
from tests.hub_scripts.versions_on_disk import edit

# If a test of these digests fails, a frozen version was changed: undo that, do not change the digest.
V11_RECORD_DIGEST = "8b01a6e966c26c90d958d3352fe3a02885fdae4429ed8ebe01895b7f87e90e7a"
# Of the versions as their authors published them: SHA-256 of the distinct texts, sorted, one a line.
SENTENCES = {
    "v1.0": "f95ed55eb6b2cec3369b6aa5e60b84ffe07385f48af6b409341ec21390c9f753",
    "v1.1": "875698287f6b6fff14dc95be6816e1308aa8a521e8c3c4dfaadaeeaab28ae448",
}
V1_RECORD_DIGEST = "e8c5ae627acd2cee222ce9948bf4331b5698e84820f8cf976f49705d1860458c"


@pytest.fixture
def root(tmp_path):
    return shutil.copytree(VOCABULARIES, tmp_path / "vocabulary")


def test_the_records_of_frozen_versions_stay():
    records = {version: record["record_digest"] for version, record in read_frozen().items()}
    assert records == {"v1.0": V1_RECORD_DIGEST, "v1.1": V11_RECORD_DIGEST}


@pytest.mark.parametrize("version", frozen_versions())
def test_a_frozen_version_gives_its_golden_counts(version):
    vocabulary = read_version(version)
    tables = {config.name: config_table(config, vocabulary) for config in version_configs(version)}
    made = table_counts(tables)
    assert verify_version(version, made=made) == vocabulary
    counts = read_frozen()[version]["counts"]
    assert made.items() <= counts.items()
    if "descriptors_by_axis" in counts:  # later records count by config alone
        axes = tables["descriptors"]["axis"].to_pylist()
        assert {axis: axes.count(axis) for axis in set(axes)} == counts["descriptors_by_axis"]
    texts = sorted(tables[version]["text"].unique().to_pylist())
    assert len(texts) == counts["distinct_texts"][version]
    assert hashlib.sha256("\n".join(texts).encode()).hexdigest() == SENTENCES[version]
    if version == "v1.1":
        assert tables["v1.1"]["descriptor_gender"].null_count == 549_120  # what Likelihood Bias takes without others


def test_the_golden_counts_of_v1_are_the_papers():
    counts = read_frozen()["v1.0"]["counts"]
    assert counts["distinct_texts"]["v1.0"] == 459_758
    assert (counts["distinct_terms"], counts["nouns"], counts["templates"]) == (594, 30, 26)
    assert len(counts["descriptors_by_axis"]) == 13


def test_the_golden_counts_of_v1_1_are_the_authors():
    counts = read_frozen()["v1.1"]["counts"]
    assert (counts["rows"]["v1.1"], counts["distinct_texts"]["v1.1"]) == (554_216, 550_888)
    assert (counts["descriptors"], counts["nouns"], counts["standalone_noun_phrases"]) == (677, 32, 98)
    assert counts["rows"]["v1.1-small"] == 13 * 6 * 32 * 4


def test_an_unknown_version_is_reported_with_the_allowed_ones():
    with pytest.raises(ValueError, match=r"version 'v1\.2' .* mean 'v1\.[01]'\? allowed: v1\.0, v1\.1, next"):
        read_version("v1.2")


def test_a_changed_frozen_version_is_refused(root):
    edit(root / "v1.0" / "ability.yaml", "  - term: Deaf\n", "  - term: deaf\n")
    with pytest.raises(ValueError, match=r"the vocabulary v1\.0 is frozen and was changed: .* change 'next' instead"):
        read_version("v1.0", root)
    shutil.rmtree(root / "v1.0")
    with pytest.raises(ValueError, match=r"its folder .* does not exist"):
        read_version("v1.0", root)


def test_next_may_change_but_not_be_wrong(root):
    edit(root / NEXT / "ability.yaml", "  - term: Deaf\n", "  - term: deaf\n")
    assert read_version(NEXT, root).descriptors[0].term == "deaf"
    edit(root / NEXT / "ability.yaml", "  - term: deaf\n", "  - word: deaf\n")
    with pytest.raises(FaultsError):
        read_version(NEXT, root)
