"""Any causal chat model is tuned by one recipe, and plain PEFT loads its adapter."""

from copy import deepcopy
from pathlib import Path

import pytest
import torch
import transformers
from peft import PeftModel
from trl import ModelConfig

from hb_metrics.models.loading import LoadedTokenizer, load_model
from hb_train.training.models import check_lora
from hb_train.tune import main as tune_main
from tests.hb_metrics.conftest import byte_level_tokenizer, far_from_uniform, with_chat
from tests.hb_train.conftest import SMALL, WARNINGS_OF_TRL, few_steps, replied

pytestmark = WARNINGS_OF_TRL
RECIPE = Path(__file__).parents[2] / "hb_train" / "recipes" / "chat-lora.yaml"
MAMBA = {"mamba_d_ssm": 32, "mamba_n_heads": 4, "mamba_d_head": 8, "mamba_d_state": 8, "mamba_n_groups": 1}
GPT2 = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 256, "bos_token_id": 0, "eos_token_id": 1}
FAMILIES = {
    "llama": (transformers.LlamaForCausalLM, SMALL),
    "gpt2": (transformers.GPT2LMHeadModel, GPT2),
    "qwen3_moe": (
        transformers.Qwen3MoeForCausalLM,
        {**SMALL, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16},
    ),
    "gemma3": (transformers.Gemma3ForCausalLM, SMALL),
    "phi": (transformers.PhiForCausalLM, {**SMALL, "num_key_value_heads": 4}),
    "olmo": (transformers.OlmoForCausalLM, SMALL),
    "falcon_h1": (transformers.FalconH1ForCausalLM, {**SMALL, **MAMBA}),
    "smollm3": (transformers.SmolLM3ForCausalLM, SMALL),
}
IN_SUITE = ("qwen3_moe",)  # the others are tried by `make test-long`, and GPT-2 in test_saving.py


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "family", [family if family in IN_SUITE else pytest.param(family, marks=pytest.mark.long) for family in FAMILIES]
)
def test_an_adapter_is_loaded_by_plain_peft(family, tmp_path, capsys):
    kind, settings = FAMILIES[family]
    tokenizer, base = with_chat(deepcopy(byte_level_tokenizer(True))), tmp_path / "base"
    torch.manual_seed(0)
    far_from_uniform(kind(kind.config_class(vocab_size=len(tokenizer), **settings))).save_pretrained(base)
    tokenizer.save_pretrained(base)
    replied(base, tmp_path / "rows", "--num_replies", "6", "--num_anchors", "2", "--context", "chat")
    options = [
        *("--config", str(RECIPE), "--model_name_or_path", str(base), "--dataset_name", str(tmp_path / "rows")),
        *("--output_dir", str(tmp_path / "model"), "--dtype", "float32", "--bf16", "false", "--warmup_steps", "0"),
        *few_steps(1, "1e-1"),
    ]
    tune_main(options)
    assert "LoRA changes" in capsys.readouterr().out
    chat = [{"role": "user", "content": "Hi! I'm a Deaf man."}]
    given = tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_tensors="pt", return_dict=True)
    auto = transformers.AutoModelForCausalLM.from_pretrained
    adapted = PeftModel.from_pretrained(auto(base), tmp_path / "model")
    models = [auto(base), adapted, load_model(str(tmp_path / "model")).model]
    logits = [model.eval()(given["input_ids"]).logits for model in models]
    assert (logits[1] - logits[0]).abs().max() > 1e-3
    torch.testing.assert_close(logits[1], logits[2], rtol=0, atol=1e-4)
    replies = [model.generate(**given, do_sample=False, max_new_tokens=8).tolist() for model in models[1:]]
    assert replies[0] == replies[1]


def test_all_linear_layers_are_adapted_although_others_share_their_names():
    """The image encoder has linear layers that are named 0 and 2, as decoder layers are."""
    rope = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [1, 1, 2]}
    image = {"hidden_size": 32, "intermediate_size": 64, "depth": 3, "num_heads": 2, "out_hidden_size": 32}
    text = {**SMALL, "num_hidden_layers": 3, "vocab_size": 99, "rope_parameters": rope}
    config = transformers.Qwen2_5_VLConfig(text_config=text, vision_config=image)
    config.architectures = ["Qwen2_5_VLForConditionalGeneration"]
    about = dict.fromkeys(("name", "source", "digest"), "")
    loaded = LoadedTokenizer(tokenizer=None, config=config, kind="causal", revision=None, **about)
    with torch.device("meta"):
        model = transformers.Qwen2_5_VLForConditionalGeneration(config)
    linear = sum(isinstance(module, torch.nn.Linear) for module in model.modules())
    changed = check_lora(ModelConfig(use_peft=True), loaded, trust_remote_code=False)
    assert changed == f"LoRA changes {linear - 1} of the model's {linear} linear layers"
