"""How a tuned model's folder says that it must be asked, and what is made of it."""

import json
import re
from dataclasses import asdict, replace
from types import SimpleNamespace

import pytest

from hb_metrics.models.chats import ChatOptions
from hb_metrics.models.layout import (
    ASKED_WITH,
    NO_BIAS,
    TUNING_FILE,
    BiasTuning,
    choose_layout,
    choose_tag,
    read_bias_tuning,
)
from hb_metrics.models.sources import Adapter
from hb_metrics.run.run_folder import write_json

TUNING = BiasTuning(
    tag=NO_BIAS,
    context="chat",
    alpha=1,
    beta=0.1 + 0.2,  # not exact in decimal
    labels={"model": {"name": "ä", "digest": "x"}, "by_tag": {"bias": 1, "no_bias": 2}},
    training={"method": "sft", "curve": [{"step": 1, "perplexity": 1 / 3}], "best_step": None},
)


@pytest.mark.parametrize("tag", [NO_BIAS, None])
def test_what_is_written_is_read(tag, tmp_path):
    tuning = replace(TUNING, tag=tag)
    assert read_bias_tuning(str(tmp_path)) is None
    write_json(tmp_path / TUNING_FILE, asdict(tuning))
    assert read_bias_tuning(str(tmp_path)) == tuning


def test_an_adapter_of_a_tuned_model_is_asked_as_that_model_unless_it_was_tuned_itself(tmp_path):
    base, added = (tmp_path / name for name in ("base", "adapter"))
    for folder in (base, added):
        folder.mkdir()
    adapter = Adapter(name=str(added), revision=None, digest="", trained_on=str(base))
    loaded = SimpleNamespace(source=str(base), revision=None, adapter=adapter)
    tags = []
    for folder, tag in ((base, NO_BIAS), (added, None)):
        write_json(folder / TUNING_FILE, asdict(replace(TUNING, tag=tag, context="plain")))
        tags.append(choose_layout(loaded, context="auto", tag="auto").tag)
    assert tags == [NO_BIAS, None]


def test_a_chat_is_described_by_the_options_that_are_recorded():
    """A date that the template prints is no option, so a model card must not tell readers to set it."""
    assert {*ChatOptions().description(), "cue"} == {*ASKED_WITH}


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"{", "Expecting property name"),
        (b"{}", "missing 6 required keyword-only arguments"),
        ({"tag": "nobias"}, "tag 'nobias', context 'chat'"),
        ({"training": []}, "training []"),
    ],
)
def test_a_file_that_says_something_else_is_refused(content, problem, tmp_path):
    path = tmp_path / TUNING_FILE
    if isinstance(content, dict):
        write_json(path, asdict(TUNING))
        content = json.dumps({**json.loads(path.read_bytes()), **content}).encode()
    path.write_bytes(content)
    with pytest.raises(ValueError, match=f"{re.escape(str(path))}.*{re.escape(problem)}.*--tag"):
        read_bias_tuning(str(tmp_path))


@pytest.mark.parametrize(
    ("asked", "tuning", "tag", "why"),
    [
        ("auto", None, None, "the model has no record of bias tuning with tags"),
        ("auto", replace(TUNING, tag=None), None, "the model was tuned without tags"),
        ("auto", TUNING, "no_bias", "the model was tuned with it, and other programs do not send it"),
        (
            "auto",
            replace(TUNING, tag="bias", tag_in_template=True),
            "bias",
            "the model was tuned with it, and its chat template sends it",
        ),
        ("bias", TUNING, "bias", "--tag bias was given"),
        ("no_bias", None, "no_bias", "--tag no_bias was given"),
        ("none", TUNING, None, "--tag none was given"),
    ],
)
def test_the_tag_is_the_one_asked_for_or_the_models_own(asked, tuning, tag, why):
    assert choose_tag(asked, tuning) == (tag, why)
