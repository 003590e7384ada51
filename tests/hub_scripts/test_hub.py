import io
import json
import socket
import traceback
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from huggingface_hub import HfApi, snapshot_download
from huggingface_hub.errors import HfHubHTTPError

from hub_scripts.hub import HubError, Pushed, connect, push
from hub_scripts.hub_contents import RECORD_FILE

ROOT = Path(__file__).parent.parent.parent
COMMIT = r"/commit/main"
PREUPLOAD = r"/preupload/main"
LFS_BATCH = r"/objects/batch"
ALWAYS = 99  # more often than the client tries


def parquet(rows):
    content = io.BytesIO()
    pq.write_table(pa.table({"id": list(range(rows)), "text": [f"prompt {row}" for row in range(rows)]}), content)
    return content.getvalue()


CARD = b"""---
license: cc-by-sa-4.0
configs:
- config_name: first
  default: true
  data_files: [{split: test, path: first/test.parquet}]
- config_name: second
  data_files: [{split: test, path: second/test.parquet}]
---
# Data
"""
FILES = {"README.md": CARD, "first/test.parquet": parquet(30), "second/test.parquet": parquet(7)}
LATER = {"README.md": CARD + b"\nMore.\n", "first/test.parquet": parquet(31), "second/test.parquet": parquet(7)}


def publish(hub, files=FILES, tag="v1.0", token=None, repo_id="ORG/data", message="Publish", **options):
    api = HfApi(endpoint=hub.url, token=token or hub.token)
    return push(api, repo_id, files, repo_type="dataset", message=message, tag=tag, **options)


def refuse(hub, *arguments, **options):
    """The message of a push that fails; nothing that would be shown has a token in it."""
    with pytest.raises(HubError) as caught:
        publish(hub, *arguments, **options)
    shown = "".join(traceback.format_exception(caught.value))
    assert not [token for token in (hub.token, hub.read_token, hub.other_token) if token in shown]
    error = caught.value  # no request of the client is shown either
    assert error.__cause__ is None
    assert error.__suppress_context__ or error.__context__ is None
    message = str(caught.value)
    assert "\n" not in message
    return message


def data(hub):
    return hub.repo("dataset", "ORG/data")


def written(hub):
    """The requests that change something."""
    reads = ("/paths-info", "/validate-yaml")
    return [seen for seen in hub.requests if seen.method not in ("GET", "HEAD") and not seen.path.endswith(reads)]


# --- publishing -------------------------------------------------------------------------------------------------------


def test_the_first_push_makes_the_repository_and_tags_one_commit(in_process):
    pushed = publish(in_process, description="The first version.")
    commit, first = data(in_process).history()
    url = f"{in_process.url}/datasets/ORG/data/commit/{commit.oid}"
    assert pushed == Pushed(commit.oid, url, tuple(sorted([RECORD_FILE, *FILES])), True)
    assert (commit.title, commit.message, commit.author) == ("Publish", "The first version.", "maintainer")
    assert first.title == "initial commit"
    assert data(in_process).files("v1.0") == data(in_process).files("main") == FILES
    assert commit.files["first/test.parquet"].lfs
    assert not commit.files["README.md"].lfs
    assert data(in_process).tags == {"v1.0": commit.oid}


def test_files_come_from_paths_as_well(in_process, tmp_path):
    paths = {}
    for path, content in FILES.items():
        paths[path] = tmp_path / path.replace("/", "-")
        paths[path].write_bytes(content)
    publish(in_process, paths)
    assert data(in_process).files("v1.0") == FILES
    assert publish(in_process, FILES).written == ()


def test_the_same_again_writes_nothing(in_process):
    first = publish(in_process)
    in_process.requests.clear()
    assert publish(in_process) == first._replace(written=(), tagged=False)
    assert publish(in_process, tag=None) == first._replace(written=(), tagged=False)
    assert written(in_process) == []


def test_what_is_tagged_without_the_tag_is_not_committed_again(in_process):
    first = publish(in_process, tag=None)
    assert first.tagged is False
    assert publish(in_process) == first._replace(written=(), tagged=True)
    assert len(data(in_process).history()) == 2


def test_a_later_version_leaves_the_earlier_tag(in_process):
    publish(in_process)
    later = publish(in_process, LATER, tag="v2.0")
    assert (later.written, later.deleted) == ((RECORD_FILE, "README.md", "first/test.parquet"), ())
    assert data(in_process).files("main") == data(in_process).files("v2.0") == LATER
    assert data(in_process).files("v1.0") == FILES


def test_an_earlier_version_again_leaves_main_at_the_later_one(in_process):
    first = publish(in_process)
    publish(in_process, LATER, tag="v2.0")
    in_process.requests.clear()
    assert publish(in_process) == first._replace(written=(), tagged=False)
    assert written(in_process) == []
    assert data(in_process).files("main") == LATER


