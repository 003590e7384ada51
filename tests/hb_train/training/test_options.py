"""Options of trainers mean what they say."""

from copy import deepcopy

import pytest
from peft import get_peft_model
from peft.tuners.tuners_utils import BaseTunerLayer
from trl import get_peft_config

from hb_train import tune
from tests.hb_train.conftest import WARNINGS_OF_TRL

pytestmark = WARNINGS_OF_TRL


@pytest.mark.parametrize(
    ("names", "number"),
    [("c_attn", 2), ("attn.c_attn", 2), ("c_attn c_fc", 4), (r".*\.1\.attn\.c_attn", 1), ("all-linear", 8)],
)
def test_lora_changes_the_modules_that_are_named(names, number, get_small_model, tmp_path):
    words = ["--dataset_name", "rows", "--model_name_or_path", "gpt2", "--output_dir", str(tmp_path)]
    *_, model_args = tune.parse([*words, "--use_peft", "--lora_target_modules", *names.split()])
    adapted = get_peft_model(deepcopy(get_small_model("gpt2")[0]), get_peft_config(model_args))
    assert sum(isinstance(module, BaseTunerLayer) for module in adapted.modules()) == number
