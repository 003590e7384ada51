"""Defines the parts of a tuning method. Each method is a file in this folder that defines `METHOD`."""

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from hb_train.tuning.labels import LABELS, RowFolder, RowRecord

if TYPE_CHECKING:
    from datasets import Dataset
    from transformers import Trainer, TrainerCallback
    from trl import ModelConfig

    from hb_metrics.models.loading import LoadedModel
    from hb_train.training.encoding import EncodedRows

# The files import torch and trl, which takes seconds, so only the file of the chosen method is imported.


class Tuning(NamedTuple):
    """A tuning. `record` describes the rows, and `encoded` is filled with the rows of both splits."""

    arguments: Any  # `TuneArguments` of tune.py
    training_args: Any
    model_args: "ModelConfig"
    loaded: "LoadedModel"
    record: RowRecord
    callbacks: "list[TrainerCallback]"
    encoded: "dict[str, EncodedRows]"


class Method(NamedTuple):
    """A tuning method: a value of `--method` of tune.py.

    Attributes:
        measure: The validation measure. The checkpoint with the lowest value is selected.
        needs_own_rows: Whether the rows must contain replies by the model that is tuned.
    """

    encode: "Callable[[Tuning, Dataset], EncodedRows]"
    make_trainer: "Callable[[Tuning], Trainer]"
    measure: Literal["perplexity", "loss"] = "loss"
    row_folder: RowFolder = LABELS
    kinds: tuple[str, ...] = ("causal", "encoder-decoder")
    needs_own_rows: bool = False


def load_method(name: str) -> Method:
    return import_module(f"{__package__}.{name}").METHOD
