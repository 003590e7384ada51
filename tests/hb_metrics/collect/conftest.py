"""Texts, and classifiers as transformers runs them."""

import pytest
import transformers

from hb_metrics.collect.replies import forward

agrees = forward._agrees


@pytest.fixture(scope="module", autouse=True)
def trials_of_each_model():
    """Tries how each model decodes, though another one of its config was tried."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(forward, "_agrees", agrees)
        yield


@pytest.fixture(scope="session")
def texts(prompts):
    """Texts of many lengths, in no order."""
    return [" ".join(prompts[row : row + 1 + row % 3]) for row in range(0, 300, 10)]


@pytest.fixture(scope="session")
def by_label():
    """[texts] {label: probability} by the pipeline of transformers, one text at a time."""

    def probabilities(folder, texts, **options):
        classify = transformers.pipeline("text-classification", model=folder, top_k=None, device="cpu")
        return [{entry["label"]: entry["score"] for entry in entries} for entries in classify(texts, **options)]

    return probabilities
