import re
import subprocess
import sys
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from hb_cli.main import COMMANDS, main

ROOT = Path(__file__).parents[2]
OUR_PACKAGES = ["hb_dataset", "hb_metrics", "hb_train", "hub_scripts"]
# What `pip install holistic-bias` without an extra does not install.
EXTRA_PACKAGES = [*("accelerate", "evaluate", "jinja2", "psutil", "scipy", "torch", "transformers", "trl")]
# Runs several commands in one process in which these packages cannot be imported, and prints how each ends.
WITHOUT_EXTRAS = """
import contextlib, io, sys
from hub_scripts import install_local
from hb_cli.main import main

missing, *commands = sys.argv[1:]
install_local.install_dataset = lambda: "here"

class Missing:
    def find_spec(name, path=None, target=None):
        if name in missing.split():
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing)
for command in commands:
    output, errors, status = io.StringIO(), io.StringIO(), 0
    try:
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
            main(command.split())
    except SystemExit as ended:
        status = ended.code
    print(command, f"{status} {errors.getvalue() or output.getvalue()}".splitlines()[0], sep=" → ")
"""


@pytest.fixture
def called(monkeypatch, capsys):
    """Runs the command in this process; returns its exit code and what it wrote."""
    monkeypatch.setattr(sys, "argv", ["holistic-bias"])

    def call(*arguments):
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        return ended.value.code, capsys.readouterr()

    return call


def test_pip_installs_the_command():
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["scripts"]
    assert EntryPoint("holistic-bias", scripts["holistic-bias"], "console_scripts").load() is main


@pytest.mark.parametrize("group", [[], ["publish"], ["human-eval"]])
def test_help_lists_each_command(called, group):
    status, written = called(*group, "--help")
    assert status == 0
    for name, command in COMMANDS.items():
        if name.split()[: len(group)] == group:
            last = re.escape(" ".join(name.split()[len(group) :]))
            assert re.search(rf"^  {last} +{re.escape(command.sentence)}$", written.out, re.MULTILINE)
    assert called(*group) == (2, ("", written.out))  # no command: the same, as an error


def test_help_imports_only_the_standard_library():
    code = """
import sys
from hb_cli.main import main
try:
    main(["--help"])
finally:
    print(*sys.modules, file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = {name.split(".")[0] for name in done.stderr.split()}
    assert "usage: holistic-bias" in done.stdout
    assert loaded & {*OUR_PACKAGES, *EXTRA_PACKAGES, "numpy", "pandas", "pyarrow", "yaml", "datasets"} == set()


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_a_command_is_its_scripts(called, name):
    status, written = called(*name.split(), "--help")
    assert status == 0
    assert written.out.startswith(f"usage: holistic-bias {name} ")


def test_an_unknown_command_is_refused_in_a_line(called):
    for arguments, expected in (
        (["mesure"], "did you mean 'measure'? allowed: measure, analyse, export-prompts, "),
        (["check_terms"], "did you mean 'check-terms'? "),
        (["publish", "datset", "--help"], "did you mean 'publish dataset'? allowed: publish dataset"),
        (
            ["publish", "--org"],
            "the command 'publish --org' does not exist; allowed: publish dataset, publish metrics, ",
        ),
        (["a\nb"], r"the command 'a\nb' does not exist; allowed: measure"),
    ):
        status, written = called(*arguments)
        assert (status, written.out) == (2, "")
        assert expected in written.err
        assert written.err.count("\n") == 1


def test_a_missing_extra_is_named_with_its_installation():
    given = {"install": ""}  # its help needs no extra
    commands = {f"{name} {given.get(name, '--help')}".strip(): name for name in COMMANDS}
    code = [sys.executable, "-c", WITHOUT_EXTRAS, " ".join(EXTRA_PACKAGES), *commands]
    done = subprocess.run(code, cwd=ROOT, capture_output=True, text=True, check=True)
    ends = dict(line.split(" → ") for line in done.stdout.splitlines())
    assert ends.keys() == commands.keys()
    refused = set()
    for line, name in commands.items():
        if not ends[line].startswith(f"0 usage: holistic-bias {name} "):
            command = re.escape(f"pip install 'holistic-bias[{COMMANDS[name].extras}]'")
            packages = "|".join(EXTRA_PACKAGES)
            assert re.fullmatch(rf"2 .* {name} needs the package '({packages})', .*; run {command}", ends[line])
            refused.add(name)
    assert {"tune", "install"} <= refused
    assert not refused & {"publish dataset", "publish metrics"}