@pytest.mark.parametrize(
    ("files", "differing"),
    [
        (FILES | {"README.md": b"Other."}, "README.md"),
        (FILES | {"first/test.parquet": parquet(8)}, "first/test.parquet"),
        (FILES | {"new.txt": b"New."}, "new.txt"),
        ({"README.md": CARD, "first/test.parquet": parquet(30)}, "second/test.parquet"),
    ],
)
def test_a_tag_is_never_moved(in_process, files, differing):
    publish(in_process)
    in_process.requests.clear()
    message = refuse(in_process, files)
    assert message == (
        f"dataset ORG/data already has a tag v1.0, with other content ({differing}). A tag is never moved. Nothing was "
        "written; publish these files as another version"
    )
    assert written(in_process) == []
    assert data(in_process).files("v1.0") == FILES


def test_what_is_no_longer_there_is_deleted_in_the_same_commit(in_process):
    publish(in_process)
    fewer = {"README.md": CARD, "first/test.parquet": parquet(31)}
    pushed = publish(in_process, fewer, tag="v2.0")
    assert (pushed.written, pushed.deleted) == ((RECORD_FILE, "first/test.parquet"), ("second/test.parquet",))
    assert pushed.summary() == f"written: {RECORD_FILE}, first/test.parquet; deleted: second/test.parquet"
    assert len(data(in_process).history()) == 3
    assert data(in_process).files() == fewer
    assert ".gitattributes" in data(in_process).at("main").files


def test_gitattributes_of_ones_own_is_written(in_process):
    own = FILES | {".gitattributes": b"*.parquet filter=lfs diff=lfs merge=lfs -text\n"}
    assert ".gitattributes" in publish(in_process, own).written
    assert publish(in_process, own).written == ()


def test_a_file_replaces_a_folder(in_process):
    publish(in_process)
    publish(in_process, {"README.md": CARD, "first": b"A file."}, tag="v2.0")
    assert data(in_process).files() == {"README.md": CARD, "first": b"A file."}


def test_a_new_space_runs_on_the_sdk_asked_for(in_process):
    card = b"---\ntitle: Metric\nsdk: gradio\n---\n"
    api = HfApi(endpoint=in_process.url, token=in_process.token)
    pushed = push(api, "ORG/metric", {"README.md": card}, repo_type="space", message="Publish", space_sdk="gradio")
    assert pushed.url == f"{in_process.url}/spaces/ORG/metric/commit/{pushed.commit}"
    assert in_process.repo("space", "ORG/metric").sdk == "gradio"
    assert in_process.repo("space", "ORG/metric").files() == {"README.md": card}


def test_invalid_arguments_are_refused_before_any_request(in_process):
    with pytest.raises(ValueError, match="no files to publish in dataset ORG/data"):
        publish(in_process, {})
    with pytest.raises(ValueError, match="a pull request has no tag, but tag is"):
        publish(in_process, pull_request=True)
    for repo_id in ("data", "ORG/data/more", "ORG/d ata", "ORG/", ""):
        with pytest.raises(HubError, match=f"repo_id '{repo_id}' is not the name of a repository; write OWNER/NAME"):
            publish(in_process, repo_id=repo_id)
    assert in_process.requests == []


# --- other people's files ---------------------------------------------------------------------------------------------

EARLIER = {"README.md": CARD, "LICENSE": b"Text.", "data/first/test.parquet": parquet(3), "croissant.json": b"{}"}


def stopped(hub, listed, replaced="nothing", **options):
    """That nothing is written to a repository for these files of other people."""
    before = data(hub).at()
    hub.requests.clear()
    assert refuse(hub, **options) == (
        f"dataset ORG/data holds files that no publication of HolisticBias wrote, or that somebody has changed since: "
        f"{listed}. Nothing was written; check whether it is the repository you mean. To publish in it all the same, "
        f"add --among_other_files: {replaced} would be replaced, and all other files of other people stay"
    )
    assert written(hub) == []
    assert data(hub).at() == before


def test_a_repository_of_something_else_is_left_alone_without_among_other_files(in_process):
    theirs = {"train.csv": b"text\n", "README.md": b"# Precious\n", "second/test.parquet": FILES["second/test.parquet"]}
    in_process.create_repo("dataset", "ORG/data", theirs)
    stopped(in_process, "README.md, train.csv", "README.md")
    pushed = publish(in_process, among_other_files=True)
    assert (pushed.deleted, pushed.kept) == ((), ("train.csv",))
    assert pushed.summary().endswith("first/test.parquet; other people's, left alone: train.csv")
    assert data(in_process).files("v1.0") == FILES | {"train.csv": b"text\n"}
    assert publish(in_process, LATER, tag="v2.0").kept == ("train.csv",)  # from then on it is ours, and stays so


