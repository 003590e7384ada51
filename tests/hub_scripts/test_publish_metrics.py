import ast
import json
import re
import runpy
import shutil
import sys
import tomllib
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pandas as pd
import pytest
import yaml
from huggingface_hub import SpaceCard
from packaging.requirements import Requirement

from hub_scripts import publish_metrics, space_page
from hub_scripts.install_local import METRICS_DIR, metric_folders, module_files
from hub_scripts.publish_metrics import GRADIO_VERSION, main, space_files
from tests.hub_scripts.processes import run_python

PROJECT = Path(publish_metrics.__file__).parent.parent
FOLDERS = metric_folders()
NAMES = [folder.name for folder in FOLDERS]
OURS = ("hb_cli", "hb_dataset", "hb_metrics", "hb_train", "hub_scripts")

# Where none of our packages, and no gradio, can be imported; nor torch, which `evaluate` imports with transformers and
# which takes seconds.
WITHOUT_OURS = f"""
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {(*OURS, "gradio")!r}:
            raise ImportError(name + " is not here")

sys.meta_path.insert(0, Refuse())
sys.modules["transformers"] = None
import evaluate
del sys.modules["transformers"]
"""
COMPUTE_ALL = """
import json, runpy

by_metric = {}
for folder in sys.argv[1:]:
    metric = evaluate.load("ORG/" + folder.rpartition("/")[2])
    cases = runpy.run_path(folder + "/tests.py")["test_cases"]
    by_metric[folder] = [(case.pop("result"), metric.compute(**case)) for case in cases]
print(json.dumps(by_metric))
"""


@pytest.fixture(scope="module")
def dry_run(tmp_path_factory):
    """The folders that a dry run writes, and what it prints."""
    folder = tmp_path_factory.mktemp("dry")
    with redirect_stdout(StringIO()) as printed:
        main(["--org", "ORG", "--dry_run", str(folder / "spaces")])
    return folder / "spaces", printed.getvalue()


def assert_close(actual, expected):
    """Equal down to rounding, with the keys in any order."""
    if isinstance(expected, dict):
        assert actual.keys() == expected.keys()
        for key in expected:
            assert_close(actual[key], expected[key])
    else:
        assert actual == (pytest.approx(expected, abs=1e-8) if isinstance(expected, float) else expected)


# --- the files --------------------------------------------------------------------------------------------------------


def test_a_space_has_the_metric_and_all_that_it_imports(dry_run):
    folder, printed = dry_run
    assert {"full_gen_bias", "likelihood_bias", "offensiveness"} < set(NAMES)
    assert {path.name for path in folder.iterdir()} == set(NAMES)
    for name in NAMES:
        files = {path.name: path.read_bytes() for path in (folder / name).iterdir()}
        beside = {"README.md", "app.py", "requirements.txt", "tests.py"}
        assert files.keys() == beside | module_files(METRICS_DIR / name).keys()
        assert f'evaluate.load("{folder / name}")' in printed
        card = yaml.safe_load(files["README.md"].decode().split("---\n")[1])
        assert re.sub(r"\W", "_", card["title"].lower()) == name  # which the page loads
        assert (card["sdk"], card["sdk_version"], card["app_file"]) == ("gradio", GRADIO_VERSION, "app.py")
        assert 0 < len(card["short_description"]) <= 60  # what the Hub allows
        text = files["README.md"].decode()
        assert set(re.findall(r'evaluate\.load\("([^"]*)"', text)) == {f"ORG/{name}"}
        local = (METRICS_DIR / name / "README.md").read_text(encoding="utf-8")
        assert text.replace("ORG/", "").replace(f"sdk_version: {GRADIO_VERSION}\n", "") == local


