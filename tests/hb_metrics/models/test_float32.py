from copy import deepcopy
from types import SimpleNamespace

import pytest
import torch
from transformers import AutoModelForCausalLM

from hb_metrics.models.float32 import measured
from tests.hb_metrics.collect.small_architectures import small_architecture

TOKENS = torch.arange(40, 60)[None]


@pytest.mark.parametrize("family", ["gpt2", "gemma2", "mixtral", "bamba", "zamba"])
def test_a_trial_runs_in_float32_and_leaves_the_weights_as_they_were(family):
    model = small_architecture(family, AutoModelForCausalLM).to(torch.bfloat16)
    with torch.inference_mode():
        before, expected = model(TOKENS).logits, deepcopy(model).float()(TOKENS).logits

    logits, in_float32 = measured(model, lambda: model(TOKENS).logits)

    assert in_float32
    torch.testing.assert_close(logits, expected, rtol=0, atol=1e-5)
    with torch.inference_mode():
        assert torch.equal(model(TOKENS).logits, before)
    with pytest.raises(ZeroDivisionError):
        measured(model, lambda: model(TOKENS).logits / (1 // 0))
    assert {weights.dtype for weights in model.parameters()} == {torch.bfloat16}


def test_a_trial_that_needs_the_models_own_precision_gets_it():
    model = small_architecture("gpt2", AutoModelForCausalLM).to(torch.bfloat16)

    def refuses_float32():
        if model.dtype == torch.float32:
            raise RuntimeError("expected BFloat16")
        return 7.0

    assert measured(model, refuses_float32) == (7.0, False)
    quantised = SimpleNamespace(dtype=torch.bfloat16, is_quantized=True)
    assert measured(quantised, lambda: 7.0) == (7.0, False)