def test_many_files_and_odd_names_are_listed_in_a_line(in_process):
    in_process.create_repo("dataset", "ORG/data", {f"{number:02}.csv": b"" for number in range(60)} | {"0\n\x1b": b""})
    message = refuse(in_process)
    assert r"'0\n\x1b', 00.csv, 01.csv" in message
    assert ", 48.csv and 11 more. Nothing" in message


def test_what_a_maintainer_added_survives_the_next_version_and_what_was_ours_goes(in_process):
    publish(in_process)
    theirs = {"eval.yaml": b"name: Ours\n", "images/map.png": b"\x89PNG", "second/train.parquet": b"PAR1"}
    data(in_process).commit(theirs)
    fewer = {"README.md": CARD, "first/test.parquet": parquet(31)}
    pushed = publish(in_process, fewer, tag="v2.0")
    assert (pushed.deleted, pushed.kept) == (("second/test.parquet",), tuple(sorted(theirs)))
    assert data(in_process).files("v2.0") == fewer | theirs
    assert publish(in_process, fewer, tag="v2.0") == pushed._replace(written=(), deleted=(), tagged=False)


def test_a_file_of_ours_that_somebody_changed_is_not_replaced_or_deleted(in_process):
    publish(in_process)
    data(in_process).commit({"README.md": CARD + b"By hand.", "second/test.parquet": parquet(2)})
    later = {path: LATER[path] for path in ("README.md", "first/test.parquet")}
    with pytest.raises(HubError, match=r"changed since: README\.md\. Nothing"):
        publish(in_process, later, tag="v2.0")
    assert publish(in_process, later, tag="v2.0", among_other_files=True).kept == ("second/test.parquet",)
    assert data(in_process).files() == later | {"second/test.parquet": parquet(2)}


def test_a_path_of_keep_theirs_is_not_written_where_somebody_else_has_a_file(in_process):
    options = {"keep_theirs": ["second/test.parquet"]}
    publish(in_process, **options)
    assert (
        "second/test.parquet"
        in publish(in_process, FILES | {"second/test.parquet": b"PAR1"}, "v2.0", **options).written
    )
    data(in_process).commit({"second/test.parquet": b"Theirs."})
    assert publish(in_process, LATER, tag="v3.0", **options).kept == ("second/test.parquet",)
    assert data(in_process).files() == LATER | {"second/test.parquet": b"Theirs."}
    assert publish(in_process, LATER, tag="v3.0", **options).written == ()


def test_without_a_record_the_files_of_the_last_publication_are_ours(in_process):
    repo = in_process.create_repo("dataset", "ORG/data", {"theirs.txt": b"Theirs."})
    repo.commit({**EARLIER, "theirs.txt": None}, title="HolisticBias v1.0", author="maintainer")
    repo.commit({"eval.yaml": b"name: Ours\n", "LICENSE": b"Another."}, title="Update LICENSE")
    pushed = publish(in_process)
    assert (pushed.deleted, pushed.kept) == (("croissant.json", "data/first/test.parquet"), ("LICENSE", "eval.yaml"))
    repo.commit({"README.md": b"By hand."})
    stopped(in_process, "README.md", "README.md", tag="v2.0")


def test_a_title_like_ours_does_not_make_other_files_ours(in_process):
    repo = in_process.create_repo("dataset", "ORG/data")
    repo.commit({**EARLIER, "train.csv": b"text\n", "data/train.csv": b"text\n"}, title="HolisticBias v1.0")
    theirs = "LICENSE, croissant.json, data/first/test.parquet, data/train.csv, train.csv"
    stopped(in_process, theirs)
    pushed = publish(in_process, among_other_files=True)
    assert (pushed.deleted, ", ".join(pushed.kept)) == ((), theirs)
    data(in_process).commit({"train.csv": None, "README.md": b"By hand."}, title="HolisticBias v1.1")
    stopped(in_process, "README.md", "README.md", tag="v2.0")


@pytest.mark.parametrize("title", ["Metric accuracy", "Metric data", "HolisticBias v1.0"])
def test_a_space_whose_title_is_like_ours_keeps_its_code_unless_it_is_named_so_too(in_process, title):
    theirs = {"README.md": b"Mine.", "train.py": b"", "requirements.txt": b"torch"}
    repo = in_process.create_repo("space", "ORG/data")
    repo.commit(theirs, title=title)
    files = {"README.md": CARD, "app.py": b""}
    api = HfApi(endpoint=in_process.url, token=in_process.token)
    if title == "Metric data":
        files["README.md"] = b"---\nsdk: gradio\n---\n"
        pushed = push(api, "ORG/data", files, repo_type="space", message=title)
        assert pushed.deleted == ("requirements.txt", "train.py")
        return
    with pytest.raises(HubError, match=r"README.md, requirements.txt, train.py. Nothing was written"):
        push(api, "ORG/data", files, repo_type="space", message="Metric data")
    assert repo.files() == theirs


