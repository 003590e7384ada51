import functools
import json
import re
import subprocess
import sys
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from hb_metrics.runs.run_folder import LAYOUT
from hub_scripts.command_line import COMMANDS, main

ROOT = Path(__file__).parents[2]
OUR_PACKAGES = ["hb_dataset", "hb_metrics", "hb_train"]
# What `pip install holistic-bias` without an extra does not install.
EXTRA_PACKAGES = [
    *("accelerate", "evaluate", "inflect", "jinja2", "plotly", "psutil", "scipy", "torch", "transformers", "trl"),
]
# Runs several commands in one process in which these packages cannot be imported, and prints how each ends.
WITHOUT_EXTRAS = """
import contextlib, io, sys
from hub_scripts import install_local
from hub_scripts.command_line import main

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


def run(*arguments, status=0):
    code = "from hub_scripts.command_line import main; main()"
    done = subprocess.run([sys.executable, "-c", code, *arguments], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == status, done.stderr
    return done


@pytest.fixture
def called(monkeypatch, capsys):
    """Runs the command in this process; returns its exit code and what it wrote."""
    monkeypatch.setattr(sys, "argv", ["holistic-bias"])

    def call(*arguments):
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        return ended.value.code, capsys.readouterr()

    return call


def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_pip_installs_the_command():
    entry = EntryPoint("holistic-bias", project()["scripts"]["holistic-bias"], "console_scripts")

    assert entry.load() is main


def test_help_lists_each_command_with_its_sentence(called):
    for option in ("--help", "-h"):
        status, written = called(option)
        assert status == 0
        for name, command in COMMANDS.items():
            assert command.sentence.endswith(".")
            assert f"  {name} " in written.out
            assert f"  {command.sentence}\n" in written.out


def test_help_of_publish_lists_what_can_be_published(called):
    status, written = called("publish", "--help")

    assert status == 0
    assert written.out.startswith("usage: holistic-bias publish COMMAND ")
    assert "`holistic-bias publish COMMAND --help` lists" in written.out
    listed = [line for line in written.out.splitlines() if line.startswith("  ")]
    assert [line.split()[0] for line in listed] == ["dataset", "metrics", "results"]


def test_help_imports_only_the_standard_library():
    code = """
import sys
from hub_scripts.command_line import main
try:
    main(["--help"])
