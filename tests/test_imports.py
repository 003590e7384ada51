"""What may import what, and what must not be loaded just by importing us."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("hb_dataset", "hb_metrics", "hb_train", "hub_scripts")
SOURCES = sorted(path.relative_to(ROOT) for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
METRIC_FOLDERS = sorted(path.parent for path in SOURCES if path.stem == path.parent.name)


def modules_loaded_by(statement):
    code = f"import sys\n{statement}\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def imports_in(code, path):
    """The modules that a file imports anywhere in it, in full, each with whether it is a relative import."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, False) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            folder = path.parts[: -node.level] if node.level else ()
            base = ".".join([*folder, *filter(None, [node.module])])
            yield from ((f"{base}.{alias.name}", node.level > 0) for alias in node.names)


def imports_of(path):
    return set(imports_in((ROOT / path).read_text(encoding="utf-8"), path))


def importers_of(package, sources):
    return {path for path in sources for module, _ in imports_of(path) if module.split(".")[0] == package}


def within(*folder):
    return [path for path in SOURCES if path.parts[: len(folder)] == folder]


@pytest.mark.parametrize(
    ("module", "heavy"),
    [
        ("hb_metrics", {"torch", "evaluate", "datasets", "transformers", "pandas"}),
        ("hb_metrics.results", {"torch", "evaluate", "datasets", "transformers"}),
        ("hb_metrics.report", {"torch", "evaluate", "datasets", "transformers"}),
        ("hb_dataset", {"torch", "datasets", "transformers", "hb_metrics", "hub_scripts"}),
        ("hb_dataset.frequency", {"torch", "datasets", "transformers", "hb_metrics", "hub_scripts"}),
        ("hb_metrics.generation_results", {"torch", "evaluate", "datasets", "transformers"}),
        ("hb_train.bias_labels", {"torch", "evaluate", "datasets", "transformers", "trl"}),
        ("hb_train.tune", {"torch", "evaluate", "datasets", "transformers", "trl"}),
        ("hb_train.sweep", {"torch", "evaluate", "datasets", "transformers", "trl"}),
        ("hb_dataset.builder", {"torch", "transformers", "hb_metrics", "hub_scripts"}),
    ],
)
def test_importing_does_not_load(module, heavy):
    loaded = modules_loaded_by(f"import {module}")

    assert module in loaded
    assert loaded & heavy == set()


def test_the_sources_are_found():
    assert {path.parts[0] for path in SOURCES} >= {"hb_dataset", "hb_metrics", "hb_train", "hub_scripts"}
    assert Path("hb_metrics/likelihood_bias") in METRIC_FOLDERS


def test_imports_of_every_form_are_found():
    code = (
        "import a.b\ndef f():\n    from c import d\nif 1:\n    from . import e\nfrom ..g.h import i\nfrom .j import *"
    )

    found = dict(imports_in(code, Path("x/y/z.py")))

    assert found == {"a.b": False, "c.d": False, "x.y.e": True, "x.g.h.i": True, "x.y.j.*": True}


@pytest.mark.parametrize(
    ("package", "above"),
    [
        ("hb_dataset", ("hb_metrics", "hb_train", "hub_scripts")),
        ("hb_metrics", ("hb_train", "hub_scripts")),
        ("hb_train", ("hub_scripts",)),
    ],
)
def test_imports_go_in_one_direction(package, above):
    for other in above:
        assert importers_of(other, within(package)) == set()


@pytest.mark.parametrize("package", ["torch", "accelerate"])
def test_models_are_run_in_one_folder_of_hb_metrics_alone(package):
    inference = set(within("hb_metrics", "inference"))

    assert importers_of(package, within("hb_dataset") + within("hb_metrics") + within("hub_scripts")) <= inference


def test_the_rooms_of_hb_train_import_no_script_and_the_shared_one_none_of_the_others():
    scripts = {path.with_suffix("").parts for path in within("hb_train") if len(path.parts) == 2}
    rooms = {path.parts[:2] for path in within("hb_train") if len(path.parts) == 3}
    for path in (path for path in within("hb_train") if len(path.parts) == 3):
        imported = {tuple(module.split(".")[:2]) for module, _ in imports_of(path)}
        assert not imported & scripts, path
        assert path.parts[1] != "training" or imported & rooms <= {path.parts[:2]}, path


@pytest.mark.parametrize("folder", METRIC_FOLDERS, ids=lambda folder: folder.name)
def test_an_evaluate_module_imports_nothing_of_ours_but_the_files_beside_it(folder):
    # The folder is copied elsewhere, where its files have another package's name and nothing else of ours is there.
    for path in within(*folder.parts):
        for module, relative in imports_of(path):
            if relative:
                assert module.startswith(".".join(folder.parts) + "."), path
            else:
                assert module.split(".")[0] not in PACKAGES, path