def test_a_record_that_is_gone_is_found_again_and_a_broken_one_stops(in_process):
    publish(in_process, message="HolisticBias v1.0")
    data(in_process).commit({"eval.yaml": b"name: Ours\n", RECORD_FILE: None})
    assert publish(in_process, LATER, tag="v2.0").kept == ("eval.yaml",)
    for broken in (b"", b"[]", b"{}", b'{"files": {"README.md": "x"}}', b'{"files": [1]}', b"\xff", b"[" * 100_000):
        data(in_process).commit({RECORD_FILE: broken})
        stopped(in_process, f"{RECORD_FILE}, eval.yaml", RECORD_FILE, files=LATER, tag="v3.0")
    assert publish(in_process, LATER, tag="v3.0", among_other_files=True).kept == ("eval.yaml",)


@pytest.mark.parametrize("path", [r"/resolve/", r"/commits/"])
def test_nothing_is_written_if_the_record_or_history_cannot_be_read(in_process, path):
    publish(in_process)
    data(in_process).commit({"theirs.txt": b"", **({RECORD_FILE: None} if "commits" in path else {})})
    before = data(in_process).at()
    in_process.fail_next("GET", path, status=500, times=ALWAYS)
    message = refuse(in_process, LATER, tag="v2.0")
    assert message.startswith("Reading dataset ORG/data failed: ")
    assert f"{NOTHING} {AGAIN}" in message
    assert data(in_process).at() == before


NEW_SPACE = b"""---
title: Metric
emoji: \xf0\x9f\x9a\x80
sdk: gradio
sdk_version: 6.31.0
---

Check out the configuration reference at https://huggingface.co/docs/hub/spaces-config-reference
"""


@pytest.mark.parametrize(
    ("card", "by_the_hub"),
    [
        (b"---\nlicense: mit\n---\n", True),
        (NEW_SPACE, True),
        (b"", True),
        (b"---\nlicense: mit\nextra_gated_prompt: You agree\n---\n", False),
        (b"---\nlicense: mit\n---\n# Mine\n", False),
        (NEW_SPACE + b"Mine.", False),
        (b"---\n- a\n---\n", False),
        (b"---\nlicense: [\n---\n", False),
    ],
)
def test_a_card_that_the_hub_wrote_into_a_new_repository_is_not_in_the_way(in_process, card, by_the_hub):
    in_process.create_repo("dataset", "ORG/data", {"README.md": card})
    if by_the_hub:
        publish(in_process)
        assert data(in_process).files() == FILES
    else:
        stopped(in_process, "README.md", "README.md")


# --- loading what was published ---------------------------------------------------------------------------------------


PUBLISH = """
import sys
from pathlib import Path
from hub_scripts.hub import connect, push

files = {path.relative_to(sys.argv[1]).as_posix(): path for path in Path(sys.argv[1]).rglob("*") if path.is_file()}
pushed = push(connect(), "ORG/data", files, repo_type="dataset", message="Publish", tag="v1.0")
print(pushed.written)
"""
LOAD = """
import json
from datasets import load_dataset

print(json.dumps([
    load_dataset("ORG/data", revision="v1.0")["test"].to_list(),
    load_dataset("ORG/data", "second", revision="v1.0", split="test").to_list(),
    list(load_dataset("ORG/data", "second", revision="v1.0", split="test", streaming=True)),
]))
"""


def test_a_new_process_loads_what_another_one_published(hub, run_python, tmp_path):
    for path, content in FILES.items():
        (tmp_path / "data" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "data" / path).write_bytes(content)
    published = run_python("-c", PUBLISH, tmp_path / "data", token=hub.token, PYTHONPATH=str(ROOT))
    assert published.stdout == f"{tuple(sorted([RECORD_FILE, *FILES]))}\n"
    assert hub.token not in published.stdout + published.stderr
    data(hub).commit(LATER)
    loaded = run_python("-c", LOAD, home=tmp_path / "other")
    first, second = (
        pq.read_table(io.BytesIO(FILES[f"{config}/test.parquet"])).to_pylist() for config in ("first", "second")
    )
    assert json.loads(loaded.stdout) == [first, second, second]
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and hub.token.encode() in path.read_bytes()]


