import traceback

import pytest
from huggingface_hub import HfApi, close_session, constants

from hb_dataset.hub_access import protect_token, stream_split
from hb_metrics.models.sources import file_of, find_source, identify
from hub_scripts.hub import RECORD_FILE, HubError, connect, endpoint, open_repository, publish
from tests.hub_scripts.hub_stand_in import Hub

CARD = b"---\nlicense: cc-by-sa-4.0\n---\n# Data\n"
FILES = {"README.md": CARD, "first/test.parquet": b"PAR1 first", "second/test.parquet": b"PAR1 second"}
LATER = {**FILES, "README.md": CARD + b"\nMore.\n", "first/test.parquet": b"PAR1 more"}
COMMIT, PREUPLOAD = r"/commit/main", r"/preupload/main"
ALWAYS = 99  # more often than the client tries


def push(hub, files=FILES, tag="v1.0", token=None, kind="dataset", **options):
    api = HfApi(endpoint=hub.url, token=token or hub.token)
    repository = open_repository(api, "ORG/data", kind, space_sdk="gradio" if kind == "space" else None)
    return publish(repository, files, message="Publish", tag=tag, **options)


def refuse(hub, *arguments, **options):
    """The message of a push that fails; nothing that would be shown has a token or a request in it."""
    with pytest.raises(HubError) as caught:
        push(hub, *arguments, **options)
    shown = "".join(traceback.format_exception(caught.value))
    assert not [token for token in (hub.token, hub.read_token, hub.other_token) if token in shown]
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    assert "\n" not in str(caught.value)
    return str(caught.value)


def data(hub):
    return hub.repo("dataset", "ORG/data")


# --- publishing -------------------------------------------------------------------------------------------------------


def test_the_first_publication_creates_and_tags_one_commit(in_process):
    pushed = push(in_process)
    commit, first = data(in_process).history()
    written = ", ".join(sorted([RECORD_FILE, *FILES]))
    assert pushed == f"published as {in_process.url}/datasets/ORG/data/commit/{commit.oid} (written: {written})"
    assert (commit.title, commit.author, first.title) == ("Publish", "maintainer", "initial commit")
    assert data(in_process).files("v1.0") == data(in_process).files("main") == FILES
    assert commit.files["first/test.parquet"].lfs
    assert data(in_process).tags == {"v1.0": commit.oid}


def test_versions_keep_their_tags_and_main_the_latest(in_process):
    push(in_process)
    assert f"(written: {RECORD_FILE}, README.md, first/test.parquet)" in push(in_process, LATER, tag="v2.0")
    in_process.requests.clear()
    push(in_process)
    assert in_process.writes() == []
    assert data(in_process).files("v1.0") == FILES
    assert data(in_process).files("v2.0") == data(in_process).files("main") == LATER


def test_a_tag_is_never_moved(in_process):
    push(in_process)
    in_process.requests.clear()
    message = refuse(in_process, {"README.md": CARD + b"Other.", "first/test.parquet": FILES["first/test.parquet"]})
    assert "already has a tag v1.0" in message
    assert "README.md, second/test.parquet" in message
    assert in_process.writes() == []
    assert data(in_process).files("v1.0") == FILES


def test_files_of_ours_that_are_gone_are_deleted_in_the_same_commit(in_process):
    push(in_process)
    fewer = {"README.md": CARD, "first": b"A file in the place of a folder."}
    pushed = push(in_process, fewer, tag="v2.0")
    assert "deleted: first/test.parquet, second/test.parquet" in pushed
    assert len(data(in_process).history()) == 3
    assert data(in_process).files() == fewer


# --- other people's files ---------------------------------------------------------------------------------------------


def stopped(hub, theirs, **options):
    """Nothing is written to a repository because of these files of other people."""
    before = data(hub).at()
    hub.requests.clear()
    assert f"changed since: {theirs}. Nothing was written" in refuse(hub, **options)
    assert hub.writes() == []
    assert data(hub).at() == before


def test_a_repository_of_something_else_is_left_alone(in_process):
    theirs = {"train.csv": b"text\n", "README.md": b"# Precious\n", "second/test.parquet": FILES["second/test.parquet"]}
    in_process.create_repo("dataset", "ORG/data", theirs)
    stopped(in_process, "README.md, train.csv")
    assert push(in_process, among_other_files=True).endswith("; other people's files, left unchanged: train.csv)")
    assert data(in_process).files("v1.0") == FILES | {"train.csv": b"text\n"}
    push(in_process, LATER, tag="v2.0")  # from then on the repository is ours
    assert data(in_process).files("v2.0") == LATER | {"train.csv": b"text\n"}


