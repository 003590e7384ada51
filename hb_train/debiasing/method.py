"""Defines the parts of a debiasing method. Each method is a file in this folder that defines `METHOD`."""

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from hb_train.debiasing.arguments import DebiasArguments

if TYPE_CHECKING:
    import torch

    from hb_train.debiasing.terms import Terms

# The files import torch, which takes seconds, so only the file of the chosen method is imported.


class MarkedBatch(NamedTuple):
    """The input of a debiasing loss.

    Attributes:
        logits: The logits that predict the second and all later tokens: [rows, length − 1, vocabulary].
        vectors: The inputs of the output layer: [rows, length, hidden].
        marks: The column `Method.marks`: [rows, length].
    """

    logits: "torch.Tensor"
    vectors: "torch.Tensor"
    marks: "torch.Tensor"


OutputWeight = Callable[[], "torch.Tensor"]  # returns the current weight of the output layer, [vocabulary, hidden]
Loss = Callable[[MarkedBatch], "torch.Tensor"]  # the debiasing loss of a batch, summed over its marked occurrences


class Method(NamedTuple):
    """A debiasing method.

    Attributes:
        trained_sides: The columns of phrases that are trained on.
        marks: A function that returns the column of marks for the debiasing loss, one of `phrases.MARKS`. `None` if
            there is no such loss.
        with_forms: If true, the loss also uses pairs of plurals and other forms of the target terms.
    """

    trained_sides: tuple[str, ...] = ("text_t1",)
    marks: Callable[[DebiasArguments], str] | None = None
    make_loss: "Callable[[Terms, OutputWeight, DebiasArguments], Loss] | None" = None
    with_forms: bool = False


def load_method(name: str) -> Method:
    return import_module(f"{__package__}.{name}").METHOD