def test_large_files_go_by_xet_as_the_client_sends_them_of_itself(hub, run_python, tmp_path):
    files = FILES | {"big.parquet": parquet(30_000), "floats.bin": np.arange(50_000, dtype="float32").tobytes()}
    for path, content in files.items():
        (tmp_path / "data" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "data" / path).write_bytes(content)

    def push_again(**options):
        return run_python("-c", PUBLISH, tmp_path / "data", token=hub.token, PYTHONPATH=str(ROOT), **options)

    hub.fail_next("POST", "/v2/shards", status=400)  # the client does not try again then
    refused = push_again(HF_HUB_DISABLE_XET="0", status=1).stderr
    assert "Committing to dataset ORG/data failed: " in refused
    assert refused.strip().endswith(f"{EMPTY} {AGAIN}")
    assert data(hub).files() == {}
    published = push_again(HF_HUB_DISABLE_XET="0")
    assert data(hub).files("v1.0") == files
    uploads = [seen for seen in hub.requests if "/xet/" in seen.path]
    assert uploads
    assert not any(seen.authorized for seen in uploads)  # where they go is not the Hub
    assert not [seen for seen in hub.requests if "lfs" in seen.path]
    assert push_again().stdout == "()\n"  # what went by git-lfs would be the same
    printed = published.stdout + published.stderr + refused
    assert not [token for token in hub.users if token in printed]
    kept = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert not [token for token in hub.users if any(token.encode() in content for content in kept)]


METRIC = b"""
import datasets
import evaluate

from .numbers import ANSWER


class Answer(evaluate.Metric):
    def _info(self):
        features = datasets.Features({"predictions": datasets.Value("int64")})
        return evaluate.MetricInfo(description="", citation="", inputs_description="", features=features)

    def _compute(self, predictions):
        return {"answer": ANSWER}
"""
LOAD_METRIC = """
import sys
sys.modules["transformers"] = None  # seconds, and nothing here needs it
import evaluate
del sys.modules["transformers"]
print(evaluate.load("ORG/answer", revision="v1.0").compute(predictions=[0]))
"""


def test_evaluate_loads_a_space(hub, run_python):
    space = hub.create_repo("space", "ORG/answer", {"answer.py": METRIC, "numbers.py": b"ANSWER = 1"})
    space.tags["v1.0"] = space.at("main").oid
    space.commit({"numbers.py": b"ANSWER = 2"})
    assert run_python("-c", LOAD_METRIC).stdout == "{'answer': 1}\n"


def test_the_real_client_gets_back_the_bytes_it_uploaded(in_process, tmp_path):
    """The stand-in itself, without `push`."""
    api = HfApi(endpoint=in_process.url, token=in_process.token)
    for path, content in FILES.items():
        (tmp_path / "up" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "up" / path).write_bytes(content)
    api.create_repo("ORG/data", repo_type="dataset")
    api.upload_folder(repo_id="ORG/data", folder_path=tmp_path / "up", repo_type="dataset")
    api.create_tag("ORG/data", tag="v1.0", repo_type="dataset")
    api.delete_file("second/test.parquet", "ORG/data", repo_type="dataset")
    cache = tmp_path / "cache"
    folder = Path(snapshot_download("ORG/data", repo_type="dataset", revision="v1.0", cache_dir=cache, token=False))
    downloaded = {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }
    assert downloaded.pop(".gitattributes")
    assert downloaded == FILES
    assert [entry.path for entry in api.list_repo_tree("ORG/data", "second", revision="v1.0", repo_type="dataset")] == [
        "second/test.parquet"
    ]
    assert not api.file_exists("ORG/data", "second/test.parquet", repo_type="dataset")
    assert (
        api.verify_repo_checksums("ORG/data", repo_type="dataset", revision="v1.0", local_dir=folder).mismatches == []
    )
    with pytest.raises(HfHubHTTPError, match="409"):
        api.create_tag("ORG/data", tag="v1.0", repo_type="dataset")
    api.delete_tag("ORG/data", tag="v1.0", repo_type="dataset")
    assert data(in_process).tags == {}


# --- failing ----------------------------------------------------------------------------------------------------------

NOTHING = "Nothing was written to dataset ORG/data;"
EMPTY = "The new dataset ORG/data was created, but has none of these files;"
COMMITTED = "The files are published (commit {commit}), but the tag v1.0 is not set;"
AGAIN = "run the same command again to finish"


def finish(hub, commits=2):
    """What stopped was whole or nothing, and the same push again finishes it, without a second commit."""
    hub.faults.clear()
    if ("dataset", "ORG/data") in hub.repos:
        assert data(hub).files() in ({}, FILES)
        assert set(data(hub).tags) <= {"v1.0"}
    publish(hub)
    assert data(hub).files("v1.0") == data(hub).files("main") == FILES
    assert len(data(hub).history()) == commits


