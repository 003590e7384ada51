"""What may import what, and what must not be loaded just by importing us."""

import ast
import subprocess
import sys
from functools import cache
from graphlib import TopologicalSorter
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from hb_cli.main import our_requirements

ROOT = Path(__file__).parent.parent
PACKAGES = ("hb_dataset", "hb_metrics", "hb_train", "hub_scripts", "hb_cli")  # each may import those before it
SOURCES = sorted(path.relative_to(ROOT) for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
COMPUTED = sorted(path for path in SOURCES if path.match("measurements/*/compute.py"))
METRIC_FOLDERS = sorted(path.parent for path in SOURCES if path.stem == path.parent.name)


# What importing a module must not load. They are imported one after the other in one process, so that what one loads
# counts against those after it too.
NOT_LOADED = {
    "hb_dataset": {"torch", "datasets", "transformers", "hb_metrics", "hub_scripts"},
    "hb_metrics": {"torch", "evaluate", "datasets", "transformers", "pandas"},
    # Help, and publishing the dataset, need no packages for results and reports.
    "hb_metrics.measurements": {"torch", "evaluate", "datasets", "transformers", "jinja2", "scipy", "pandas"},
    "hb_metrics.report.comparison": {"torch", "evaluate", "datasets", "transformers"},
    "hb_metrics.run.tables": {"torch", "evaluate", "datasets", "transformers"},
    "hub_scripts.publish_results": {"torch", "evaluate", "datasets", "transformers"},
    "hb_train": {"torch", "evaluate", "datasets", "transformers", "trl"},
    "hb_metrics.command.planning": {"torch", "evaluate", "datasets"},
    # A run's results are computed without its model.
    **{f"hb_metrics.measurements.{path.parent.name}.compute": {"torch"} for path in COMPUTED},
}


def loaded_after_each(modules):
    """What is loaded after each of the modules, imported in this order in a new process."""
    code = "".join(f"import {module}\nprint(*sys.modules)\n" for module in modules)
    done = subprocess.run(
        [sys.executable, "-c", f"import sys\n{code}"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return [set(line.split()) for line in done.stdout.splitlines()]


@cache
def imports_of(path):
    """The modules that a file imports anywhere in it, in full, each with whether it is a relative import."""
    imported = set()
    for node in ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            imported |= {(alias.name, False) for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            folder = path.parts[: -node.level] if node.level else ()
            base = ".".join([*folder, *filter(None, [node.module])])
            imported |= {(f"{base}.{alias.name}", node.level > 0) for alias in node.names}
    return imported


def importers_of(package, sources):
    return {path for path in sources for module, _ in imports_of(path) if module.split(".")[0] == package}


def module_of(path):
    """The module that a file is, such as `hb_dataset.prompts`; of an `__init__.py` its package."""
    return ".".join(path.parts[:-1] if path.stem == "__init__" else path.with_suffix("").parts)


def room_of(module):
    """The folder of `hb_metrics` that a module is in; a file beside the rooms is above them all."""
    parts = PATHS[module].parts
    return parts[1] if len(parts) > 2 else "."


def imported_modules(path):
    """Our own modules that a file imports, also in functions and for type checking only, without itself."""
    for name, _ in imports_of(path):
        while name not in PATHS and "." in name:  # a function's name is not part of its module's
            name = name.rpartition(".")[0]
        if name in PATHS and name != module_of(path):
            yield name


def check_no_circle(edges):
    """Raises CycleError with the nodes on the way round a circle of the directed edges."""
    sorter = TopologicalSorter()
    for importer, imported in edges:
        sorter.add(importer, imported)
    sorter.prepare()


def within(*folder):
    return [path for path in SOURCES if path.parts[: len(folder)] == folder]


PATHS = {module_of(path): path for path in SOURCES}
# The rooms of hb_metrics from the ground up: each may import those before it. Metrics have rooms of their own.
ROOMS = [
    *("stats", "run", "reply_checks", "models", "collect"),
    *("layout", "measurements", "human_eval", "report", "command"),
]


@cache
def our_imports():
    """Which of our modules imports which."""
    return {(module_of(path), imported) for path in SOURCES for imported in imported_modules(path)}


def test_importing_does_not_load_what_takes_long():
    for (module, heavy), loaded in zip(NOT_LOADED.items(), loaded_after_each(NOT_LOADED), strict=True):
        assert module in loaded
        assert loaded & heavy == set(), module


def test_imports_go_in_one_direction():
    for index, package in enumerate(PACKAGES):
        for above in PACKAGES[index + 1 :]:
            assert importers_of(above, within(package)) == set()


def test_no_modules_import_each_other_in_a_circle():
    assert len(our_imports()) > 200
    check_no_circle(our_imports())


def test_rooms_import_what_lies_below_them():
    ours = [pair for pair in our_imports() if all(module.startswith("hb_metrics.") for module in pair)]
    rooms = {(room_of(importer), room_of(imported)) for importer, imported in ours}
    order = list(zip(ROOMS[1:], ROOMS, strict=False))  # the circle that a wrong import would close

    assert ("collect", "models") in rooms
    check_no_circle([(importer, imported) for importer, imported in [*rooms, *order] if importer != imported])


def test_nothing_hides_the_standard_library():
    # A script that is started by its path finds what lies beside it before the standard library.
    assert [path for path in SOURCES if Path(path.parts[1]).stem in sys.stdlib_module_names] == []


@pytest.mark.parametrize("package", ["torch", "accelerate"])
def test_only_two_rooms_of_hb_metrics_run_models(package):
    rooms = {*within("hb_metrics", "models"), *within("hb_metrics", "collect")}

    assert importers_of(package, within("hb_dataset") + within("hb_metrics") + within("hub_scripts")) <= rooms


@pytest.mark.parametrize("folder", METRIC_FOLDERS, ids=lambda folder: folder.name)
def test_metric_imports_only_own_and_shared_files(folder):
    # Installing and publishing copy these files, and nothing else of ours, into one folder.
    own, shared = ".".join(folder.parts), "hb_metrics.stats"
    for path in [*within(*folder.parts), *within("hb_metrics", "stats")]:
        for module, relative in imports_of(path):
            assert not relative, path
            if module.split(".")[0] in PACKAGES:
                assert module.startswith((f"{own}.", f"{shared}.")), path


def test_every_package_that_is_imported_is_a_requirement():
    """Otherwise, `holistic-bias` could not name the extra that installs it."""
    imported = {name.partition(".")[0] for path in SOURCES for name, is_relative in imports_of(path) if not is_relative}
    others = imported - set(sys.stdlib_module_names) - {*PACKAGES, "holistic_bias"}
    # These come with the package on the right, without which the code that imports them does not run.
    with_others = {"anyio": "inspect_ai", "httpx": "huggingface_hub", "httpx2": "huggingface_hub"}
    with_others |= {"sklearn": "alt_profanity_check", "tokenizers": "transformers", "gradio": "evaluate"}
    installed = packages_distributions()
    named = {name: with_others.get(name) or installed.get(name, [name])[0].replace("-", "_").lower() for name in others}
    assert not {name for name, package in named.items() if package not in our_requirements()}
    assert with_others.keys() <= imported
