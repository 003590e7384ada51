"""The workflows that meet pull requests from anyone, and what their scripts do."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from hb_dataset.versions import NEXT
from hb_dataset.vocabulary import VOCABULARIES
from tests.hub_scripts.versions_on_disk import copy_small

GITHUB = Path(__file__).parents[3] / ".github"
ROOT = GITHUB.parent
WORKFLOWS = {
    path.name: yaml.load(path.read_text(encoding="utf-8"), yaml.BaseLoader) for path in GITHUB.rglob("workflows/*.yml")
}
TERMS = WORKFLOWS["terms.yml"]
SHA = "0123456789abcdef" * 2 + "01234567"
SUMMARY = "The report is in the summary of this run.\n"
BASH = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c"]  # as `shell: bash` of a workflow


def steps_of(workflow):
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


def step(workflow, name):
    (named,) = [item for item in steps_of(workflow) if item.get("name") == name]
    return named


def texts(value):
    """Every text in a workflow, with its keys before it."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from ((f"{key}.{where}".rstrip("."), text) for where, text in texts(item))
    elif isinstance(value, list):
        for item in value:
            yield from texts(item)
    else:
        yield "", value


@pytest.mark.parametrize("workflow", WORKFLOWS.values(), ids=WORKFLOWS)
def test_a_pull_request_gets_no_rights_token_or_secret(workflow):
    assert "pull_request_target" not in workflow["on"]
    for where, text in texts(workflow):
        assert "secrets" not in text or where.endswith("run"), where
        assert "github.token" not in text, where
    for item in steps_of(workflow):
        assert "${{" not in item.get("run", "")  # what GitHub puts in its place becomes part of the script
        assert re.fullmatch(r"actions/[a-z-]+@[0-9a-f]{40}", item.get("uses", f"actions/x@{SHA}"))
        if item.get("uses", "").startswith("actions/checkout@"):
            assert item["with"]["persist-credentials"] == "false"


# --- terms.yml --------------------------------------------------------------------------------------------------------


def test_the_check_s_code_is_the_base_s_and_the_pull_request_s_files_are_data():
    proposed, base = [item["with"] for item in steps_of(TERMS) if item.get("uses", "").startswith("actions/checkout@")]
    assert (TERMS["permissions"], TERMS["jobs"]["check"]["permissions"]) == ({}, {"contents": "read"})
    assert proposed["sparse-checkout"].split() == ["/hb_dataset/LICENSE", "/hb_dataset/vocabulary/"]
    assert (base["path"], base["ref"]) == ("base", "${{ steps.base.outputs.commit }}")
    assert step(TERMS, "Install what the check needs")["run"] == "python -m pip install --quiet ./base"
    assert step(TERMS, "Check the terms")["working-directory"] == "base"


@pytest.fixture
def checkouts(tmp_path):
    """The two checkouts of terms.yml; the base's is this one. Few terms are proposed, which takes less time."""
    (tmp_path / "base").symlink_to(ROOT)
    vocabulary = tmp_path / "proposed" / "hb_dataset" / "vocabulary"
    shutil.copytree(VOCABULARIES, vocabulary, ignore=shutil.ignore_patterns(NEXT))
    copy_small(NEXT, vocabulary / NEXT)
    shutil.copy(ROOT / "hb_dataset" / "LICENSE", tmp_path / "proposed" / "hb_dataset")
    # Code of the pull request, which must not run.
    (tmp_path / "proposed" / "hb_dataset" / "__init__.py").write_text("raise SystemExit('ran')", encoding="utf-8")
    return tmp_path


def run_check(checkouts):
    """Runs the script as a workflow does. The base is a link here, so that `..` is another folder for some programs."""
    script = step(TERMS, "Check the terms")["run"].replace("../", f"{checkouts}/")
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    env = {"PATH": path, "GITHUB_STEP_SUMMARY": str(checkouts / "summary.md"), "LANG": "C.UTF-8"}
    done = subprocess.run([*BASH, script], cwd=checkouts / "base", env=env, capture_output=True, text=True, check=False)
    return done, (checkouts / "terms.txt").read_text(encoding="utf-8")


def test_the_check_reports_in_a_file_and_in_the_summary_and_prints_none_of_it(checkouts):
    path = checkouts / "proposed" / "hb_dataset" / "vocabulary" / "next" / "age.yaml"
    entry = "  - term: with chronic pain\n    bucket: after_the_noun\n    source: Doe (2024)\n"
    path.write_text(path.read_text(encoding="utf-8") + entry, encoding="utf-8")
    done, report = run_check(checkouts)
    assert (done.returncode, done.stdout, done.stderr) == (0, SUMMARY, "")
    assert "Compared with hb_dataset/vocabulary/next: 1 added, " in report
    assert "\n  term with chronic pain:\n    " in report
    summary = (checkouts / "summary.md").read_text(encoding="utf-8")
    assert summary == "".join(f"    {line}\n" for line in report.splitlines())  # a block of code


def test_a_link_is_refused_before_it_is_followed(checkouts):
    path = checkouts / "proposed" / "hb_dataset"
    shutil.rmtree(path)
    path.symlink_to(ROOT / "hb_dataset")
    done, report = run_check(checkouts)
    assert (done.returncode, done.stdout) == (1, SUMMARY)
    assert report.startswith("The vocabulary holds a link.")


def test_a_check_that_cannot_be_made_fails_and_its_error_is_no_command_to_the_runner(checkouts):
    shutil.rmtree(checkouts / "proposed" / "hb_dataset" / "vocabulary" / "next")
    done, report = run_check(checkouts)
    first, stop, *error, go = done.stdout.splitlines()
    assert f"{first}\n" == SUMMARY
    assert done.returncode == 2
    assert re.fullmatch("::stop-commands::[0-9a-f]{32}", stop)
    assert go == f"::{stop.rpartition('::')[2]}::"
    assert "set --vocabulary to an existing folder" in error[0]
    assert report == "The check could not be made; the run's log says why.\n"
