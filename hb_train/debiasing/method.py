"""A debiasing method: each file of this folder defines one, with its texts, terms and loss, as `METHOD`."""

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from hb_train.debiasing.arguments import DebiasArguments

if TYPE_CHECKING:
    import torch

    from hb_train.debiasing.phrases import Phrases
    from hb_train.debiasing.terms import Terms

# The files import torch, which takes seconds, so only the chosen method's file is imported.


class MarkedBatch(NamedTuple):
    """The input of a debiasing loss.

    Attributes:
        logits: [rows, length − 1, vocabulary] the logits of the tokens from the second on.
        vectors: [rows, length, hidden] the inputs of the output layer.
        marks: [rows, length] the column named by `Method.marks`.
    """

    logits: "torch.Tensor"
    vectors: "torch.Tensor"
    marks: "torch.Tensor"


OutputWeight = Callable[[], "torch.Tensor"]  # returns the current weight of the output layer, [vocabulary, hidden]
Loss = Callable[[MarkedBatch], "torch.Tensor"]  # the debiasing loss of a batch, summed over its marked occurrences


class Method(NamedTuple):
    """A debiasing method.

    Attributes:
        trained_texts: Selects the texts to train on from the training phrases.
        marks: Selects the marked tokens of the loss, one of `phrases.MARKS`, from the options of debias.py. `None` if
            the method has only the language modelling loss, without a debiasing loss.
        make_loss: Makes the loss from the terms of the pairs, the output layer and the options of debias.py.
        with_forms: Whether the loss includes plurals and other forms of the target terms. Texts always mark these
            forms.
    """

    trained_texts: "Callable[[Phrases], list[str]]"
    marks: Callable[[DebiasArguments], str] | None = None
    make_loss: "Callable[[Terms, OutputWeight, DebiasArguments], Loss] | None" = None
    with_forms: bool = False


def load_method(name: str) -> Method:
    """Loads a method by its name in `METHODS`, which the command line has checked."""
    return import_module(f"{__package__}.{name}").METHOD