@pytest.mark.parametrize("status", [500, 429])
@pytest.mark.parametrize(
    ("method", "path", "step", "holds"),
    [
        ("GET", r"/refs", "Reading", NOTHING),
        ("POST", r"/repos/create", "Creating", NOTHING),
        ("GET", r"/tree/", "Reading", EMPTY),
        ("POST", r"/validate-yaml", "Committing to", EMPTY),
        ("POST", PREUPLOAD, "Committing to", EMPTY),
        ("POST", LFS_BATCH, "Committing to", EMPTY),
        ("PUT", r"/lfs/", "Committing to", EMPTY),
        ("POST", COMMIT, "Committing to", EMPTY),
        ("POST", r"/tag/", "Tagging", COMMITTED),
    ],
)
def test_a_step_that_the_hub_refuses(in_process, method, path, step, holds, status):
    in_process.fail_next(method, path, status=status, times=ALWAYS)
    message = refuse(in_process)
    assert message.startswith(f"{step} dataset ORG/data failed: ")
    assert f"HTTP {status}, Made to fail with {status}" in message
    if "{commit}" in holds:
        holds = holds.format(commit=data(in_process).at("main").oid)
    assert holds in message
    assert message.endswith(AGAIN)
    assert ("wait some minutes" in message) == (status == 429)
    finish(in_process)


def test_errors_that_go_away_are_retried_by_the_client(in_process):
    for path in (PREUPLOAD, LFS_BATCH):
        in_process.fail_next("POST", path, status=503)
    in_process.cut_next("PUT", r"/lfs/")
    publish(in_process)
    finish(in_process)


@pytest.mark.parametrize(
    ("method", "path", "at", "holds"),
    [
        ("POST", r"/repos/create", "request", NOTHING),
        ("POST", r"/repos/create", "answer", EMPTY),
        ("POST", PREUPLOAD, "answer", EMPTY),
        ("PUT", r"/lfs/", "request", EMPTY),
        ("PUT", r"/lfs/", "answer", EMPTY),
        ("POST", COMMIT, "request", EMPTY),
        ("POST", COMMIT, "answer", COMMITTED),
        ("POST", r"/tag/", "request", COMMITTED),
        ("POST", r"/tag/", "answer", "The files are published, and the tag v1.0 is set;"),
    ],
)
def test_a_connection_that_breaks(in_process, method, path, at, holds):
    in_process.cut_next(method, path, at=at, times=ALWAYS)
    message = refuse(in_process)
    assert "Error" in message
    assert holds.format(commit=data(in_process).at("main").oid if "{commit}" in holds else None) in message
    assert message.endswith(AGAIN)
    finish(in_process)


def test_a_hub_that_is_gone_after_the_commit(in_process):
    in_process.meanwhile("POST", COMMIT, lambda: in_process.cut_next("GET", r"", times=ALWAYS))
    in_process.cut_next("POST", COMMIT, at="answer")
    message = refuse(in_process)
    assert "What dataset ORG/data holds now is not known;" in message
    assert message.endswith(AGAIN)
    finish(in_process)


def test_somebody_else_commits_meanwhile(in_process):
    publish(in_process)
    in_process.meanwhile("POST", PREUPLOAD, lambda: data(in_process).commit({"theirs.txt": b"Theirs."}))
    message = refuse(in_process, LATER, tag="v2.0")
    theirs, ours, _ = data(in_process).history()
    assert (theirs.author, ours.files["README.md"].content) == ("somebody", CARD)
    assert "HTTP 412, A commit has happened since" in message
    assert f"Somebody else has committed to dataset ORG/data meanwhile ({theirs.oid})" in message
    assert message.endswith(f"none of these files was written; look at that commit, then {AGAIN}")
    assert list(data(in_process).tags) == ["v1.0"]
    assert publish(in_process, LATER, tag="v2.0").kept == ("theirs.txt",)
    assert data(in_process).files("v2.0") == LATER | {"theirs.txt": b"Theirs."}


def test_somebody_else_tags_meanwhile(in_process):
    def tag():
        data(in_process).tags["v1.0"] = data(in_process).history()[-1].oid

    in_process.meanwhile("POST", r"/tag/", tag)
    message = refuse(in_process)
    assert "HTTP 409, Tag reference exists already: refs/tags/v1.0" in message
    assert "but the tag v1.0 is not set; somebody else was writing to it too; run the same command" in message
    assert "already has a tag v1.0, with other content" in refuse(in_process)
    assert data(in_process).files("v1.0") == {}


def test_the_tag_is_on_the_commit_even_if_main_moves_on_before(in_process):
    in_process.meanwhile("POST", r"/tag/", lambda: data(in_process).commit(LATER))
    publish(in_process)
    assert data(in_process).files("v1.0") == FILES
    assert data(in_process).files("main") == LATER


