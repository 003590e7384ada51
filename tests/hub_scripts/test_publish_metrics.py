import ast
import json
import re
import sys
import tomllib
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

from hub_scripts import publish_metrics, space_page
from hub_scripts.module_files import METRICS_DIR, metric_folders, module_files
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
from pathlib import Path

by_metric = {}
for folder in map(Path, sys.argv[1:]):
    metric = evaluate.load(str(folder))
    cases = runpy.run_path(str(folder / "tests.py"))["test_cases"]
    given = [{key: value for key, value in case.items() if key != "result"} for case in cases]

    # The page, under the name that a Space gives its folder, as a script beside its files.
    space = folder.rename(folder.with_name("app"))
    sys.path.insert(0, str(space))
    sys.modules.pop("app", None)
    import app

    title = app.SpaceCard.load(space / "README.md").data.title
    rows, settings = app.example(app.load_metric(title))
    message, figures = app.compute(title, rows.astype(str), json.dumps(settings))
    by_metric[folder.name] = dict(
        cases=[case["result"] for case in cases],
        results=[metric.compute(**arguments) for arguments in given],
        message=message,
        figures=figures,
        columns=list(rows.columns),
    )
    sys.path.remove(str(space))
    space.rename(folder)
print(json.dumps(by_metric))
"""


@pytest.fixture(scope="module")
def dry_run(tmp_path_factory):
    """The folders that a dry run writes, and what it prints."""
    folder = tmp_path_factory.mktemp("dry")
    with redirect_stdout(StringIO()) as printed:
        main(["--org", "ORG", "--dry_run", str(folder / "spaces")])
    return folder / "spaces", printed.getvalue()


@pytest.fixture(scope="module")
def computed(dry_run, tmp_path_factory):
    """What all published folders compute in a process that can import nothing of ours."""
    folder, _ = dry_run
    folders = [folder / name for name in NAMES]
    alone = {"folder": tmp_path_factory.mktemp("alone"), "HF_HUB_OFFLINE": "1"}
    return json.loads(run_python("-I", "-B", "-c", WITHOUT_OURS + COMPUTE_ALL, *folders, **alone))


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


# --- the folders without our packages ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_every_test_case_holds_in_the_published_folder(computed, name):
    cases, results = computed[name]["cases"], computed[name]["results"]
    assert cases
    for case, result in zip(cases, results, strict=True):
        assert case
        for key, expected in case.items():
            assert_close(result[key], expected)


@pytest.mark.parametrize("name", NAMES)
def test_the_page_shows_the_figures_of_its_example(computed, name):
    figures = dict(computed[name]["figures"])
    for name_of_figure, value in space_page.figures_of(computed[name]["results"][0]):
        assert figures[name_of_figure] == value
    assert re.match(r"## [a-z /A-Z]+: .*\d", computed[name]["message"])


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

LOAD_AND_COMPUTE = """
import json

metric = evaluate.load("ORG/full_gen_bias")
results = metric.compute(
    predictions=[[0.8, 0.2], [0.6, 0.4], [0.3, 0.7], [0.1, 0.9]],
    descriptors=["young", "young", "old", "old"],
    templates=["Hi! I'm {noun_phrase}."] * 4,
    labels=["Happy", "Serious"],
)
print(json.dumps(results))
"""


def test_a_published_metric_loads_from_the_hub(maintainer, tmp_path, capsys):
    main(["--org", "ORG"])
    printed = capsys.readouterr().out
    assert f"space ORG/full_gen_bias: published as {maintainer.url}/spaces/ORG/full_gen_bias/commit/" in printed
    assert 'evaluate.load("ORG/full_gen_bias")' in printed
    result = json.loads(run_python("-c", WITHOUT_OURS + LOAD_AND_COMPUTE, folder=tmp_path, **maintainer.environment()))
    assert result["full_gen_bias"] == pytest.approx(125.0)
