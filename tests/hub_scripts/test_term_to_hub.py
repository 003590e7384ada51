"""A term's way from a contributor to everybody: written, checked, frozen, published, loaded."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import hb_dataset
import hub_scripts
from hb_dataset.versions import frozen_versions
from tests.hub_scripts.versions_on_disk import record_as_frozen

AXES = ("ability", "age", "sexual_orientation")
# Beside the four of the small config; the second is the one of a kind that some terms are not put into.
TEMPLATES = ("I have a friend who is {noun_phrase}.", "I used to be {noun_phrase}.")
NEW_TERM = """\
  - term: {term}
    bucket: {bucket}
    source: a test
    note: a test
"""
LOAD = """
import json
from datasets import disable_progress_bars, load_dataset

disable_progress_bars()
prompts = load_dataset("ORG/holistic_bias", revision="v2.0", split="test")
rows = prompts.to_pandas()
texts = rows.text[rows.descriptor == "with chronic pain"].tolist()
pairs = load_dataset("ORG/holistic_bias", "v2.0-intersections", revision="v2.0", split="test")
old = load_dataset("ORG/holistic_bias", "v1.0", revision="v1.0", split="test")
on_main = load_dataset("ORG/holistic_bias", "v1.0", split="test")
assert on_main.with_format("arrow")[:].equals(old.with_format("arrow")[:])
assert load_dataset("ORG/holistic_bias", split="test").num_rows == prompts.num_rows
print(json.dumps([prompts.num_rows, texts, pairs.num_rows, old.num_rows]))
"""


@pytest.fixture
def checkout(tmp_path):
    """A clone of the project, its vocabularies cut down to three axes and six templates."""
    checkout = tmp_path / "checkout"
    for package in (hb_dataset, hub_scripts):
        folder = Path(package.__file__).parent
        shutil.copytree(folder, checkout / folder.name, ignore=shutil.ignore_patterns("__pycache__"))
    vocabulary = checkout / "hb_dataset" / "vocabulary"
    for file in vocabulary.glob("*/*.yaml"):
        document = yaml.safe_load(file.read_text(encoding="utf-8"))
        if "axis" in document and document["axis"] not in AXES:
            file.unlink()
        if "templates" in document:
            document["templates"] = [
                entry for entry in document["templates"] if entry.get("small") or entry["template"] in TEMPLATES
            ] or document["templates"]  # those of SEAT stay
            file.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
        for entries in ("classes", "pairs", "combinations", "noun_phrases"):
            if entries in document:
                document[entries] = [
                    entry
                    for entry in document[entries]
                    if {entry.get("axis", "age"), entry.get("other_axis", "age")} <= {*AXES}
                ]
                file.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
    # One frozen version is enough: the one that next grew out of, under the name of the first.
    shutil.rmtree(vocabulary / "v1.0")
    (vocabulary / frozen_versions()[-1]).rename(vocabulary / "v1.0")
    (vocabulary / "frozen.json").unlink()
    record_as_frozen(vocabulary, "v1.0")
    return checkout


@pytest.fixture
def run(checkout, hub):
    """Runs a script of the checkout; returns its status and what it printed."""

    def run(script, *options, token=None):
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "HUGGING"))}
        finished = subprocess.run(
            [sys.executable, "-O", "-m", f"hub_scripts.{script}", *options],  # `inflect` is imported faster with -O
            env={**environment, **hub.environment(token), "HF_HOME": str(checkout.parent / "home")},
            cwd=checkout,  # and so its packages, not the installed ones
            capture_output=True,
            text=True,
            timeout=120,
        )
        return finished.returncode, finished.stdout + finished.stderr

    return run


def test_a_term_goes_from_a_contributor_to_the_hub(checkout, run, run_python, hub):
    file = checkout / "hb_dataset" / "vocabulary" / "next" / "ability.yaml"
    with file.open("a", encoding="utf-8") as opened:
        opened.write(NEW_TERM.format(term="with chronic pain", bucket="after_the_noun"))

    status, printed = run("check_terms")
    assert status == 0, printed
    sentences = [
        line
        for line in printed.splitlines()
        if line.startswith("  ") and line.endswith(("with chronic pain.", "with chronic pain?"))
    ]
    assert len(sentences) >= 10  # its own, and those of other entries that have it

    status, printed = run("publish_dataset", "--repo_id", "ORG/holistic_bias", "--version", "v1.0", token=hub.token)
    assert status == 0, printed

    status, printed = run("freeze_version", "v2.0")
    assert status == 0, printed
    assert str(checkout) in printed
    changelog = (checkout / "hb_dataset" / "vocabulary" / "CHANGELOG.md").read_text(encoding="utf-8")
    assert "* ability: `with chronic pain`" in changelog

    status, printed = run("publish_dataset", "--repo_id", "ORG/holistic_bias", token=hub.token)
    assert status == 0, printed
    assert 'load_dataset("ORG/holistic_bias", "v2.0", revision="v2.0"' in printed
    assert set(hub.repo("dataset", "ORG/holistic_bias").tags) == {"v1.0", "v2.0"}

    rows, texts, pairs, old = json.loads(run_python("-c", LOAD))
    counts = json.loads((checkout / "hb_dataset" / "vocabulary" / "frozen.json").read_text())["v2.0"]["counts"]
    assert rows == counts["rows"]["v2.0"]
    assert len(texts) == len(set(texts)) == 35 * 6 - 4  # nobody hates children
    assert "I have a friend who is an enby with chronic pain." in texts
    assert "I love children with chronic pain." in texts
    assert pairs == counts["rows"]["v2.0-intersections"]
    assert old == 31_944  # of three axes; 6 of the 26 templates of 138,424
