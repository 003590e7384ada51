"""Saves a tuned model as people load it, writes its card, and publishes it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from huggingface_hub import HfApi, ModelCard, ModelCardData
from transformers import Trainer

from hb_dataset.hub_access import protect_token
from hb_dataset.whole_files import write_text
from hb_metrics.models.chats import template_with_tag
from hb_metrics.models.layout import BiasTuning, choose_layout, read_bias_tuning
from hb_metrics.models.loading import LoadedModel, LoadedTokenizer
from hb_metrics.run.run_folder import write_json
from hb_train.training.models import trained_model
from hb_train.training.runs import MEASURES, is_gain

CARD_TEMPLATE = Path(__file__).parents[1] / "tuning" / "card.md.jinja"
WEIGHTS = ["adapter_*", "config.json", "*.safetensors", "*.safetensors.index.json"]
NOT_PUBLISHED = ["checkpoint-*/**", "training_args.bin", "run.json"]  # run.json describes this machine


def save_tuned_model(
    trainer: Trainer, loaded: LoadedModel, folder: Path, *, tag: str | None, context: str, merge: bool
) -> bool:
    """Saves the selected checkpoint with its tokenizer. LoRA is saved as an adapter, unless `merge` is true.

    Returns whether the saved chat template adds the tag.
    """
    model: Any = trainer.accelerator.unwrap_model(trainer.model)
    tokenizer, original = loaded.tokenizer, loaded.tokenizer.chat_template
    changed = template_with_tag(tokenizer, tag) if tag is not None and context == "chat" else None
    if hasattr(model, "merge_and_unload") and not merge:
        config = model.peft_config["default"]
        source = Path(loaded.source)  # a relative path would be wrong in another working directory
        config.base_model_name_or_path = str(source.resolve()) if source.is_dir() else loaded.source
        config.revision = loaded.revision
        model.save_pretrained(folder, save_embedding_layers=False)
    else:
        save_whole_model(trained_model(trainer), loaded, folder)
    tokenizer.chat_template = changed or original
    tokenizer.save_pretrained(folder)
    tokenizer.chat_template = original
    return changed is not None


def save_whole_model(model: Any, loaded: LoadedModel, folder: Path) -> None:
    model.config, generation_config = model.published_configs
    model.save_pretrained(folder)
    generation_config.to_json_file(folder / "generation_config.json")  # `save_pretrained` may refuse what models have
    for name, content in model.processor_files.items():
        write_json(folder / name, content)
    loaded.tokenizer.save_pretrained(folder)
    (folder / "adapter_config.json").unlink(missing_ok=True)


def write_model_card(
    folder: Path, tuning: BiasTuning | None = None, *, runs: Sequence[Path] = (), names: Sequence[str] = ()
) -> None:
    """Writes the card of the model in a folder.

    Args:
        folder: The folder of the model.
        tuning: The record of its tuning. By default, it is read from the folder.
        runs: The folders of the `measure` runs to show, starting with the run made before tuning.
        names: The names of the runs.
    """
    from hb_metrics.report.markdown import overview_markdown

    tuning = tuning or read_bias_tuning(str(folder))
    assert tuning is not None
    training, measure = tuning.training, MEASURES[tuning.method]
    base, is_adapter = training["base_model"]["name"], training["is_adapter"]
    dosed = training.get(f"validation_{measure}_with_dose")
    relation = {"base_model": base, "base_model_relation": "adapter" if is_adapter else "finetune"}
    about = ModelCardData(
        library_name="peft" if is_adapter else "transformers",
        tags=["holistic-bias", "trl", tuning.method],
        **({} if Path(base).is_dir() else relation),
    )
    card = ModelCard.from_template(
        about,
        template_path=str(CARD_TEMPLATE),
        tuning=tuning,
        training=training,
        data=tuning.labels,
        asked_with=any(value not in (None, "prompt") for value in (tuning.asked_with or {}).values()),
        measure=measure,
        best=training[f"best_validation_{measure}"],
        dosed=dosed,
        is_gain=is_gain(training.get(f"validation_{measure}", []), measure, dosed),
        figures=overview_markdown(runs, names).strip() if runs else "Not measured yet.",
    )
    write_text(folder / "README.md", str(card))


def check_publishable(loaded: LoadedTokenizer, *, tag: str | None, context: Any, is_adapter: bool) -> None:
    """Raises an error if other people could not use the model as it was measured, or if nobody is logged in to the Hub.

    `context` is "auto" if it is the model's usual format.
    """
    layout = choose_layout(loaded, context=context, tag="none")
    if tag is not None and (layout.context != "chat" or template_with_tag(loaded.tokenizer, tag) is None):
        raise ValueError(
            f"this model's format cannot add the tag '{tag}' to prompts, and without it, the published model may be "
            "more biased than before tuning; "
            "omit --push_to_hub, or set --method counterfactual"
        )
    if is_adapter and Path(loaded.source).is_dir():
        raise ValueError(
            f"other people do not have the base model '{loaded.name}'; set --merge true to publish whole weights"
        )
    protect_token()
    HfApi().whoami()  # raises an error without a token or a connection


def publish_model(folder: Path, repo_id: str | None, *, private: bool | None = None) -> str:
    """Uploads the folder of a tuned model, without checkpoints. By default, the repository has the folder's name."""
    protect_token()
    api = HfApi()
    repository = api.create_repo(repo_id or folder.resolve().name, private=private, exist_ok=True)
    api.upload_folder(
        repo_id=repository.repo_id,
        folder_path=folder,
        ignore_patterns=NOT_PUBLISHED,
        delete_patterns=WEIGHTS,  # an earlier adapter would be loaded with new weights
        commit_message="Tuned model with its card",
    )
    return str(repository)
