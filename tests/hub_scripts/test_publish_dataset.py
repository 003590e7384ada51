import io
import json
import os
import subprocess
import sys
from pathlib import Path

import datasets
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from hb_dataset import load_table
from hb_dataset.prompts import version_configs, version_table
from hb_dataset.versions import read_frozen
from hub_scripts import addresses, publish_dataset
from hub_scripts.publish_dataset import dataset_files, frozen_version, main, parquet_bytes
from tests.hub_scripts.versions_on_disk import REPO_ID, freeze_small, published_v1, record_as_frozen

SCRIPT = Path(publish_dataset.__file__)
V1_CONFIGS = tuple(version_configs("v1.0"))
# What a user does, who has nothing of ours: the tables go to Feather files to be compared here.
LOAD = """
import sys
import pyarrow
from datasets import disable_progress_bars, load_dataset
from pyarrow import feather

disable_progress_bars()
repo_id, folder, *configs = sys.argv[1:]
for config in configs:
    rows = load_dataset(repo_id, config, revision="v1.0", split="test")
    feather.write_feather(rows.with_format("arrow")[:], f"{folder}/{config}.feather")
default = load_dataset(repo_id)
stream = load_dataset(repo_id, "v1.0-small", revision="v1.0", split="test", streaming=True)
feather.write_feather(pyarrow.Table.from_pylist(list(stream.take(50))), f"{folder}/stream.feather")
print(list(default), default["test"].config_name, default["test"].num_rows, len(stream.features))
print(sorted(name for name in sys.modules if name.split(".")[0] in ("hb_dataset", "hb_metrics", "hub_scripts")))
"""


@pytest.fixture(autouse=True)
def quiet():
    datasets.disable_progress_bars()
    yield
    datasets.enable_progress_bars()


@pytest.fixture
def maintainer(in_process, monkeypatch):
    """This process has the token of somebody who may write."""
    monkeypatch.setenv("HF_TOKEN", in_process.token)
    return in_process


def publish(root, version, repo_id=REPO_ID, *options):
    main(["--repo_id", repo_id, "--version", version, "--vocabularies", str(root), *options])


def read(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in Path(folder).rglob("*") if path.is_file()}


def plain(table):
    return table.replace_schema_metadata(None)


# --- the files --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("config", V1_CONFIGS)
def test_a_parquet_file_has_the_rows_and_types_of_load_table_and_nothing_else(config):
    (published,) = (listed for listed in published_v1().configs if listed.name == config)
    rows = pq.read_table(io.BytesIO(published.parquet))
    assert rows.schema.metadata is None
    assert rows.equals(load_table(config))


