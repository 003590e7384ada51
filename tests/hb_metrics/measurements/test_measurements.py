"""What the loop over measurements relies on."""

from types import SimpleNamespace
from typing import get_type_hints

import pytest

from hb_metrics.collect.engines.local import LocalEngine
from hb_metrics.command.arguments import settings_of
from hb_metrics.command.planning import choose_measurements
from hb_metrics.measurements import MEASUREMENTS
from hb_metrics.measurements.results import Results
from hb_metrics.run.record import Record


def chosen(kind, **options):
    engine = LocalEngine(SimpleNamespace(kind=kind, name=kind, dtype="float32"))
    return [measurement.name for measurement in choose_measurements(settings_of(options), engine)]


def test_what_is_measured_by_default():
    assert chosen("causal") == ["likelihood", "generation", "offensiveness"]
    assert chosen("encoder-decoder") == ["likelihood", "generation", "offensiveness"]
    assert chosen("masked") == ["likelihood", "offensiveness"]
    assert chosen("causal", measurements="offensiveness,likelihood") == ["likelihood", "offensiveness"]


@pytest.mark.parametrize("name", ["generation", "dialogue", "regard"])
def test_a_masked_model_is_not_asked_to_write(name):
    with pytest.raises(ValueError, match=f"which cannot reply; remove {name} from --measurements"):
        chosen("masked", measurements=f"likelihood,{name}")


def test_results_list_what_measurements_compute():
    attributes = get_type_hints(Results)
    assert attributes.pop("record") is Record
    computed = {measurement.name: get_type_hints(measurement.parts.compute)["return"] for measurement in MEASUREMENTS}
    assert computed == attributes


def test_a_measurement_reads_what_was_measured_before_it():
    before = {}
    for measurement in MEASUREMENTS:
        for name in measurement.reads:
            assert {*before[name].needs} <= {*measurement.needs}  # a model that lacks one does not run the other either
        before[measurement.name] = measurement
