"""The end of a training run of several processes."""

import gc
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import Trainer


def end_processes(trainer: "Trainer") -> None:
    """Waits for all processes and takes leave of them; the last thing a training script does with its trainer.

    What wraps the model for several processes (DDP) is freed first. Freed later, with the trainer, it takes the last
    reference to gloo's process group with it, whose end waits for a thread that waits for Python's lock, which is held
    by who frees it: now and then a process then never ends (torch 2.13).
    """
    accelerator = trainer.accelerator
    accelerator.wait_for_everyone()
    trainer.model_wrapped = trainer.model
    accelerator.free_memory()
    gc.collect()
    accelerator.end_training()
