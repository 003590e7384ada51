import contextlib
import json
import os
import shutil
from pathlib import Path

import datasets
import pytest

from hb_dataset import CONFIGS, load_table
from hb_dataset import vocabulary as vocabulary_module
from hb_dataset.builder import HolisticBias
from hb_dataset.versions import read_frozen
from hub_scripts import install_local, module_files
from tests.hub_scripts.hub_stand_in import Hub
from tests.hub_scripts.processes import run_python
from tests.hub_scripts.versions_on_disk import record_as_frozen

SCRIPT = Path(install_local.__file__)
ALL_OF_V1, SMALL = 462_878, 9_360  # rows
V1_FOLDER = Path(vocabulary_module.__file__).parent / "vocabulary" / "v1.0"

# `evaluate` imports all of transformers, and so torch, if it can: seconds in each process, and nothing here needs them.
IMPORT_EVALUATE = """
import sys
sys.modules["transformers"] = None
import evaluate
del sys.modules["transformers"]
"""
RUN_SCRIPT = f"""{IMPORT_EVALUATE}
import runpy
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
LOAD_ALL = """
import json
from datasets import load_dataset

default = load_dataset("holistic_bias")
small = load_dataset("holistic_bias", "v1.0-small", split="test")
stream = load_dataset("holistic_bias", "v1.0-small", split="test", streaming=True)
metric = evaluate.load("likelihood_bias")
bias = metric.compute(
    predictions=[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0] * 2,
    axes=["age"] * 16,
    descriptors=(["young"] * 4 + ["old"] * 4) + ["young", "old"] * 4,
    templates=["I love {plural_noun_phrase}."] * 8 + ["I like {plural_noun_phrase}."] * 8,
)
print(json.dumps(dict(
    default=dict((split, table.num_rows) for split, table in default.items()),
    configs=dict((config, load_dataset("holistic_bias", config, split="test").num_rows) for config in sys.argv[1:]),
    small=small.select(range(3)).to_list(),
    stream=list(stream.take(3)),
    bias=bias["by_template"],
    ours=sorted(name for name in sys.modules if name.split(".")[0] in ("hb_dataset", "hb_metrics", "hub_scripts")),
)))
"""


@pytest.fixture(scope="module")
def num_rows(intersections):
    """Config → how many rows it has; of frozen versions as recorded, which their own tests compare with the tables."""
    known = {"next-intersections": intersections.num_rows}
    for version, record in read_frozen().items():
        known |= {config: number for config, number in record["counts"]["rows"].items() if config.startswith(version)}
    return {config: known[config] if config in known else load_table(config).num_rows for config in CONFIGS}


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A Hugging Face home after the script, and what the script printed."""
    home = tmp_path_factory.mktemp("installed") / "home"
    offline = {"HF_HUB_OFFLINE": "1", "HF_HOME": str(home)}
    printed = run_python("-c", RUN_SCRIPT, SCRIPT, folder=home.parent / "elsewhere", **offline)
    yield home, printed
    shutil.rmtree(home)  # v1.0 is large, and pytest keeps its folders


@pytest.fixture(scope="module")
def hub_without_our_names():
    """The environment of a Hub that has nothing, and what it was asked for."""
    with Hub() as hub:
        yield hub.environment(), hub.requests


@pytest.fixture(scope="module", params=["offline", "online"])
def loaded(request, installed):
    """What a new process in an empty folder loads under the bare names."""
    home, _ = installed
    environment = {"HF_HUB_OFFLINE": "1"}
    if request.param == "online":
        environment, asked = request.getfixturevalue("hub_without_our_names")
    empty = home.parent / request.param
    configs = CONFIGS if request.param == "offline" else ["v1.0-small"]  # twenty take seconds
    result = json.loads(
        run_python("-c", IMPORT_EVALUATE + LOAD_ALL, *configs, folder=empty, HF_HOME=str(home), **environment)
    )
    assert list(empty.iterdir()) == []
    if request.param == "online":  # it was the Hub that did not know them
        assert {"holistic_bias", "likelihood_bias"} <= {word for path in asked for word in path.split("/")}
    return result


def test_every_metric_is_installed_with_all_that_it_imports(installed):
    home, printed = installed
    assert 'load_dataset("holistic_bias")' in printed
    folders = module_files.metric_folders()
    assert "likelihood_bias" in [folder.name for folder in folders]
    for folder in folders:
        assert f'evaluate.load("{folder.name}")' in printed
        named = home / "modules" / "evaluate_modules" / "metrics" / f"evaluate-metric--{folder.name}"
        (copy,) = (path for path in named.iterdir() if len(path.name) == 64)
        files = {path.name: path.read_bytes() for path in copy.glob("*.py") if path.name != "__init__.py"}
        assert files == module_files.module_files(folder)
        assert not any(b"hb_metrics" in content.split(b'"""', 2)[2] for content in files.values())


def test_all_names_load_in_any_folder_and_process(loaded, num_rows):
    assert loaded["default"] == {"test": ALL_OF_V1}
    assert loaded["configs"] == {config: num_rows[config] for config in loaded["configs"]}
    assert loaded["configs"].keys() in (set(CONFIGS), {"v1.0-small"})
    assert loaded["small"] == loaded["stream"] == load_table("v1.0-small").slice(0, 3).to_pylist()
    # Four perplexities all below four others: p = 2/70. Taking turns: far from it.
    assert loaded["bias"] == {"I love {plural_noun_phrase}.": 1.0, "I like {plural_noun_phrase}.": 0.0}
    assert loaded["ours"] == []


