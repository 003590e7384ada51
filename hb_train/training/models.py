import json
from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import torch
from peft import get_peft_model
from peft.tuners.lora import LoraLayer
from peft.tuners.tuners_utils import BaseTunerLayer
from transformers import Trainer
from transformers.models.auto.modeling_auto import MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES
from transformers.pytorch_utils import Conv1D
from transformers.utils import IMAGE_PROCESSOR_NAME, PROCESSOR_NAME, VIDEO_PROCESSOR_NAME
from trl import ModelConfig, SFTConfig, get_peft_config, get_quantization_config

from hb_metrics.models.loading import LoadedModel, LoadedTokenizer, auto_class_of, load_model
from hb_metrics.models.sources import file_of


def load_base_model(model_args: ModelConfig, training_args: SFTConfig) -> LoadedModel:
    quantization = get_quantization_config(model_args)
    loaded = load_model(
        str(model_args.model_name_or_path),
        revision=None if model_args.model_revision == "main" else model_args.model_revision,
        dtype=model_args.dtype,
        trust_remote_code=training_args.trust_remote_code,
        quantization_config=quantization,
        device="cpu" if quantization is None else training_args.device,  # a quantised model cannot be moved later
    )
    if model_args.attn_implementation is not None:
        loaded.model.set_attn_implementation(model_args.attn_implementation)
    # Trainers change the special tokens, use_cache and other fields of both configs. Copies are saved instead.
    model: Any = loaded.model
    model.published_configs = deepcopy((model.config, model.generation_config))
    model.processor_files = _processor_files(loaded)
    # Many models have sampling settings without do_sample. transformers saves such settings in a checkpoint only if
    # nothing has changed, but trainers change it.
    model.generation_config.do_sample = True
    return loaded


def _processor_files(loaded: LoadedModel) -> dict[str, Any]:
    """Reads the files that AutoProcessor needs, if the model reads images.

    They are read before training, because the Hub may not answer afterwards. The tokenizer's chat template is saved
    instead of theirs, because it may add a tag.
    """
    files = {}
    if loaded.config.model_type in MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES:
        for name in (PROCESSOR_NAME, IMAGE_PROCESSOR_NAME, VIDEO_PROCESSOR_NAME):
            path = file_of(loaded.source, name, loaded.revision)
            if path is not None:
                content = json.loads(path.read_text(encoding="utf-8"))
                files[name] = {key: value for key, value in content.items() if key != "chat_template"}
    return files


def load_whole_model(name: str, **settings: Any) -> LoadedModel:
    """Loads a causal model, and rejects adapters."""
    loaded = load_model(name, **settings)
    check_trainable(loaded)
    return loaded


def check_trainable(loaded: LoadedTokenizer, kinds: Sequence[str] = ("causal",)) -> None:
    if loaded.adapter is not None:
        name = loaded.adapter.name
        raise ValueError(
            f"model '{name}' is an adapter; merge it (merge_and_unload of peft) and pass the folder of the result"
        )
    if loaded.kind not in kinds:
        raise ValueError(f"model '{loaded.name}' is {loaded.kind}; pass a model that is {' or '.join(kinds)}")


def check_lora(model_args: ModelConfig, loaded: LoadedTokenizer, *, trust_remote_code: bool) -> str:
    """Checks the target modules of LoRA on a model without weights, and describes the changed layers.

    If no modules are set, or "all-linear", all linear layers except the output layer are set: by the last part of their
    names or, if other layers share this part ("layers.0" and "mlp.0" in Qwen2.5-VL), by their whole names.
    """
    with torch.device("meta"):
        model = auto_class_of(loaded).from_config(loaded.config, trust_remote_code=trust_remote_code)
    linear = {name: module for name, module in model.named_modules() if isinstance(module, torch.nn.Linear | Conv1D)}
    if model_args.lora_target_modules in (None, "all-linear"):
        output = model.get_output_embeddings()
        others = {name.rpartition(".")[2] for name, module in model.named_modules() if name not in linear}
        parts = {name: name.rpartition(".")[2] for name, module in linear.items() if module is not output}
        targets = {name if part in others else part for name, part in parts.items()}
        if any(hasattr(module, "A_log") for module in model.modules()):
            targets.discard("out_proj")  # the fused kernels of Mamba layers read its weights without the adapter
        model_args.lora_target_modules = sorted(targets)
    try:
        adapted = get_peft_model(model, get_peft_config(model_args))
    except ValueError as error:
        raise ValueError(f"LoRA does not fit ({error}); correct its options, or omit --lora_target_modules") from error
    changed = sum(isinstance(module, BaseTunerLayer) for module in adapted.modules())
    return f"LoRA changes {changed} of the model's {len(linear)} linear layers"


def multiply_lora(model: Any, factor: float) -> None:
    """Multiplies LoRA's change of the weights, in the model and in the configuration with which it is saved.

    This strengthens what the model has learnt (task vectors, Ilharco et al., 2023, https://arxiv.org/abs/2212.04089).
    """
    for module in model.modules():
        if isinstance(module, LoraLayer):
            module.scaling["default"] *= factor
    model.peft_config["default"].lora_alpha *= factor


def length_limit(loaded: LoadedTokenizer, max_length: int | None) -> int | None:
    limits = (max_length, getattr(loaded.config.get_text_config(decoder=True), "max_position_embeddings", None))
    return min((limit for limit in limits if limit is not None and limit > 0), default=None)


def padding_tokenizer(loaded: LoadedModel) -> Any:
    """Returns a copy of the tokenizer with a padding token, which trainers need. The original is saved unchanged.

    Models do not attend to padding, so any token can be the padding token.
    """
    tokenizer = deepcopy(loaded.tokenizer)
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token or tokenizer.convert_ids_to_tokens(0)
    return tokenizer


def trained_model(trainer: Trainer) -> Any:
    """Returns the model after training, with its adapter merged. It no longer computes in mixed precision."""
    model: Any = trainer.accelerator.unwrap_model(trainer.model, keep_fp32_wrapper=False)
    return model.merge_and_unload() if hasattr(model, "merge_and_unload") else model
