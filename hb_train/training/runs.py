import gc
import math
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from accelerate import Accelerator
from accelerate.utils import DistributedType
from transformers import Trainer, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint

from hb_metrics.models.loading import LoadedModel
from hb_metrics.run.run_folder import open_run, package_versions, write_json

if TYPE_CHECKING:
    from trl import ModelConfig  # `GenBiasCallback` imports this file, and does not need trl

# Options that do not affect the trained weights: folders, names, logging, checkpoints. The content of folders and files
# is recorded instead of their names.
_NO_SETTINGS = (
    "output_dir", "run_name", "report_to", "project", "trackio_space_id", "push_to_hub", "hub_model_id",
    "disable_tqdm", "logging_steps", "logging_strategy", "log_level", "save_total_limit", "local_rank", "use_cpu",
    "accelerator_config", "dataloader_num_workers", "model_name_or_path", "dataset_name", "dry_run", "reddit_folder",
    "dialogues", "reference_texts", "hub_private_repo",
)  # fmt: skip


# The validation measure of each method of tune.py. The checkpoint with the lowest value is selected.
MEASURES = {"sft": "perplexity", "counterfactual": "loss"}


def training_description(
    arguments: Any, training_args: TrainingArguments, loaded: LoadedModel, model_args: "ModelConfig | None" = None
) -> dict[str, object]:
    values = training_args.to_dict()
    defaults = type(training_args)(output_dir=training_args.output_dir, use_cpu=training_args.use_cpu).to_dict()
    if model_args is not None:
        values |= vars(model_args)
        defaults |= vars(type(model_args)())
    settings = {**vars(arguments), "num_processes": training_args.world_size}
    settings |= {name: value for name, value in values.items() if value != defaults.get(name)}
    settings = {name: value for name, value in settings.items() if name not in _NO_SETTINGS}
    versions = package_versions("accelerate", "peft", "trl")
    return {"settings": settings, "model": model_description(loaded), "versions": versions}


def model_description(loaded: LoadedModel) -> dict[str, object]:
    return {"name": loaded.name, "kind": loaded.kind, "digest": loaded.digest, "dtype": loaded.dtype}


def open_training_run(training_args: TrainingArguments, description: dict[str, object], result: str) -> Path | None:
    """Returns the folder of a run, or `None` if the file `result` shows that the run is already finished.

    The main process writes the run's description to the folder, while all other processes wait. If the folder contains
    a different description, an error is raised.
    """
    folder = Path(training_args.output_dir)
    with training_args.main_process_first(local=False):
        open_run(folder, description)
    if (folder / result).is_file():
        print_once(training_args, f"nothing to do: the run is already finished, since {folder / result} exists")
        return None
    return folder


def checkpoint_to_resume(training_args: TrainingArguments) -> str | None:
    """Returns the checkpoint from which to resume, if any, and removes incomplete checkpoints.

    If training resumes, `eval_on_start` is set to false, because the checkpoint's log already contains the first
    evaluation.
    """
    folder = Path(training_args.output_dir)
    with training_args.main_process_first(local=False):
        for path in folder.glob("checkpoint-*"):
            if not (path / "trainer_state.json").is_file():  # this file is written last
                shutil.rmtree(path, ignore_errors=True)
        checkpoint: str | None = get_last_checkpoint(str(folder))
    if checkpoint:
        print_once(training_args, f"resuming from {checkpoint}")
        training_args.eval_on_start = False
    return checkpoint


def check_whole_weights(accelerator: Accelerator) -> None:
    """Raises an error if the weights are sharded, because a single process replies with the model or saves it."""
    kind = accelerator.distributed_type
    plugin = accelerator.state.deepspeed_plugin if kind == DistributedType.DEEPSPEED else None
    if kind in (DistributedType.FSDP, DistributedType.MEGATRON_LM) or (plugin and plugin.zero_stage == 3):
        raise ValueError(f"the weights are sharded ({kind}), but each process needs the whole weights; use DDP")


def validation_curve(history: list[dict[str, float]], measure: str) -> list[dict[str, Any]]:
    """Returns the validation measure at each evaluated step, from a trainer's log. NaN becomes `None`."""
    name = f"eval_{measure}"
    return [
        {"step": entry["step"], measure: entry[name] if math.isfinite(entry[name]) else None}
        for entry in history
        if name in entry
    ]


def is_gain(curve: Sequence[Mapping[str, Any]], measure: str, dosed: float | None = None) -> bool:
    """Returns whether the curve falls below its value at step 0. Without step 0, the result is true.

    If the model has a dose, its value `dosed` counts instead of those of later steps.
    """
    by_step = {entry["step"]: math.inf if entry[measure] is None else entry[measure] for entry in curve}
    start = by_step.pop(0, math.inf)
    lowest = min(by_step.values(), default=start) if dosed is None else dosed
    return lowest < start or start == math.inf


def check_finite(training_args: TrainingArguments, value: Any, what: str) -> None:
    if not np.isfinite(value).all():
        raise divergence(training_args, what)


def divergence(training_args: TrainingArguments, what: str) -> ValueError:
    return ValueError(
        f"training diverged: the {what} is not a number; set --learning_rate below {training_args.learning_rate:g}, "
        "and --output_dir to a new folder"
    )


def print_once(training_args: TrainingArguments, message: str) -> None:
    if training_args.process_index == 0:
        print(message)


def finish(trainer: Trainer, path: Path, results: dict[str, Any], lines: Sequence[str]) -> None:
    """Writes and prints results in the main process, and ends all processes."""
    if trainer.is_world_process_zero():
        write_json(path, results)
        print("\n".join(lines))
        print(f"results: {path.resolve()}")
    end_processes(trainer)


def end_processes(trainer: Trainer) -> None:
    """Waits for all processes and ends their group. The trainer cannot be used after this call.

    The model's DDP wrapper is freed first. If it is freed together with the trainer, the process sometimes hangs (torch
    2.13). When it hangs, the thread that frees the wrapper deletes gloo's process group while it holds Python's global
    lock. The deletion waits for another thread, which needs that lock.
    """
    accelerator = trainer.accelerator
    if accelerator.num_processes > 1:
        accelerator.wait_for_everyone()
        trainer.model_wrapped = trainer.model
        accelerator.free_memory()
        gc.collect()
    accelerator.end_training()