def test_added_files_survive_the_next_version(in_process):
    push(in_process)
    theirs = {"eval.yaml": b"name: Ours\n", "images/map.png": b"\x89PNG", "second/train.parquet": b"PAR1"}
    data(in_process).commit(theirs)
    fewer = {"README.md": CARD, "first/test.parquet": b"PAR1 more"}
    for _ in range(2):
        push(in_process, fewer, tag="v2.0")
        assert data(in_process).files("v2.0") == fewer | theirs


def test_a_changed_file_of_ours_is_not_replaced_or_deleted(in_process):
    push(in_process)
    data(in_process).commit({"README.md": CARD + b"By hand.", "second/test.parquet": b"PAR1 by hand"})
    later = {path: LATER[path] for path in ("README.md", "first/test.parquet")}
    stopped(in_process, "README.md", files=later, tag="v2.0")
    push(in_process, later, tag="v2.0", among_other_files=True)
    assert data(in_process).files() == later | {"second/test.parquet": b"PAR1 by hand"}


SPACE = "---\ntitle: Data\nemoji: 🐠\nsdk: gradio\nsdk_version: 6.0\npinned: false\n---\n"
REFERENCE = "Check out the configuration reference at https://huggingface.co/docs/hub/spaces-config-reference\n"


@pytest.mark.parametrize(
    ("kind", "card", "is_the_hubs"),
    [
        ("dataset", "---\nlicense: mit\n---\n", True),
        ("space", f"{SPACE}\n{REFERENCE}", True),
        ("space", f"{SPACE}\n{REFERENCE}\nMine.\n", False),
        ("space", SPACE.replace("title: Data", "title: >\n  Mine"), False),
    ],
)
def test_only_a_card_that_nobody_wrote_is_replaced(in_process, kind, card, is_the_hubs):
    repo = in_process.create_repo(kind, "ORG/data", {"README.md": card.encode()})
    ours = {"README.md": CARD, "app.py": b"import gradio\n"}
    if is_the_hubs:
        push(in_process, ours, kind=kind)
        assert repo.files() == ours
    else:
        assert "changed since: README.md. Nothing was written" in refuse(in_process, ours, kind=kind)
        assert repo.files() == {"README.md": card.encode()}


# --- failing ----------------------------------------------------------------------------------------------------------


def test_a_hidden_repository_is_not_a_new_one(in_process):
    repo = in_process.create_repo("dataset", "ORG/data", {"README.md": b"Theirs.", "LICENSE": b"Theirs."})
    before = repo.at()
    in_process.fail_next("GET", r"/datasets/ORG/data", 404, code="RepoNotFound", times=ALWAYS)
    assert "HTTP 409" in refuse(in_process)
    assert repo.at() == before
    assert repo.tags == {}


STEPS = [
    ("POST", r"/repos/create", "Reading", True),
    ("POST", PREUPLOAD, "Committing to", False),
    ("PUT", r"/lfs/", "Committing to", True),
    ("POST", COMMIT, "Committing to", True),
    ("POST", r"/tag/", "Setting the tag", True),
]


@pytest.mark.parametrize(("method", "path", "step", "after"), STEPS)  # after: carried out, and the answer is lost
def test_a_step_that_fails_is_finished_by_the_same_command(in_process, method, path, step, after):
    in_process.fail_next(method, path, 500, times=ALWAYS, after=after)
    message = refuse(in_process)
    assert step in message
    assert "HTTP 500, Made to fail" in message
    assert "run the same command again" in message
    in_process.faults.clear()
    push(in_process)
    assert data(in_process).files("v1.0") == data(in_process).files("main") == FILES
    assert len(data(in_process).history()) == 2


def test_a_commit_of_somebody_else_meanwhile_stays(in_process):
    push(in_process)
    in_process.meanwhile("POST", PREUPLOAD, lambda: data(in_process).commit({"theirs.txt": b"Theirs."}))
    assert "HTTP 412" in refuse(in_process, LATER, tag="v2.0")
    assert data(in_process).files() == FILES | {"theirs.txt": b"Theirs."}
    push(in_process, LATER, tag="v2.0")
    assert data(in_process).files("v2.0") == LATER | {"theirs.txt": b"Theirs."}


