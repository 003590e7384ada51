import io
from pathlib import Path

import datasets
import pyarrow.parquet as pq
import pytest
from pyarrow import feather

from hub_scripts.publish_dataset import dataset_files, main
from hub_scripts.published_dataset import published_dataset
from tests.hub_scripts import processes
from tests.hub_scripts.versions_on_disk import REPO_ID, freeze_small, table_of, versions_of

SOME_CONFIGS = ("v1.0", "v1.0-seat", "descriptors")
# What a user does, who has nothing of ours: the tables go to Feather files to be compared here.
LOAD = """
import sys
from datasets import disable_progress_bars, load_dataset
from pyarrow import feather

disable_progress_bars()
repo_id, folder, *configs = sys.argv[1:]
for config in configs:
    rows = load_dataset(repo_id, config, revision="v1.0", split="test")
    feather.write_feather(rows.with_format("arrow")[:], f"{folder}/{config}.feather")
default = load_dataset(repo_id)
print(list(default), default["test"].config_name, default["test"].num_rows)
print(sorted(name for name in sys.modules if name.split(".")[0] in ("hb_dataset", "hb_metrics", "hub_scripts")))
"""


def publish(root, version, *more):
    with versions_of(root):
        main(["--repo_id", REPO_ID, "--version", version, *more])


def files_of(root, version):
    with versions_of(root):
        return dataset_files(published_dataset(REPO_ID, version))


def read(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in Path(folder).rglob("*") if path.is_file()}


def plain(table):
    return table.replace_schema_metadata(None)


# --- the files --------------------------------------------------------------------------------------------------------


def test_a_dry_run_loads_as_the_tables_of_all_versions(tmp_path):
    root = freeze_small(freeze_small(tmp_path / "root", "v1.0"), "v2.0", without="age")
    freeze_small(root, "v10.0")
    assert not [path for path in files_of(root, "v2.0") if "v10" in path]
    folder = tmp_path / "dry"
    with versions_of(root):
        main(["--repo_id", REPO_ID, "--dry_run", str(folder)])
    assert read(folder) == files_of(root, "v10.0")
    assert {"README.md", "eval.yaml", "LICENSE", "data/v10.0/test.parquet"} < read(folder).keys()
    # One cache per config: `datasets` knows a local folder with `configs` by its name only.
    for config in ("v10.0", "v1.0-seat", "descriptors"):
        loaded = datasets.load_dataset(str(folder), config, cache_dir=str(tmp_path / config))
        assert list(loaded) == ["test"]
        version = config.partition("-")[0] if config != "descriptors" else "v10.0"
        assert plain(loaded["test"].with_format("arrow")[:]).equals(table_of(root, version, config))
    assert datasets.get_dataset_default_config_name(str(folder)) == "v10.0"
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert card.index("`v2.0` (") < card.index("`v1.0` (")


# --- which version ----------------------------------------------------------------------------------------------------


def test_the_changelog_of_a_version_is_on_its_card(tmp_path):
    for version in ("v1.0", "v2.0"):
        freeze_small(tmp_path, version)
    changelog = "# Changes\n\n##  \n\n## v2.0\n\n1 → 2 prompts.\n\n### Added\n\n* age: a, b\n\n## v1.0\n\nfirst\n"
    (tmp_path / "CHANGELOG.md").write_text(changelog)
    card = files_of(tmp_path, "v2.0")["README.md"].decode()
    folded = "<details>\n<summary>Which ones</summary>\n\n### Added\n\n* age: a, b\n\n</details>"
    assert f"Changes in v2.0:\n\n1 → 2 prompts.\n\n{folded}\n\n## Licence" in card
    assert "first" not in card.partition("Changes in v2.0")[2]
    assert "Changes in v1.0:\n\nfirst\n\n## Licence" in files_of(tmp_path, "v1.0")["README.md"].decode()


def test_only_frozen_versions_are_published(tmp_path):
    with pytest.raises(ValueError, match="there is no frozen version next; publish one of v1"):
        main(["--repo_id", REPO_ID, "--dry_run", str(tmp_path / "dry"), "--version=next"])
    assert not (tmp_path / "dry").exists()


# --- on the Hub -------------------------------------------------------------------------------------------------------


def test_what_is_published_loads_in_a_new_process(maintainer, tmp_path):
    root = freeze_small(tmp_path / "root", "v1.0")
    publish(root, "v1.0")
    repo = maintainer.repo("dataset", REPO_ID)
    assert repo.tags == {"v1.0": repo.at().oid}
    new = {"folder": tmp_path / "new", **maintainer.environment()}
    printed = processes.run_python("-c", LOAD, REPO_ID, tmp_path, *SOME_CONFIGS, **new)
    tables = {config: table_of(root, "v1.0", config) for config in SOME_CONFIGS}
    assert printed.splitlines() == [f"['test'] v1.0 {tables['v1.0'].num_rows}", "[]"]
    for config, table in tables.items():
        assert plain(feather.read_table(tmp_path / f"{config}.feather")).equals(table)


def test_versions_are_published_one_after_the_other(maintainer, tmp_path):
    root = freeze_small(freeze_small(tmp_path, "v1.0"), "v2.0", without="age")
    publish(root, "v1.0")
    repo = maintainer.repo("dataset", REPO_ID)
    repo.commit({"map.png": b"theirs"})
    publish(root, "v2.0")
    assert repo.files()["map.png"] == b"theirs"
    for kind in ("", "-small", "-baseline", "-seat"):
        path = f"data/v1.0{kind}/test.parquet"
        assert repo.files()[path] == repo.files("v1.0")[path]
    assert "data/v2.0/test.parquet" in repo.files("v2.0").keys() - repo.files("v1.0").keys()
    rows = pq.read_table(io.BytesIO(repo.files()["data/descriptors/test.parquet"]))
    assert set(rows["axis"].to_pylist()) == {"nonce", "sexual_orientation"}
    latest = repo.at().oid
    publish(root, "v1.0")  # main stays at v2.0
    assert repo.at().oid == latest == repo.tags["v2.0"]


def test_main_never_goes_back_to_an_older_version(maintainer, tmp_path):
    root = freeze_small(freeze_small(tmp_path / "root", "v1.0"), "v2.0")
    publish(root, "v2.0")
    repo = maintainer.repo("dataset", REPO_ID)
    before = repo.at()
    with pytest.raises(ValueError, match=r"already has v2\.0.*publish the older v1\.0 to another"):
        publish(root, "v1.0")
    assert repo.at() == before


def test_an_eval_yaml_that_the_hub_rejects_can_be_left_out(maintainer, tmp_path):
    root = freeze_small(tmp_path, "v1.0")
    maintainer.fail_next("POST", "/commit/", 400, text="Invalid eval.yaml: Invalid input at evaluation_framework")
    with pytest.raises(ValueError, match="HTTP 400, Invalid eval"):
        publish(root, "v1.0")
    assert maintainer.repo("dataset", REPO_ID).files() == {}
    publish(root, "v1.0", "--without_eval_yaml")
    assert "eval.yaml" not in maintainer.repo("dataset", REPO_ID).files("v1.0")
