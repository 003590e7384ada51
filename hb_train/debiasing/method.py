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

    Shapes: `logits` (of the tokens from the second on) [rows, length − 1, vocabulary], `vectors` (inputs of the output
    layer) [rows, length, hidden], `marks` (the column named by `Method.marks`) [rows, length].
    """

    logits: "torch.Tensor"
    vectors: "torch.Tensor"
    marks: "torch.Tensor"


OutputWeight = Callable[[], "torch.Tensor"]  # returns the current weight of the output layer, [vocabulary, hidden]
Loss = Callable[[MarkedBatch], "torch.Tensor"]  # the debiasing loss of a batch, summed over its marked occurrences


class Method(NamedTuple):
    """A debiasing method; `marks` selects one of `phrases.MARKS`, and is `None` if there is no debiasing loss.

    With `with_forms`, the loss includes plurals and other forms of the target terms, which texts always mark.
    """

    trained_texts: "Callable[[Phrases], list[str]]"
    marks: Callable[[DebiasArguments], str] | None = None
    make_loss: "Callable[[Terms, OutputWeight, DebiasArguments], Loss] | None" = None
    with_forms: bool = False


def load_method(name: str) -> Method:
    return import_module(f"{__package__}.{name}").METHOD
