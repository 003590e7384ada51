"""What the loop over measurements relies on."""

from types import SimpleNamespace

import pytest

from hb_metrics.collect.engines.local import LocalEngine
from hb_metrics.command.arguments import settings_of
from hb_metrics.command.planning import choose_measurements


def chosen(kind, **options):
    engine = LocalEngine(SimpleNamespace(kind=kind, name=kind))
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