def test_a_gitignore_leaves_out_no_file_in_silence(in_process):
    push(in_process)
    data(in_process).commit({".gitignore": b"first/test.parquet\n"})
    message = refuse(in_process, LATER, tag="v2.0")
    assert "lacks first/test.parquet" in message
    assert list(data(in_process).tags) == ["v1.0"]
    data(in_process).commit({".gitignore": None})
    push(in_process, LATER, tag="v2.0", among_other_files=True)
    assert data(in_process).files("v2.0") == LATER


# --- tokens -----------------------------------------------------------------------------------------------------------


def test_connect_needs_a_token(in_process, monkeypatch):
    with pytest.raises(HubError, match="no Hugging Face token is set; log in with `hf auth login`"):
        connect()
    monkeypatch.setenv("HF_TOKEN", in_process.token)
    assert (connect().endpoint, connect().token) == (in_process.url, in_process.token)
    assert in_process.requests == []


def test_an_endpoint_with_a_password_is_refused(monkeypatch):
    monkeypatch.setattr(constants, "ENDPOINT", "https://somebody:SECRET@hub.example.com")
    with pytest.raises(HubError, match="HF_ENDPOINT contains a user name or password") as error:
        endpoint()
    assert "SECRET" not in str(error.value)


@pytest.mark.parametrize("token", ["read_token", "other_token"])
def test_a_token_without_rights_writes_nothing(in_process, token):
    in_process.create_repo("dataset", "ORG/data")
    before = data(in_process).at()
    assert "HTTP 403" in refuse(in_process, token=getattr(in_process, token))
    assert data(in_process).at() == before


@pytest.mark.parametrize(
    "reach",
    [
        connect,
        lambda: identify("ORG/model", None),
        lambda: file_of("ORG/model", "config.json", None),
        lambda: stream_split(["ORG/data"]),
    ],
)
def test_a_token_is_not_sent_without_encryption(maintainer, monkeypatch, reach):
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://hub.example.com")
    with pytest.raises(ValueError, match=r"sent to hub\.example\.com without encryption; set HF_ENDPOINT to") as error:
        reach()
    assert maintainer.token not in str(error.value)
    monkeypatch.delenv("HF_TOKEN")
    protect_token()


def test_a_file_counts_as_missing_only_if_the_hub_says_so(in_process, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    commit = in_process.create_repo("model", "ORG/model", {"config.json": b"{}", "other.json": b"{}"}).at().oid
    for name, file in (("ORG/model", "absent.json"), ("ORG/none", "config.json"), ("not/an/id", "config.json")):
        assert file_of(name, file, None) is None
    assert file_of("ORG/model", "config.json", commit).read_text() == "{}"
    known = tmp_path / "models--ORG--model" / ".no_exist" / commit / "absent.json"  # as after an answer of the real Hub
    known.parent.mkdir(parents=True)
    known.touch()

    in_process.fail_next("HEAD", "/resolve/", status=503, times=ALWAYS)
    with pytest.raises(OSError, match=r"does not answer whether it has other\.json.*HF_HUB_OFFLINE=1"):
        file_of("ORG/model", "other.json", commit)
    with pytest.raises(OSError, match="'ORG/tuned' is not a folder, and the Hub does not answer"):
        find_source("ORG/tuned")
    assert file_of("ORG/model", "absent.json", commit) is None  # the cache knows
    assert file_of("ORG/model", "config.json", commit).read_text() == "{}"
    assert capsys.readouterr().out == ""

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    num_requests = len(in_process.faults)
    assert file_of("ORG/model", "other.json", commit) is None
    assert "other.json of 'ORG/model' was never downloaded" in capsys.readouterr().out
    assert file_of("ORG/model", "absent.json", commit) is None
    assert find_source("ORG/model").adapter is None
    assert capsys.readouterr().out == ""
    assert len(in_process.faults) == num_requests  # nothing was asked


def test_a_token_for_a_hub_on_this_machine_passes_no_proxy(maintainer, monkeypatch):
    with Hub() as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        monkeypatch.setenv("NO_PROXY", "example.com")
        monkeypatch.delenv("no_proxy")
        close_session()
        connect().whoami()
    assert maintainer.requests == ["GET /api/whoami-v2"]
    assert proxy.requests == []