@pytest.mark.parametrize("folder", FOLDERS, ids=NAMES)
def test_the_requirements_are_what_the_files_import(folder):
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = [*project["dependencies"], *(line for extra in project["optional-dependencies"].values() for line in extra)]
    bounds = {}
    for requirement in map(Requirement, lines):
        bounds.setdefault(requirement.name, str(requirement.specifier))
    files = space_files(folder, "ORG")
    own = {Path(path).stem for path in files}
    imported = set()
    for path, content in files.items():
        for node in ast.walk(ast.parse(content)) if path.endswith(".py") else ():
            if isinstance(node, ast.Import):
                imported |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                imported.add(node.module.split(".")[0])
            elif isinstance(node, ast.ImportFrom):
                assert node.module in own
    required = [Requirement(line) for line in files["requirements.txt"].decode().splitlines()]
    names = {requirement.name for requirement in required}
    assert imported - set(sys.stdlib_module_names) - {"gradio"} == names
    for requirement in required:
        assert str(requirement.specifier) == bounds.get(requirement.name, str(requirement.specifier))


# --- the page ---------------------------------------------------------------------------------------------------------


def test_the_page_shows_the_figures_of_its_example(dry_run, tmp_path, monkeypatch):
    folder = shutil.copytree(dry_run[0] / "full_gen_bias", tmp_path / "app")  # as a Space calls it
    monkeypatch.setattr(space_page, "FOLDER", folder)
    title = SpaceCard.load(folder / "README.md").data.title
    metric = space_page.load_metric(title)
    rows, settings = space_page.example(metric)
    with_empty = pd.concat([rows.astype(str), pd.DataFrame([dict.fromkeys(rows, "")])])
    message, figures = space_page.compute(title, with_empty, json.dumps(settings))
    case = runpy.run_path(str(folder / "tests.py"))["test_cases"][0]
    del case["result"]
    assert figures == space_page.figures_of(metric.compute(**case))
    assert re.match(r"## [a-z /A-Z]+: .*\d", message)
    assert f"From {len(rows)} rows." in message


def test_the_page_says_why_nothing_is_computed(dry_run, monkeypatch):
    monkeypatch.setattr(space_page, "FOLDER", dry_run[0] / "full_gen_bias")
    rows, _ = space_page.example(space_page.load_metric("Full Gen Bias"))
    for change, settings, message in (
        ({"Happy": ["0.8", "x", "0.3", "0.1"]}, "", "could not convert string to float"),
        ({}, '{"scal": 1}', "scal"),
        ({"descriptors": ["<img src=x>"] + [""] * 3}, "", "descriptor in row 1 is None"),
    ):
        shown, figures = space_page.compute("Full Gen Bias", rows.assign(**change), settings)
        assert shown.startswith("## Not computed")
        assert message in shown
        assert "<img" not in shown
        assert figures == []


# --- publishing -------------------------------------------------------------------------------------------------------


def test_published_metrics_load_where_nothing_of_ours_can_be_imported(dry_run, maintainer, tmp_path, capsys):
    main(["--org", "ORG"])
    printed = capsys.readouterr().out
    assert f"space ORG/full_gen_bias: published as {maintainer.url}/spaces/ORG/full_gen_bias/commit/" in printed
    assert 'evaluate.load("ORG/full_gen_bias")' in printed
    folders = [dry_run[0] / name for name in NAMES]
    code = WITHOUT_OURS + COMPUTE_ALL
    computed = json.loads(run_python("-I", "-B", "-c", code, *folders, folder=tmp_path, **maintainer.environment()))
    for name, cases in computed.items():
        assert cases, name
        for expected, result in cases:
            assert expected
            assert_close({key: result[key] for key in expected}, expected)


@pytest.mark.parametrize("owner", ["a/b", "bad owner", ""])
def test_an_owner_that_the_hub_would_reject_is_named(owner, tmp_path, capsys):
    with pytest.raises(SystemExit):
        main(["--org", owner, "--dry_run", str(tmp_path / "new")])
    assert f"--org: Repo id must {'be' if '/' in owner else 'use'}" in capsys.readouterr().err
