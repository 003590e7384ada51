"""How a tuned model's folder says that it must be asked, and what is made of it."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import huggingface_hub.constants
import pytest

from hb_metrics.inference.models import bias_tags as module
from hb_metrics.inference.models.bias_tags import (
    BIAS,
    NO_BIAS,
    TUNING_FILE,
    BiasTuning,
    choose_tag,
    read_bias_tuning,
    write_bias_tuning,
)

TUNING = BiasTuning(
    tag=NO_BIAS,
    context="chat",
    alpha=1,
    beta=0.1 + 0.2,  # not exact in decimal
    labels={"model": {"name": "ä", "digest": "x"}, "by_tag": {"bias": 1, "no_bias": 2}},
    training={"method": "sft", "curve": [{"step": 1, "perplexity": 1 / 3}], "best_step": None},
)


@pytest.mark.parametrize("tag", [NO_BIAS, BIAS, None])
@pytest.mark.parametrize("context", ["plain", "dialogpt", "chat", "blenderbot"])
def test_what_is_written_is_read(tag, context, tmp_path):
    tuning = replace(TUNING, tag=tag, context=context)
    write_bias_tuning(tmp_path, tuning)
    assert read_bias_tuning(str(tmp_path)) == tuning
    assert [path.name for path in tmp_path.iterdir()] == [TUNING_FILE]
    assert json.loads((tmp_path / TUNING_FILE).read_text(encoding="utf-8"))["place"] == module.POSITION


def test_a_model_that_was_not_tuned_says_nothing(tmp_path):
    assert read_bias_tuning(str(tmp_path)) is None


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"{", "Expecting property name"),
        (b"\xff\xfe", "can't decode byte"),
        (b"[]", "must be a mapping, not list"),
        (b"{}", "missing 6 required keyword-only arguments"),
        ({"tag": "nobias"}, "tag 'nobias', context 'chat'"),
        ({"tag": ["bias"]}, "tag ['bias'], context 'chat'"),
        ({"context": None}, "tag 'no_bias', context None"),
        ({"training": []}, "training []"),
    ],
)
def test_a_file_that_says_something_else_is_refused(content, problem, tmp_path):
    path = tmp_path / TUNING_FILE
    if isinstance(content, dict):
        write_bias_tuning(tmp_path, TUNING)
        content = json.dumps({**json.loads(path.read_bytes()), **content}).encode()
    path.write_bytes(content)
    with pytest.raises(ValueError, match=f"{re.escape(str(path))}.*{re.escape(problem)}.*--tag"):
        read_bias_tuning(str(tmp_path))


@pytest.mark.parametrize(
    ("asked", "tuning", "tag", "why"),
    [
        ("auto", None, None, "the model has no record of a tuning with tags"),
        ("auto", replace(TUNING, tag=None), None, "the model was tuned without tags"),
        ("auto", TUNING, "no_bias", "the model was tuned with it"),
        ("auto", replace(TUNING, tag="bias"), "bias", "the model was tuned with it"),
        *(
            (asked, tuning, None if asked == "none" else asked, f"--tag {asked} was given")
            for asked in ("bias", "no_bias", "none")
            for tuning in (None, replace(TUNING, tag=None), TUNING)
        ),
    ],
)
def test_the_tag_is_the_one_asked_for_or_the_models_own(asked, tuning, tag, why):
    assert choose_tag(asked, tuning) == (tag, why)


@pytest.fixture
def on_the_hub():
    """The id of a model of the Hub, with and without the file in two commits, as downloads would have left it."""
    name, with_file, without = f"model-{uuid4().hex}", "a" * 40, "b" * 40
    repository = Path(huggingface_hub.constants.HF_HUB_CACHE) / f"models--tests--{name}"
    try:
        for commit in (with_file, without):
            (repository / "snapshots" / commit).mkdir(parents=True)
            (repository / "snapshots" / commit / "config.json").write_text("{}")
        write_bias_tuning(repository / "snapshots" / with_file, TUNING)
        # What the hub's client leaves of a file that it asked for and that was not there.
        (repository / ".no_exist" / without).mkdir(parents=True)
        (repository / ".no_exist" / without / TUNING_FILE).touch()
        (repository / "refs").mkdir()
        yield f"tests/{name}", repository, with_file, without
    finally:
        shutil.rmtree(repository)


def test_a_model_of_the_hub_is_asked_as_its_revision_says(on_the_hub):
    name, repository, with_file, without = on_the_hub
    assert read_bias_tuning(name, with_file) == TUNING
    assert read_bias_tuning(name, without) is None
    for commit, expected in ((with_file, TUNING), (without, None)):
        (repository / "refs" / "main").write_text(commit)
        assert read_bias_tuning(name) == read_bias_tuning(name, "main") == expected
