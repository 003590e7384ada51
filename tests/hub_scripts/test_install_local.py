import contextlib
import json
import os
import shutil
import sys
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import datasets
import pytest

from hb_dataset import load_table, prompts
from hub_scripts import install_local
from tests.hub_scripts.processes import run_python
from tests.hub_scripts.versions_on_disk import copy_small, freeze_small, versions_of

INSTALLED = ("v1.0", "v1.0-small", "next-small", "descriptors", "decisions")

# `evaluate` imports all of transformers, and so torch, if it can: seconds in each process, and nothing here needs them.
IMPORT_EVALUATE = """
import sys
sys.modules["transformers"] = None
import evaluate
del sys.modules["transformers"]
"""
LOAD_ALL = """
import json
from datasets import load_dataset

default = load_dataset("holistic_bias")
small = load_dataset("holistic_bias", "v1.0-small", split="test")
stream = load_dataset("holistic_bias", "v1.0-small", split="test", streaming=True)
decisions = load_dataset("holistic_bias", "decisions", split="test")
evaluate.load("likelihood_bias")
print(json.dumps(dict(
    default=dict((split, table.num_rows) for split, table in default.items()),
    small=small.select(range(3)).to_list(),
    stream=list(stream.take(3)),
    decisions=decisions.to_list(),
    ours=sorted(name for name in sys.modules if name.split(".")[0] in ("hb_dataset", "hb_metrics", "hub_scripts")),
)))
"""


@pytest.fixture(scope="module")
def versions(tmp_path_factory):
    """A folder of small versions of the vocabulary; the whole v1.0 takes seconds."""
    root = freeze_small(tmp_path_factory.mktemp("versions"), "v1.0")
    copy_small("next", root / "next")
    return root


@pytest.fixture(scope="module")
def prompts_of(versions):
    """Gives the rows of a config."""

    def rows(config):
        with versions_of(versions):
            return load_table(config).to_pylist()

    return rows


@pytest.fixture(scope="module")
def installed(versions, tmp_path_factory):
    """A Hugging Face home after the script, and what the script printed."""
    import evaluate

    home = tmp_path_factory.mktemp("installed") / "home"
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(StringIO()) as printed, versions_of(versions):
        patch.setattr(datasets.config, "HF_DATASETS_CACHE", home / "datasets")
        patch.setattr(evaluate.config, "HF_MODULES_CACHE", home / "modules")
        patch.setattr(prompts, "CONFIGS", {name: prompts.CONFIGS[name] for name in INSTALLED})
        patch.setattr(sys, "argv", ["install_local.py"])
        install_local.main()
    return home, printed.getvalue()


def test_every_metric_is_installed_with_all_that_it_imports(installed):
    home, printed = installed
    assert f'load_dataset("holistic_bias")  from {home / "datasets" / "holistic_bias"}' in printed
    folders = install_local.metric_folders()
    assert "likelihood_bias" in [folder.name for folder in folders]
    for folder in folders:
        assert f'evaluate.load("{folder.name}")' in printed
        named = home / "modules" / "evaluate_modules" / "metrics" / f"evaluate-metric--{folder.name}"
        (copy,) = (path for path in named.iterdir() if len(path.name) == 64)
        files = {path.name: path.read_bytes() for path in copy.glob("*.py") if path.name != "__init__.py"}
        assert files == install_local.module_files(folder)
        assert not any(b"hb_metrics" in content.split(b'"""', 2)[2] for content in files.values())


def test_an_interrupted_installation_leaves_whole_metrics(tmp_path, monkeypatch):
    import evaluate

    monkeypatch.setattr(evaluate.config, "HF_MODULES_CACHE", tmp_path)
    write_bytes, written = Path.write_bytes, []

    def write(path, content):
        written.append(path)
        if len(written) == stop_at:
            raise OSError(28, "No space left on device", str(path))
        write_bytes(path, content)

    def contents():
        folders = [path for path in tmp_path.rglob("*") if len(path.name) == 64]
        return {path: {file.name: file.read_bytes() for file in path.iterdir()} for path in folders}

    monkeypatch.setattr(Path, "write_bytes", write)
    stop_at = 40
    with pytest.raises(OSError, match="No space left"):
        install_local.install_metrics()
    interrupted, stop_at = contents(), 0
    install_local.install_metrics()
    whole = contents()
    assert 0 < len(interrupted) < len(whole)
    assert all(whole[folder] == files for folder, files in interrupted.items())


def test_names_load_in_any_folder_beside_a_hub_without_them(installed, prompts_of, hub):
    home, _ = installed
    empty = home.parent / "empty"
    environment = {**hub.environment(), "HF_HOME": str(home)}
    loaded = json.loads(run_python("-c", IMPORT_EVALUATE + LOAD_ALL, folder=empty, **environment))
    assert list(empty.iterdir()) == []
    assert {"holistic_bias", "likelihood_bias"} <= {word for path in hub.requests for word in path.split("/")}
    assert loaded["default"] == {"test": len(prompts_of("v1.0"))}
    assert loaded["small"] == loaded["stream"] == prompts_of("v1.0-small")[:3]
    assert loaded["decisions"] == load_table("decisions").to_pylist()
    assert loaded["ours"] == []


# --- what comes after a first installation ----------------------------------------------------------------------------


@pytest.fixture
def cache(installed, tmp_path):
    """A cache of `datasets` with the dataset installed: links to the files of the installation, which never change."""
    home, _ = installed
    return str(shutil.copytree(home / "datasets", tmp_path / "cache", copy_function=os.link))


def load(cache, *config):
    return datasets.load_dataset("holistic_bias", *config, split="test", cache_dir=cache)


def mark(rows):
    return {"marked": [True] * len(rows["id"])}


def write_cache_file(cache, config):
    prompts = load(cache, config)
    mapped = prompts.select(range(10)).map(mark, batched=True)
    assert mapped.cache_files[0]["filename"].startswith(str(Path(prompts.cache_files[0]["filename"]).parent))


def test_the_bare_name_never_becomes_another_config(cache, prompts_of):
    num_rows = len(prompts_of("v1.0"))
    assert num_rows not in {len(prompts_of(config)) for config in INSTALLED[1:3]}
    write_cache_file(cache, "v1.0-small")
    assert load(cache).num_rows == num_rows
    write_cache_file(cache, "v1.0")
    write_cache_file(cache, "v1.0-small")
    with contextlib.suppress(ValueError):  # an error that asks which config is fine
        assert load(cache).num_rows == num_rows