finally:
    print(*sys.modules, file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = {name.split(".")[0] for name in done.stderr.split()}

    assert "usage: holistic-bias" in done.stdout
    assert loaded & {*OUR_PACKAGES, *EXTRA_PACKAGES, "numpy", "pandas", "pyarrow", "yaml", "datasets"} == set()


def test_help_of_a_command_is_that_of_its_script(called):
    an_option = {
        "measure": "--measurements",
        "export-prompts": "--sample",
        "human-eval export": "--raters_per_pair",
        "human-eval analyse": "--max_failed_checks",
        "convert-classifier": "--labels",
        "identity-leakage": "--style_classifier",
        "style-clusters": "--min_correlation",
        "report": "--names",
        "label": "--run_dir",
        "tune": "--dataset_name",
        "debias": "--method",
        "install": "load_dataset(",
        "check-terms": "--against",
        "lm-eval-path": "--vocabulary_dir",
        "publish dataset": "--version",
        "publish metrics": "--org",
        "publish results": "--same_model",
    }
    assert an_option.keys() == COMMANDS.keys()
    for name, option in an_option.items():
        status, written = called(*name.split(), "--help")
        assert (status, name) == (0, name)
        assert written.out.startswith(f"usage: holistic-bias {name} ")
        assert option in written.out


def test_without_a_command_the_help_is_an_error(called):
    for arguments in ([], ["publish"]):
        status, written = called(*arguments)
        assert status == 2
        assert written.out == ""
        assert "results  " in written.err


def test_an_unknown_command_is_refused_in_a_line(called):
    for arguments, expected in (
        (["mesure"], "there is no command 'mesure'; did you mean 'measure'? allowed: measure, export-prompts, "),
        (["check_terms"], "there is no command 'check_terms'; did you mean 'check-terms'? allowed: "),
        (["metrics"], "there is no command 'metrics'; did you mean 'publish metrics'? allowed: "),
        (["publish", "datset", "--help"], "'publish datset'; did you mean 'publish dataset'? allowed: publish dataset"),
        (["publish", "--org"], "there is no command 'publish --org'; allowed: publish dataset, publish metrics, "),
        (["--model", "measure"], "there is no command '--model'; allowed: measure"),
        ([""], "there is no command ''; allowed: measure"),
        (["a\nb"], r"there is no command 'a\nb'; allowed: measure"),
    ):
        status, written = called(*arguments)
        assert status == 2
        assert written.out == ""
        assert expected in written.err
        assert written.err.count("\n") == 1


def test_exit_codes_are_those_of_the_scripts(called, tmp_path):
    nowhere = str(tmp_path / "nowhere")
    assert called("check-terms", "--vocabulary", nowhere)[0] == 2  # the script's own: the check could not be made
    assert called("install", "--nonsense")[0] == 2
    assert called("report", nowhere)[0].startswith("holistic-bias report: ")  # with a message Python exits with 1

    assert run("report", nowhere, status=1).stderr.startswith("holistic-bias report: ")
    dry_run = ["--org", "ORG", "--metrics", "offensiveness", "--dry_run", str(tmp_path / "spaces")]
    assert 'evaluate.load("' in run("publish", "metrics", *dry_run).stdout
    assert (tmp_path / "spaces" / "offensiveness" / "app.py").is_file()


def test_a_missing_extra_is_named_with_the_command_that_installs_it(tmp_path):
    run = {"layout": {"version": LAYOUT}, "settings": {}, "data": {"config": "v1.0-small"}}
    (tmp_path / "run.json").write_text(json.dumps(run), encoding="utf-8")
    (tmp_path / "results.json").write_text(json.dumps({"run": run, "generation": {}}), encoding="utf-8")
    later = {  # than their help
        "install": "",
        "check-terms": "--against hb_dataset/vocabulary/v1.0",
        "convert-classifier": f"{tmp_path} --output_dir {tmp_path}/converted",
        "publish results": f"{tmp_path} --repo_id a/b",
    }
    to_script = {**dict.fromkeys(COMMANDS, "--help"), **later}
    commands = {f"{name} {options}".strip(): name for name, options in to_script.items()}
    code = [sys.executable, "-c", WITHOUT_EXTRAS, " ".join(EXTRA_PACKAGES), *commands]
    done = subprocess.run(code, cwd=ROOT, capture_output=True, text=True, check=True)

    ends = dict(line.split(" → ") for line in done.stdout.splitlines())
    assert ends.keys() == commands.keys()
    for line, name in commands.items():
        if COMMANDS[name].extras:
            text = rf"2 holistic-bias: {name} needs the package '(\w+)', which is not installed; run "
            match = re.match(text, ends[line])
            assert match, ends[line]
            assert match[1] in EXTRA_PACKAGES
            assert ends[line][match.end() :] == f"pip install 'holistic-bias[{COMMANDS[name].extras}]'"
        else:
            assert ends[line].startswith(f"0 usage: holistic-bias {name} ")


def test_no_extra_is_named_for_a_package_that_none_installs(called, monkeypatch):
    def fail(error):
        raise SystemExit("measure.py: it failed") from error

    for error in (
        ModuleNotFoundError("No module named 'a_package'", name="a_package"),  # of a model's own code
        ModuleNotFoundError("the embedded model is not installed; …"),
        ImportError("cannot import name 'x' from 'torch'", name="torch"),
        ValueError("axis 'abilty' is not in v1.0"),
        None,
    ):
        monkeypatch.setattr("hb_metrics.measure.main", functools.partial(fail, error))
        assert called("measure") == ("holistic-bias measure: it failed", ("", ""))
    torch = ModuleNotFoundError("No module named 'torch.nn'", name="torch.nn")
    monkeypatch.setattr("hb_metrics.measure.main", functools.partial(fail, torch))
    status, written = called("measure")
    assert status == 2
    assert "needs the package 'torch'" in written.err


def test_the_extras_that_are_named_exist():
    for command in COMMANDS.values():
        assert set(filter(None, command.extras.split(","))) <= project()["optional-dependencies"].keys()
