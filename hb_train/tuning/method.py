"""Defines the parts of a tuning method. Each method is a file in this folder that defines `METHOD`."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from hb_train.tuning.labels import LABELS, RowFolder

if TYPE_CHECKING:
    from datasets import Dataset
    from transformers import Trainer, TrainerCallback
    from trl import ModelConfig

    from hb_metrics.models.bias_tags import BiasTuning
    from hb_metrics.models.loading import LoadedModel
    from hb_train.training.encoding import EncodedRows

# The files import torch and trl, which takes seconds, so only the file of the chosen method is imported.


class Tuning(NamedTuple):
    training_args: Any
    model_args: "ModelConfig"
    loaded: "LoadedModel"
    rows: "Mapping[str, Dataset]"
    encoded: "Mapping[str, EncodedRows]"
    callbacks: "list[TrainerCallback]"


class CardText(NamedTuple):
    learnt: str
    rows: str
    limits: str


class Method(NamedTuple):
    """A tuning method: a value of `--method` of tune.py.

    Attributes:
        encode: Encodes rows. Its arguments are the rows, the model, the folder's record, whether prompts end in their
            tags, and the maximum number of tokens.
        measure: The validation measure. The checkpoint with the lowest value is selected.
        recorded: The TRL options that the method sets itself. Their values are recorded.
        needs_own_rows: Whether the rows must contain replies by the model that is tuned.
    """

    encode: "Callable[[Dataset, LoadedModel, Mapping[str, Any], bool, int | None], EncodedRows]"
    make_trainer: "Callable[[Tuning], Trainer]"
    card: "Callable[[BiasTuning], CardText]"
    measure: Literal["perplexity", "loss"] = "loss"
    row_folder: RowFolder = LABELS
    kinds: tuple[str, ...] = ("causal", "encoder-decoder")
    recorded: tuple[str, ...] = ()
    needs_own_rows: bool = False


def load_method(name: str) -> Method:
    return import_module(f"{__package__}.{name}").METHOD