def test_somebody_else_makes_the_repository_meanwhile(in_process):
    theirs = {"README.md": b"Theirs.", "other.txt": b"Theirs."}
    in_process.meanwhile("POST", r"/repos/create", lambda: in_process.create_repo("dataset", "ORG/data", theirs))
    assert "wrote, or that somebody has changed since: README.md, other.txt. Nothing was written" in refuse(in_process)
    assert data(in_process).files() == theirs


def test_a_repository_that_the_hub_does_not_show_is_not_made(in_process):
    in_process.fail_next("GET", r"/refs", status=401, headers={"X-Error-Code": "RepoNotFound"})
    assert f"HTTP 401, Made to fail with 401. {NOTHING} log in" in refuse(in_process)
    assert in_process.repos == {}


def test_a_card_that_the_hub_refuses(in_process):
    message = refuse(in_process, FILES | {"README.md": b"---\nlicense: [\n---\n"})
    assert "Invalid metadata in README.md" in message
    assert EMPTY in message
    assert message.endswith(f"correct that, then {AGAIN}")


def test_a_gitignore_there_does_not_leave_out_files_in_silence(in_process):
    publish(in_process)
    data(in_process).commit({".gitignore": b"first/test.parquet\n"})
    message = refuse(in_process, LATER, tag="v2.0")
    commit = data(in_process).at("main").oid
    assert (
        f"its commit {commit} has other content (first/test.parquet). No tag was set; check whether a .gitignore"
        in message
    )
    assert list(data(in_process).tags) == ["v1.0"]
    data(in_process).commit({".gitignore": None})
    publish(in_process, LATER, tag="v2.0", among_other_files=True)
    assert data(in_process).files("v2.0") == LATER


# --- tokens -----------------------------------------------------------------------------------------------------------


def test_a_token_that_cannot_write_writes_nothing(in_process):
    for token in (in_process.read_token, in_process.other_token):
        message = refuse(in_process, token=token)
        assert "Creating dataset ORG/data failed: HTTP 403, Forbidden" in message
        assert f"{NOTHING} use a token with write permission there" in message
        assert in_process.repos == {}
    publish(in_process)
    for token in (in_process.read_token, in_process.other_token):
        message = refuse(in_process, LATER, tag="v2.0", token=token)
        assert "Committing to dataset ORG/data failed: HTTP 403, Forbidden" in message
        assert NOTHING in message
    assert data(in_process).files() == FILES
    assert list(data(in_process).tags) == ["v1.0"]


def test_a_token_that_ended_meanwhile(in_process):
    message = refuse(in_process, token="hf_wrong")
    assert "HTTP 401, Invalid credentials in Authorization header" in message
    assert "hf auth login" in message
    assert "hf_wrong" not in message
    assert in_process.repos == {}


def test_connect_takes_the_token_of_the_environment(in_process, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", in_process.token)
    api = connect()
    assert (api.endpoint, api.token) == (in_process.url, in_process.token)
    assert [(seen.path, seen.authorized) for seen in in_process.requests] == [("/api/whoami-v2", True)]


def test_connect_takes_the_token_of_a_login(in_process, monkeypatch, tmp_path):
    (tmp_path / "token").write_text(in_process.token, encoding="utf-8")
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "token"))
    assert connect().token == in_process.token


def refuse_to_connect():
    with pytest.raises(HubError) as caught:
        connect()
    return "".join(traceback.format_exception_only(caught.value)).strip().partition("HubError: ")[2]


def test_connect_without_a_token(in_process):
    assert refuse_to_connect() == (
        "there is no Hugging Face token; log in with `hf auth login`, or set HF_TOKEN, with a token that has write "
        "permission"
    )
    assert in_process.requests == []


