"""A debiasing method. Each file in this folder defines one as `METHOD`, with its texts, terms and loss."""

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from hb_train.debiasing.arguments import DebiasArguments

if TYPE_CHECKING:
    import torch

    from hb_train.debiasing.phrases import Phrases
    from hb_train.debiasing.terms import Terms

# The files import torch, which takes seconds, so only the file of the chosen method is imported.


class MarkedBatch(NamedTuple):
    """The input of a debiasing loss.

    Shapes: `logits` (of the tokens from the second one) is [rows, length − 1, vocabulary], `vectors` (inputs of the
    output layer) is [rows, length, hidden], and `marks` (the column named by `Method.marks`) is [rows, length].
    """

    logits: "torch.Tensor"
    vectors: "torch.Tensor"
    marks: "torch.Tensor"


OutputWeight = Callable[[], "torch.Tensor"]  # returns the current weight of the output layer, [vocabulary, hidden]
Loss = Callable[[MarkedBatch], "torch.Tensor"]  # the debiasing loss of a batch, summed over its marked occurrences


class Method(NamedTuple):
    """A debiasing method. `marks` is one of `phrases.MARKS`, or `None` if there is no debiasing loss.

    Texts always mark plurals and other forms of the target terms. If `with_forms` is true, the loss includes them too.
    """

    trained_texts: "Callable[[Phrases], list[str]]"
    marks: Callable[[DebiasArguments], str] | None = None
    make_loss: "Callable[[Terms, OutputWeight, DebiasArguments], Loss] | None" = None
    with_forms: bool = False


def load_method(name: str) -> Method:
    return import_module(f"{__package__}.{name}").METHOD