def test_a_parquet_file_is_compressed_and_repeated_strings_are_stored_once():
    published = published_v1().configs[0]
    metadata = pq.read_metadata(io.BytesIO(published.parquet))
    assert metadata.num_row_groups == -(-462_878 // 50_000)
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        assert group.num_rows <= 50_000
        for index in range(metadata.num_columns):
            column = group.column(index)
            assert column.compression == "ZSTD"
            has_dictionary = "RLE_DICTIONARY" in column.encodings
            assert has_dictionary == (column.path_in_schema not in ("id", "text", "plural"))
    assert len(published.parquet) < 4_000_000


def test_the_same_rows_make_the_same_bytes_however_they_lie_in_memory():
    table = load_table("v1.0-baseline")
    in_chunks = pa.concat_tables([table.slice(0, 7), table.slice(7, 500), table.slice(507)])
    described = table.replace_schema_metadata({"pandas": "{}"})
    assert parquet_bytes(in_chunks) == parquet_bytes(described) == parquet_bytes(table)
    assert parquet_bytes(table.slice(1)) != parquet_bytes(table)


def test_a_dry_run_writes_the_same_files_in_another_process_without_token_or_network(tmp_path):
    root = freeze_small(tmp_path / "root", "v1.0")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    nowhere = {"HF_ENDPOINT": "http://127.0.0.1:9", "HF_TOKEN": "hf_secret", "HF_HOME": str(tmp_path / "home")}
    arguments = ["--repo_id", REPO_ID, "--version", "v1.0", "--vocabularies", root, "--dry_run", tmp_path / "dry"]
    run = subprocess.run(
        [sys.executable, SCRIPT, *arguments],
        env={**inherited, **nowhere, "PYTHONHASHSEED": "7"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    written = read(tmp_path / "dry")
    files = dataset_files(REPO_ID, "v1.0", root)
    expected = {path: content for path, content in files.items() if path.endswith(".parquet")}
    assert len(expected) == len(V1_CONFIGS)
    assert {path: written[path] for path in expected} == expected
    assert written.keys() - expected == {"README.md", "eval.yaml", "LICENSE"}
    for path, content in written.items():
        assert path in run.stdout
        assert f"{len(content):,}" in run.stdout
        assert b"hf_secret" not in content
    assert "hf_secret" not in run.stdout + run.stderr
    for config in V1_CONFIGS:
        assert f'load_dataset("{REPO_ID}", "{config}", revision="v1.0", split="test")' in run.stdout


def test_all_files_are_the_same_bytes_again(tmp_path):
    root = freeze_small(tmp_path, "v1.0")
    assert dataset_files(REPO_ID, "v1.0", root) == dataset_files(REPO_ID, "v1.0", root)


def test_the_address_of_the_source_is_the_projects_or_the_one_given(tmp_path, monkeypatch, capsys):
    root = freeze_small(tmp_path / "root", "v1.0")
    arguments = ["--repo_id", REPO_ID, "--vocabularies", str(root), "--dry_run"]
    main([*arguments, str(tmp_path / "without")])
    assert (
        "the card does not state where the source repository is: before you publish, give --source_url"
        in capsys.readouterr().out
    )
    (tmp_path / "pyproject.toml").write_text('[project]\nurls.Source = "https://example.org/project"\n')
    monkeypatch.setattr(addresses, "PROJECT_FILE", tmp_path / "pyproject.toml")
    for folder, options, address in (
        ("project", [], "https://example.org/project"),
        ("given", ["--source_url", "https://example.org/given"], "https://example.org/given"),
    ):
        main([*arguments, str(tmp_path / folder), *options])
        assert f"<{address}>" in (tmp_path / folder / "README.md").read_text(encoding="utf-8")
        assert "does not state" not in capsys.readouterr().out


def test_the_address_of_the_source_is_also_read_from_an_installed_wheel(tmp_path, monkeypatch):
    monkeypatch.setattr(addresses, "PROJECT_FILE", tmp_path / "pyproject.toml")  # a wheel has none
    monkeypatch.setattr(addresses, "DISTRIBUTION", "a-project")
    monkeypatch.syspath_prepend(tmp_path)
    assert addresses.project_source() is None
    for urls, source in (
        ("", None),
        ("Project-URL: Paper, https://example.org/paper\n", None),
        (
            "Project-URL: Paper, https://example.org/paper\nProject-URL: Source, https://example.org/a\n",
            "https://example.org/a",
        ),
    ):
        folder = tmp_path / "a_project-1.dist-info"
        folder.mkdir(exist_ok=True)
        (folder / "METADATA").write_text(f"Metadata-Version: 2.4\nName: a-project\nVersion: 1\n{urls}")
        assert addresses.project_source() == source


def test_a_dry_run_loads_as_the_tables_of_the_version(tmp_path):
    root = freeze_small(tmp_path / "root", "v1.0")
    folder = tmp_path / "dry"
    main(["--repo_id", REPO_ID, "--vocabularies", str(root), "--dry_run", str(folder)])
    # One cache a config: `datasets` knows a local folder with `configs` by its name only.
    for config in version_configs("v1.0", root):
        loaded = datasets.load_dataset(str(folder), config, cache_dir=str(tmp_path / config))
        assert list(loaded) == ["test"]
        expected = version_table("v1.0", config, root)
        assert plain(loaded["test"].with_format("arrow")[:]).equals(expected)
        assert loaded["test"].features == datasets.Features.from_arrow_schema(expected.schema)
    default = datasets.load_dataset(str(folder), cache_dir=str(tmp_path / "default"))
    assert default["test"].config_name == "v1.0"
    assert datasets.get_dataset_default_config_name(str(folder)) == "v1.0"


# --- which version ----------------------------------------------------------------------------------------------------


def test_the_sentences_of_earlier_versions_are_loaded_and_described_beside_the_newest(tmp_path):
    root = freeze_small(freeze_small(tmp_path / "root", "v1.0"), "v2.0", without="age")
    freeze_small(root, "v10.0")
    assert not [path for path in dataset_files(REPO_ID, "v2.0", root) if "v10" in path]
    folder = tmp_path / "dry"
    main(["--repo_id", REPO_ID, "--vocabularies", str(root), "--dry_run", str(folder)])
    for config in ("v10.0", "v2.0-small", "v1.0", "v1.0-seat"):
        loaded = datasets.load_dataset(str(folder), config, cache_dir=str(tmp_path / config))
        expected = version_table(config.partition("-")[0], config, root)
        assert plain(loaded["test"].with_format("arrow")[:]).equals(expected)
    assert datasets.get_dataset_default_config_name(str(folder)) == "v10.0"
    card = (folder / "README.md").read_text(encoding="utf-8")
    rows = version_table("v2.0", "v2.0-baseline", root).num_rows
    assert f"`v2.0-baseline` ({rows:,} rows), " in card
    assert card.index("`v2.0` (") < card.index("`v1.0` (")


def test_the_newest_frozen_version_is_published_if_none_is_named(tmp_path):
    for version in ("v1.0", "v10.0", "v2.0"):
        freeze_small(tmp_path, version)
    assert frozen_version(None, tmp_path) == "v10.0"
    assert frozen_version("v2.0", tmp_path) == "v2.0"


def test_of_a_published_version_all_tables_are_that_versions(tmp_path):
    for version, without in (("v1.0", ""), ("v2.0", "age")):
        freeze_small(tmp_path, version, without=without)
    for version, axes in (("v1.0", {"age", "nonce", "sexual_orientation"}), ("v2.0", {"nonce", "sexual_orientation"})):
        files = dataset_files(REPO_ID, version, tmp_path)
        for config in (version, "descriptors"):
            rows = pq.read_table(io.BytesIO(files[f"data/{config}/test.parquet"]))
            assert set(rows["axis"].to_pylist()) == axes


def test_the_changelog_of_the_version_goes_into_the_card_with_its_lists_folded(tmp_path):
    for version in ("v1.0", "v2.0"):
        freeze_small(tmp_path, version)
    changelog = "# Changes\n\n##  \n\n## v2.0\n\n1 → 2 prompts.\n\n### Added\n\n* age: a, b\n\n## v1.0\n\nfirst\n"
    (tmp_path / "CHANGELOG.md").write_text(changelog)
    card = dataset_files(REPO_ID, "v2.0", tmp_path)["README.md"].decode()
    folded = "<details>\n<summary>Which ones</summary>\n\n### Added\n\n* age: a, b\n\n</details>"
    assert f"Changes in v2.0:\n\n1 → 2 prompts.\n\n{folded}\n\n## Licence" in card
    assert "first" not in card.partition("Changes in v2.0")[2]
    assert "Changes in v1.0:\n\nfirst\n\n## Licence" in dataset_files(REPO_ID, "v1.0", tmp_path)["README.md"].decode()


def test_a_frozen_version_whose_sentences_the_code_now_makes_otherwise_is_refused(tmp_path):
    root = freeze_small(tmp_path, "v1.0")
    assert "data/v1.0-small/test.parquet" in dataset_files(REPO_ID, "v1.0", root)
    digests = read_frozen(root)["v1.0"]["counts"]["text_digests"]
    record_as_frozen(root, "v1.0", text_digests={**digests, "v1.0-small": "0" * 64})
    with pytest.raises(ValueError, match=r"the sentences of the config 'v1\.0-small' are not: the code"):
        dataset_files(REPO_ID, "v1.0", root)


def test_a_frozen_version_whose_record_was_changed_is_refused(tmp_path):
    for name, value in (("date", "2020-01-01"), ("counts", {"text_digests": {}})):
        root = freeze_small(tmp_path / name, "v1.0")
        frozen = read_frozen(root)
        frozen["v1.0"][name] = value
        (root / "frozen.json").write_text(json.dumps(frozen))
        with pytest.raises(ValueError, match=r"v1\.0 is frozen and was changed: its record in frozen"):
            dataset_files(REPO_ID, "v1.0", root)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--version", "next"], r"'next' still changes .*freeze it first: python hub_scripts/freeze_version\.py"),
        (["--version", "v1.O"], r"version 'v1\.O' does not exist; did you mean 'v1\.1'\? allowed: v1\.0"),
        (["--repo_id", "holistic_bias"], r"repo_id 'holistic_bias' is not the name of .*; write OWNER/NAME"),
        (["--repo_id", "ORG/holistic bias"], r"repo_id 'ORG/holistic bias' is not the name of"),
        (["--repo_id", "a/b/c"], r"repo_id 'a/b/c' is not the name of"),
        (
            ["--source_url", "javascript:alert(1)"],
            r"source_url 'javascript:alert\(1\)' is not the address of a web page",
        ),
    ],
)
def test_what_cannot_be_published_is_refused_before_anything_is_written(tmp_path, arguments, message):
    with pytest.raises(SystemExit, match=rf"^publish_dataset\.py: .*{message}"):
        main(["--repo_id", REPO_ID, "--dry_run", str(tmp_path / "dry"), *arguments])
    assert not (tmp_path / "dry").exists()


def test_a_frozen_version_that_was_changed_is_refused(tmp_path):
    root = freeze_small(tmp_path / "root", "v1.0")
    with (root / "v1.0" / "nouns.yaml").open("a", encoding="utf-8") as file:
        file.write("  - noun: neighbor\n    plural: neighbors\n")
    with pytest.raises(SystemExit, match=r"v1\.0 is frozen and was changed"):
        main(["--repo_id", REPO_ID, "--vocabularies", str(root), "--dry_run", str(tmp_path / "dry")])
    assert not (tmp_path / "dry").exists()


def test_a_dry_run_refuses_a_folder_that_is_not_empty(tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    for folder in (tmp_path, tmp_path / "mine.txt"):
        with pytest.raises(SystemExit, match="is not an empty folder; name a new one, or empty it"):
            main(["--repo_id", REPO_ID, "--dry_run", str(folder)])
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


# --- on the Hub -------------------------------------------------------------------------------------------------------


def test_what_is_published_loads_in_a_new_process_as_the_same_rows(hub, run_python, tmp_path):
    root = freeze_small(tmp_path / "root", "v1.0")
    # By Xet, which is the client's default for large files.
    arguments = ("--repo_id", REPO_ID, "--version", "v1.0", "--vocabularies", root)
    published = run_python(SCRIPT, *arguments, token=hub.token, HF_HUB_DISABLE_XET="0")
    assert not [seen for seen in hub.requests if "/lfs/" in seen.path]
    assert hub.token not in published.stdout + published.stderr
    repo = hub.repo("dataset", REPO_ID)
    assert repo.tags.keys() == {"v1.0"}
    assert repo.tags["v1.0"] == repo.at().oid
    assert all(hub.token.encode() not in content for content in repo.files().values())

    (tmp_path / "loaded").mkdir()
    printed = run_python("-c", LOAD, REPO_ID, tmp_path / "loaded", *V1_CONFIGS, home=tmp_path / "user").stdout
    tables = {config: version_table("v1.0", config, root) for config in V1_CONFIGS}
    assert printed.splitlines() == [f"['test'] v1.0 {tables['v1.0'].num_rows} 13", "[]"]
    for config, table in tables.items():
        loaded = pyarrow.feather.read_table(tmp_path / "loaded" / f"{config}.feather")
        assert plain(loaded).equals(table)
    stream = pyarrow.feather.read_table(tmp_path / "loaded" / "stream.feather")
    assert stream.to_pylist() == tables["v1.0-small"].slice(0, 50).to_pylist()


def test_publishing_again_changes_nothing(maintainer, tmp_path, capsys):
    root = freeze_small(tmp_path, "v1.0")
    publish(root, "v1.0")
    repo = maintainer.repo("dataset", REPO_ID)
    before = [commit.oid for commit in repo.history()]
    assert "published as" in capsys.readouterr().out
    publish(root, "v1.0")
    assert "is already published with this content, nothing to do" in capsys.readouterr().out
    assert [commit.oid for commit in repo.history()] == before
    assert repo.tags == {"v1.0": before[0]}


def test_a_published_version_with_other_content_is_refused_and_its_tag_stays(maintainer, tmp_path):
    publish(freeze_small(tmp_path / "one", "v1.0"), "v1.0")
    repo = maintainer.repo("dataset", REPO_ID)
    before = repo.at().oid
    with pytest.raises(SystemExit, match=r"^publish_dataset\.py: .*tag v1\.0, .*A tag is never moved"):
        publish(freeze_small(tmp_path / "other", "v1.0", without="age"), "v1.0")
    assert (repo.at().oid, repo.tags) == (before, {"v1.0": before})


def test_versions_are_published_one_after_the_other_and_the_older_ones_stay(maintainer, tmp_path, capsys):
    root = freeze_small(freeze_small(tmp_path, "v1.0"), "v2.0", without="age")
    publish(root, "v1.0")
    publish(root, "v2.0")
    repo = maintainer.repo("dataset", REPO_ID)
    sentences = [f"data/v1.0{kind}/test.parquet" for kind in ("", "-small", "-baseline", "-seat")]
    for path in sentences:
        assert repo.files()[path] == repo.files("v1.0")[path]
    assert "data/v2.0/test.parquet" in repo.files("v2.0")
    assert "data/v2.0/test.parquet" not in repo.files("v1.0")
    assert repo.files()["data/descriptors/test.parquet"] != repo.files("v1.0")["data/descriptors/test.parquet"]
    main_commit = repo.at().oid
    publish(root, "v1.0")  # is there: main is left at v2.0
    assert "nothing to do" in capsys.readouterr().out
    assert repo.at().oid == main_commit == repo.tags["v2.0"]


def test_a_repository_of_something_else_is_left_alone_without_among_other_files(maintainer, tmp_path, capsys):
    root = freeze_small(freeze_small(tmp_path, "v1.0"), "v2.0")
    theirs = {"README.md": b"# Precious\n", "train.csv": b"text\n"}
    repo = maintainer.create_repo("dataset", REPO_ID, theirs)
    with pytest.raises(SystemExit, match=r"^publish_dataset\.py: dataset .*: README\.md, train\.csv\. Not"):
        publish(root, "v1.0")
    assert (repo.files(), repo.tags) == (theirs, {})
    publish(root, "v1.0", REPO_ID, "--among_other_files")
    assert "other people's, left alone: train.csv)" in capsys.readouterr().out
    publish(root, "v2.0")
    assert repo.files("v2.0")["train.csv"] == b"text\n"


def test_what_earlier_releases_published_is_replaced_and_what_was_added_since_stays(maintainer, tmp_path, capsys):
    root = freeze_small(freeze_small(tmp_path, "v1.0"), "v2.0")
    repo = maintainer.create_repo("dataset", REPO_ID)  # as before there was a record of files
    earlier = {**dataset_files(REPO_ID, "v1.0", root, with_eval_file=False), "data/old/test.parquet": b"PAR1"}
    repo.tags["v1.0"] = repo.commit(earlier, title="HolisticBias v1.0", author="maintainer").oid
    repo.commit({"map.png": b"theirs"}, title="Upload map.png")
    publish(root, "v2.0")
    assert "deleted: data/old/test.parquet" in (printed := capsys.readouterr().out)
    assert "other people's, left alone: map.png)" in printed
    assert repo.files() == dataset_files(REPO_ID, "v2.0", root) | {"map.png": b"theirs"}
    assert repo.files("v1.0") == earlier


def test_somebody_else_s_eval_yaml_stays(maintainer, tmp_path, capsys):
    root = freeze_small(freeze_small(tmp_path, "v1.0"), "v2.0")
    publish(root, "v1.0")
    repo = maintainer.repo("dataset", REPO_ID)
    assert repo.files()["eval.yaml"] == dataset_files(REPO_ID, "v1.0", root)["eval.yaml"]
    theirs = b"name: Mine\ndescription: Mine\ntasks: [{id: mine}]\n"
    repo.commit({"eval.yaml": theirs})
    capsys.readouterr()
    publish(root, "v2.0")
    assert repo.files("v2.0")["eval.yaml"] == theirs
    assert "the repository's eval.yaml was written by somebody else and was kept" in capsys.readouterr().out
    publish(root, "v2.0")
    assert "nothing to do" in capsys.readouterr().out


def test_where_the_hub_does_not_take_eval_yaml_it_can_be_left_out(maintainer, tmp_path):
    root = freeze_small(freeze_small(tmp_path, "v1.0"), "v2.0")
    maintainer.evaluation_frameworks = {"inspect-ai"}
    with pytest.raises(SystemExit, match=r"evaluation_framework.* does not know .*'holistic-bias'.*--without_eval"):
        publish(root, "v1.0")
    publish(root, "v1.0", REPO_ID, "--without_eval_yaml")
    repo = maintainer.repo("dataset", REPO_ID)
    assert repo.files("v1.0") == dataset_files(REPO_ID, "v1.0", root, with_eval_file=False)
    maintainer.evaluation_frameworks.add("holistic-bias")
    publish(root, "v2.0")
    assert repo.files("v2.0") == dataset_files(REPO_ID, "v2.0", root)


def test_a_version_that_is_missing_here_is_not_removed_from_main(maintainer, tmp_path):
    publish(freeze_small(tmp_path / "one", "v1.0"), "v1.0")
    repo = maintainer.repo("dataset", REPO_ID)
    before = repo.at()
    with pytest.raises(SystemExit, match=r"ORG/holistic_bias has v1\.0, which is not a frozen version of '.*other'"):
        publish(freeze_small(tmp_path / "other", "v2.0"), "v2.0")
    assert repo.at() == before
    repo.tags["v2.0"] = before.oid
    publish(tmp_path / "one", "v1.0")  # is there, and nothing would go
    assert repo.at() == before


def test_an_older_version_is_not_published_over_a_newer_one(maintainer, tmp_path):
    root = freeze_small(freeze_small(tmp_path, "v1.0"), "v2.0")
    publish(root, "v2.0")
    repo = maintainer.repo("dataset", REPO_ID)
    before = repo.at().oid
    with pytest.raises(SystemExit, match=r"ORG/holistic_bias already has v2\.0, and publishing v1\.0 after it would"):
        publish(root, "v1.0")
    assert (repo.at().oid, set(repo.tags)) == (before, {"v2.0"})


@pytest.mark.parametrize(
    ("token", "message"), [("hf_wrong", "does not accept the token"), (None, "no Hugging Face token")]
)
def test_without_a_valid_token_nothing_is_written_and_the_error_is_one_line(
    in_process, monkeypatch, tmp_path, token, message
):
    if token:
        monkeypatch.setenv("HF_TOKEN", token)
    with pytest.raises(SystemExit, match=rf"^publish_dataset\.py: .*{message}") as failed:
        publish(freeze_small(tmp_path, "v1.0"), "v1.0")
    assert "\n" not in str(failed.value)
    assert "hf_wrong" not in str(failed.value)
    assert in_process.repos == {}


def test_a_failing_hub_leaves_nothing_half_published_and_the_same_command_finishes_it(maintainer, tmp_path, capsys):
    root = freeze_small(tmp_path, "v1.0")
    maintainer.fail_next("POST", r"/commit/", status=400)
    with pytest.raises(SystemExit, match=r"^publish_dataset\.py: Committing to .* failed"):
        publish(root, "v1.0")
    assert maintainer.repo("dataset", REPO_ID).tags == {}
    publish(root, "v1.0")
    assert "published as" in capsys.readouterr().out
    assert set(maintainer.repo("dataset", REPO_ID).tags) == {"v1.0"}


def test_tags_that_cannot_be_read_stop_it(maintainer, tmp_path):
    maintainer.create_repo("dataset", REPO_ID, {"README.md": b"theirs"})
    maintainer.fail_next("GET", r"/refs", status=403)
    with pytest.raises(
        SystemExit, match=r"the tags of ORG/holistic_bias cannot be read \(HTTP 403, .*\)\. Nothing was written"
    ):
        publish(freeze_small(tmp_path, "v1.0"), "v1.0")
    assert maintainer.repo("dataset", REPO_ID).files().keys() == {"README.md"}