def test_connect_with_a_token_that_is_none(in_process, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_wrong")
    message = refuse_to_connect()
    assert message.startswith(f"{in_process.url} does not accept the token in use (HTTP 401, ")
    assert "HF_TOKEN environment variable is invalid" in message
    assert message.endswith("with a token that has write permission")
    assert "hf_wrong" not in message


def test_connect_with_a_token_that_can_only_read(in_process, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", in_process.read_token)
    message = refuse_to_connect()
    assert message.startswith("the token in use, of maintainer, can only read; log in")
    assert in_process.read_token not in message


@pytest.mark.parametrize("character", ["\0", "é", " \t x"])
def test_connect_with_a_token_that_no_header_can_hold(in_process, monkeypatch, character):
    token = f"hf_se{character}cret"
    monkeypatch.setattr("huggingface_hub.get_token", lambda: token)
    message = refuse_to_connect()
    assert in_process.url in message
    assert "cret" not in message


def test_the_token_is_hidden_in_a_message_of_the_server(in_process, monkeypatch):
    token = "hf_se\\cret"
    monkeypatch.setenv("HF_TOKEN", token)
    in_process.fail_next("GET", "whoami", headers={"X-Error-Message": f"It was {token}!"})
    assert "HTTP 500, It was …!" in refuse_to_connect()


def test_connect_to_a_hub_that_is_not_there(in_process, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as free:
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", url)
    monkeypatch.setenv("HF_TOKEN", in_process.token)
    message = refuse_to_connect()
    assert message.startswith(f"{url} did not answer whose token is in use (ConnectError: ")
    assert in_process.token not in message


@pytest.mark.parametrize("status", [429, 500])
def test_connect_to_a_hub_in_trouble(in_process, monkeypatch, status):
    monkeypatch.setenv("HF_TOKEN", in_process.token)
    in_process.fail_next("GET", "whoami", status=status)
    message = refuse_to_connect()
    assert f"HTTP {status}" in message
    assert "does not accept" not in message


def test_connect_offline(in_process, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", in_process.token)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert refuse_to_connect() == "HF_HUB_OFFLINE is set, so the Hub cannot be reached; unset it"


# --- pull requests ----------------------------------------------------------------------------------------------------

RESULTS = {"README.md": CARD + b"\nResults.\n", ".eval_results/bias.yaml": b"- value: 0.5\n"}


def propose(hub, files=RESULTS, message="Results", token=None):
    api = HfApi(endpoint=hub.url, token=token or hub.other_token)
    return push(api, "ORG/model", files, repo_type="model", message=message, description="Why.", pull_request=True)


@pytest.fixture
def model(in_process):
    return in_process.create_repo("model", "ORG/model", {"README.md": CARD, "config.json": b"{}"})


def test_a_pull_request_adds_and_changes_and_deletes_nothing(in_process, model):
    before = model.at("main")
    pushed = propose(in_process)
    commit = model.at("refs/pr/1")
    assert pushed == Pushed(commit.oid, f"{in_process.url}/ORG/model/discussions/1", tuple(sorted(RESULTS)), False)
    assert model.files("refs/pr/1") == RESULTS | {"config.json": b"{}"}
    assert (commit.parent, model.at("main")) == (before.oid, before)
    opened = model.pull_requests[1]
    assert (opened.title, opened.description, opened.author) == ("Results", "Why.", "contributor")


def test_the_same_pull_request_is_not_opened_twice(in_process, model):
    first = propose(in_process)
    assert propose(in_process) == first._replace(written=())
    assert list(model.pull_requests) == [1]


def test_other_content_title_or_account_is_another_pull_request(in_process, model):
    propose(in_process)
    propose(in_process, RESULTS | {".eval_results/bias.yaml": b"- value: 0.6\n"})
    propose(in_process, message="Other results")
    propose(in_process, token=in_process.token)
    assert list(model.pull_requests) == [1, 2, 3, 4]
    model.pull_requests[1].status = "closed"
    assert propose(in_process).url.endswith("/discussions/5")


def test_what_was_merged_is_not_proposed_again(in_process, model):
    propose(in_process)
    model.commit({"config.json": b'{"a": 1}'})
    merged = model.merge(1)
    assert model.files() == RESULTS | {"config.json": b'{"a": 1}'}
    assert propose(in_process) == Pushed(merged.oid, f"{in_process.url}/ORG/model/commit/{merged.oid}", (), False)
    assert list(model.pull_requests) == [1]


def test_a_pull_request_starts_from_the_commit_it_was_compared_with(in_process, model):
    seen = model.at("main")
    in_process.meanwhile("POST", PREUPLOAD, lambda: model.commit({"README.md": b"Theirs."}))
    propose(in_process)
    assert model.at("refs/pr/1").parent == seen.oid


def test_a_pull_request_needs_a_repository(in_process):
    with pytest.raises(HubError, match="model ORG/model does not exist, or the token in use cannot see it"):
        propose(in_process)
    assert in_process.repos == {}


@pytest.mark.parametrize(
    ("at", "holds"),
    [
        ("request", "No pull request was opened on model ORG/model;"),
        ("answer", "The pull request is open ({url}/ORG/model/discussions/1);"),
    ],
)
def test_a_pull_request_whose_answer_is_lost(in_process, model, at, holds):
    in_process.cut_next("POST", COMMIT, at=at)
    with pytest.raises(HubError) as caught:
        propose(in_process)
    assert holds.format(url=in_process.url) in str(caught.value)
    assert str(caught.value).endswith(AGAIN)
    assert propose(in_process).url == f"{in_process.url}/ORG/model/discussions/1"
    assert list(model.pull_requests) == [1]


def test_a_pull_request_with_a_token_that_can_only_read(in_process, model):
    with pytest.raises(HubError, match=r"HTTP 403, .* No pull request was opened on model ORG/model; use a token with"):
        propose(in_process, token=in_process.read_token)
    assert model.pull_requests == {}
