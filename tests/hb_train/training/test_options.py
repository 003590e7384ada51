"""Options of trainers mean what they say."""

from copy import deepcopy

import pytest
from peft import get_peft_model
from peft.tuners.tuners_utils import BaseTunerLayer
from trl import get_peft_config

from hb_train import debias, tune
from tests.hb_train.conftest import WARNINGS_OF_TRL

pytestmark = WARNINGS_OF_TRL
SCRIPTS = {
    tune: ["--dataset_name", "rows"],
    debias: ["--method", "hd", "--bias_type", "cats", "--reddit_folder", "phrases"],
}


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.__name__)
@pytest.mark.parametrize(
    "names", [["c_attn"], ["attn.c_attn"], ["c_attn", "c_fc"], [r".*\.1\.attn\.c_attn"], ["all-linear"]]
)
def test_lora_changes_the_modules_that_are_named(script, names, get_small_model, tmp_path):
    words = [*SCRIPTS[script], "--model_name_or_path", "gpt2", "--output_dir", str(tmp_path)]
    *_, model_args = script.parse([*words, "--use_peft", "--lora_target_modules", *names])
    model = deepcopy(get_small_model("gpt2")[0])
    blocks = model.config.n_layer
    expected = {"c_attn": blocks, "attn.c_attn": blocks, r".*\.1\.attn\.c_attn": 1, "all-linear": 4 * blocks}.get(
        names[-1], 2 * blocks
    )
    adapted = get_peft_model(model, get_peft_config(model_args))
    assert sum(isinstance(module, BaseTunerLayer) for module in adapted.modules()) == expected
