"""What the loop over measurements relies on."""

import re
from types import SimpleNamespace

import pytest

from hb_metrics.arguments import settings_of
from hb_metrics.inference.engines.local import LocalEngine
from hb_metrics.measurements import MEASUREMENTS
from hb_metrics.runs.planning import choose_measurements, read_files

NAMES = [measurement.name for measurement in MEASUREMENTS]


def chosen(kind, **options):
    engine = LocalEngine(SimpleNamespace(kind=kind, name=kind))
    return [measurement.name for measurement in choose_measurements(settings_of(options), engine)]


def test_files_of_a_measurement_that_is_only_required_are_read_before_the_model_too(tmp_path):
    questions = tmp_path / "questions.yaml"
    questions.write_text("[]")
    settings = settings_of({"measurements": "robustness", "cue": "history", "cue_questions": str(questions)})
    with pytest.raises(ValueError, match=r"questions\.yaml"):
        read_files(settings)


@pytest.mark.parametrize("measurement", MEASUREMENTS, ids=NAMES)
def test_a_measurement_comes_after_those_that_it_requires_and_says_what_it_is(measurement):
    assert {*measurement.requires} <= {*NAMES[: NAMES.index(measurement.name)]}
    assert re.fullmatch("[a-z]+(_[a-z]+)*", measurement.name)
    assert measurement.words
    assert measurement.done


def test_what_is_measured_by_default():
    assert chosen("causal") == ["likelihood", "generation", "offensiveness"]
    assert chosen("encoder-decoder") == ["likelihood", "generation", "offensiveness"]
    assert chosen("masked") == ["likelihood", "offensiveness"]


def test_what_a_measurement_starts_from_is_measured_too_as_far_as_the_model_can():
    assert chosen("causal", measurements="robustness") == ["likelihood", "generation", "robustness"]
    assert chosen("masked", measurements="robustness") == ["likelihood", "robustness"]
    assert chosen("causal", measurements="offensiveness") == ["offensiveness"]


@pytest.mark.parametrize("name", ["generation", "dialogue", "regard"])
def test_a_masked_model_is_not_asked_to_write(name):
    with pytest.raises(ValueError, match=f"which gives no replies; leave {name} out of --measurements"):
        chosen("masked", measurements=f"likelihood,{name}")
