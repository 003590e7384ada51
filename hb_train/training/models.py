"""The model that is trained: loading it, taking it out of its trainer, and saving it whole."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformers import Trainer
    from trl import ModelConfig, SFTConfig

    from hb_metrics.inference.models.loading import LoadedModel

ADAPTER_ERROR = (
    "model '{name}' is an adapter, in which nothing would be trained; merge it into its model (merge_and_unload of "
    "peft), save that with its tokenizer, and give that folder"
)
KIND_ERROR = "model '{name}' is {kind}; this script needs a causal language model"


def load_base_model(model_args: "ModelConfig", training_args: "SFTConfig") -> "LoadedModel":
    """Loads the model that TRL's options name.

    Raises:
        ValueError: It cannot be loaded, or is an adapter.
        OSError: It is not there.
    """
    from hb_metrics.inference.models.loading import load_model

    loaded = load_model(
        model_args.model_name_or_path,
        revision=None if model_args.model_revision == "main" else model_args.model_revision,
        dtype=model_args.dtype,
        trust_remote_code=training_args.trust_remote_code,
    )
    if loaded.adapter is not None:
        raise ValueError(ADAPTER_ERROR.format(name=model_args.model_name_or_path))
    if model_args.attn_implementation is not None:
        loaded.model.set_attn_implementation(model_args.attn_implementation)
    return loaded


def check_is_causal(loaded: "LoadedModel") -> None:
    """Raises `ValueError` if a model is not a causal language model."""
    if loaded.kind != "causal":
        raise ValueError(KIND_ERROR.format(name=loaded.name, kind=loaded.kind))


def trained_model(trainer: "Trainer", *, keep_fp32_wrapper: bool = True) -> Any:
    """The model as it is after training, with an adapter merged into it.

    Args:
        trainer: The trainer.
        keep_fp32_wrapper: Whether mixed precision stays in force in its forward pass, which then returns float32.
    """
    model: Any = trainer.accelerator.unwrap_model(trainer.model, keep_fp32_wrapper=keep_fp32_wrapper)
    return model.merge_and_unload() if hasattr(model, "merge_and_unload") else model


def save_model(model: Any, loaded: "LoadedModel", folder: Path) -> None:
    """Saves a trained model with the tokenizer that it was loaded with, so that the folder loads as any model does."""
    model.save_pretrained(folder)
    loaded.tokenizer.save_pretrained(folder)
    (folder / "adapter_config.json").unlink(missing_ok=True)
