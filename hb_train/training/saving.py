"""Saves a tuned model as people load it, and publishes it."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from hb_train.training.models import trained_model

if TYPE_CHECKING:
    from transformers import Trainer

    from hb_metrics.models.loading import LoadedModel, LoadedTokenizer

NOT_PUBLISHED = ["checkpoint-*/**", "training_args.bin", "run.json"]  # run.json describes this machine


def save_tuned_model(
    trainer: "Trainer", loaded: "LoadedModel", folder: Path, *, tag: str | None, context: str, merge: bool
) -> bool:
    """Saves the selected checkpoint with its tokenizer. LoRA is saved as an adapter, unless `merge` is true.

    Returns whether the saved chat template adds the tag.
    """
    from hb_metrics.models.chats import template_with_tag

    model: Any = trainer.accelerator.unwrap_model(trainer.model)
    tokenizer, original = loaded.tokenizer, loaded.tokenizer.chat_template
    changed = template_with_tag(tokenizer, tag) if tag is not None and context == "chat" else None
    if hasattr(model, "merge_and_unload") and not merge:
        config = model.peft_config["default"]
        config.base_model_name_or_path, config.revision = loaded.source, loaded.revision
        model.save_pretrained(folder, save_embedding_layers=False)
    else:
        save_whole_model(trained_model(trainer), loaded, folder)
    tokenizer.chat_template = changed or original
    tokenizer.save_pretrained(folder)
    tokenizer.chat_template = original
    return changed is not None


def save_whole_model(model: Any, loaded: "LoadedModel", folder: Path) -> None:
    model.save_pretrained(folder)
    loaded.tokenizer.save_pretrained(folder)
    (folder / "adapter_config.json").unlink(missing_ok=True)


def check_publishable(loaded: "LoadedTokenizer", *, tag: str | None, context: str | None, is_adapter: bool) -> None:
    """Raises an error if other people could not use the model as it was measured.

    `context` is `None` if it is not yet known.
    """
    from hb_metrics.models.chats import template_with_tag

    if tag is not None and (context not in ("chat", None) or template_with_tag(loaded.tokenizer, tag) is None):
        raise ValueError(
            f"the model would be tuned with the tag '{tag}', but its chat template cannot add the tag, so other "
            "programs would not send it, and without it the model may be more biased than before tuning; omit "
            "--push_to_hub, or set --method counterfactual"
        )
    if is_adapter and Path(loaded.source).is_dir():
        raise ValueError(
            f"the adapter would need the folder of '{loaded.name}', which other people do not have; set --merge true "
            "to publish whole weights, or set --model_name_or_path to the id of a Hub model"
        )


def publish_model(folder: Path, repo_id: str | None, *, private: bool | None = None) -> str:
    """Uploads the folder of a tuned model, without checkpoints. By default, the repository has the folder's name."""
    from huggingface_hub import HfApi

    from hb_dataset.hub_access import protect_token

    protect_token()
    api = HfApi()
    repository = api.create_repo(repo_id or folder.resolve().name, private=private, exist_ok=True)
    api.upload_folder(
        repo_id=repository.repo_id,
        folder_path=folder,
        ignore_patterns=NOT_PUBLISHED,
        commit_message="Tuned model with its card",
    )
    return str(repository)
