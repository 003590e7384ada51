import pytest

from hb_metrics.inference.models.loading import LoadedModel


@pytest.fixture
def load(get_small_model):
    """Loads a small model by its name."""

    def load(name):
        model, tokenizer = get_small_model(name)
        kind = {"blenderbot": "encoder-decoder", "t5": "encoder-decoder", "bert": "masked"}.get(name, "causal")
        about = {"name": name, "source": name, "revision": None, "digest": "digest", "dtype": "float32"}
        return LoadedModel(model=model, tokenizer=tokenizer, config=model.config, kind=kind, **about)

    return load