# --- what comes after a first installation ----------------------------------------------------------------------------


@pytest.fixture
def cache(installed, tmp_path):
    """A cache of `datasets` with the dataset installed: links to the files of the installation, which never change."""
    datasets.disable_progress_bars()
    home, _ = installed
    shutil.copytree(home / "datasets", tmp_path / "cache", copy_function=os.link)
    yield str(tmp_path / "cache")
    shutil.rmtree(tmp_path / "cache")
    datasets.enable_progress_bars()


def load(cache, *config):
    return datasets.load_dataset("holistic_bias", *config, split="test", cache_dir=cache)


def mark(rows):
    return {"marked": [True] * len(rows["id"])}


def write_cache_file(cache, config):
    prompts = load(cache, config)
    mapped = prompts.select(range(10)).map(mark, batched=True)
    assert mapped.cache_files[0]["filename"].startswith(str(Path(prompts.cache_files[0]["filename"]).parent))


def test_installing_again_changes_nothing_and_every_config_is_its_table(cache, intersections):
    assert install_local.install_dataset(cache) == Path(cache) / "holistic_bias"
    for config in CONFIGS:
        table = load(cache, config).with_format("arrow")[:].replace_schema_metadata(None)
        assert table.equals(intersections if config == "next-intersections" else load_table(config)), config
    assert load(cache).num_rows == ALL_OF_V1


def test_the_bare_name_never_becomes_another_config(cache):
    write_cache_file(cache, "v1.0-small")
    assert load(cache).num_rows == ALL_OF_V1
    write_cache_file(cache, "v1.0")
    write_cache_file(cache, "v1.0-small")
    with contextlib.suppress(ValueError):  # an error that asks which config is fine
        assert load(cache).num_rows == ALL_OF_V1


def test_the_names_stay_v1_beside_a_prepared_vocabulary_of_ones_own(cache, tmp_path):
    own = shutil.copytree(V1_FOLDER, tmp_path / "own")
    (own / "age.yaml").unlink()
    for config in ("v1.0", "v1.0-small"):
        HolisticBias(config, vocabulary_dir=own, cache_dir=cache).download_and_prepare()
    assert load(cache).num_rows == ALL_OF_V1
    assert load(cache, "v1.0-small").num_rows == SMALL


def test_another_vocabulary_replaces_the_installed_one(cache, tmp_path, monkeypatch):
    other = shutil.copytree(V1_FOLDER.parent, tmp_path / "other") / "v1.0"
    for file in other.iterdir():  # all axes but one, so that it is built soon
        if "\naxis:" in file.read_text(encoding="utf-8") and file.stem != "age":
            file.unlink()
    (other.parent / "frozen.json").unlink()
    record_as_frozen(other.parent, "v1.0")
    rows = {config: load_table(config, other).num_rows for config in ("v1.0", "v1.0-small")}
    monkeypatch.setattr("hb_dataset.prompts.CONFIGS", list(rows))  # the only ones to install again
    with monkeypatch.context() as patch:
        patch.setattr(vocabulary_module, "VOCABULARIES", other.parent)
        install_local.install_dataset(cache)
    assert rows == {"v1.0": load(cache).num_rows, "v1.0-small": load(cache, "v1.0-small").num_rows}
    install_local.install_dataset(cache)
    assert (load(cache).num_rows, load(cache, "v1.0-small").num_rows) == (ALL_OF_V1, SMALL)


METRIC = """
import datasets
import evaluate

from hb_metrics.answer.numbers import ANSWER


class Answer(evaluate.Metric):
    def _info(self):
        features = datasets.Features({"predictions": datasets.Value("int64")})
        return evaluate.MetricInfo(description="", citation="", inputs_description="", features=features)

    def _compute(self, predictions):
        return {"answer": ANSWER}
"""
INSTALL_AND_LOAD = """
from pathlib import Path
from hub_scripts import install_local, module_files

module_files.METRICS_DIR = Path(sys.argv[1])
module_files.ROOT = module_files.METRICS_DIR.parent
for answer in (1, 2, 1):
    (module_files.METRICS_DIR / "answer" / "numbers.py").write_text(f"ANSWER = {answer}")
    (written,) = install_local.install_metrics()
    assert written.is_dir(), written
    print(evaluate.load("answer").compute(predictions=[0])["answer"])
"""


def test_a_changed_metric_replaces_the_installed_one(tmp_path, hub_without_our_names):
    environment, _ = hub_without_our_names
    metrics = tmp_path / "hb_metrics"
    for name in ("answer", "no_metric"):
        (metrics / name).mkdir(parents=True)
    (metrics / "answer" / "answer.py").write_text(METRIC, encoding="utf-8")
    (metrics / "no_metric" / "helpers.py").write_text("", encoding="utf-8")
    code = IMPORT_EVALUATE + INSTALL_AND_LOAD
    answers = run_python("-c", code, metrics, folder=tmp_path / "empty", **environment)
    assert answers.split() == ["1", "2", "1"]


def test_two_files_of_one_name_are_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(module_files, "ROOT", tmp_path)
    folder = tmp_path / "hb_metrics" / "answer"
    (folder / "more").mkdir(parents=True)
    (folder / "answer.py").write_text("from hb_metrics.answer.more.answer import ANSWER\n")
    (folder / "more" / "answer.py").write_text("ANSWER = 1\n")
    with pytest.raises(ValueError, match=r"two files named answer\.py"):
        module_files.module_files(folder)
