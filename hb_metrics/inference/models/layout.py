"""How prompts are laid out for a model: the context format and the control tag."""

from typing import Literal, NamedTuple

from hb_metrics.inference.models.bias_tags import Tag, choose_tag, read_bias_tuning
from hb_metrics.inference.models.contexts import ContextFormat, detect_context
from hb_metrics.inference.models.loading import LoadedModel


class Layout(NamedTuple):
    """How prompts are laid out for a model.

    Attributes:
        context: The context format.
        context_reason: Why this one.
        tag: The control tag at the end of each context; `None`: none.
        tag_reason: Why.
    """

    context: ContextFormat
    context_reason: str
    tag: Tag | None
    tag_reason: str


def choose_layout(loaded: LoadedModel, *, context: ContextFormat | Literal["auto"], tag: str) -> Layout:
    """What was given, else what the model was tuned with, else what suits the model.

    Args:
        loaded: The model.
        context: A context format, or "auto".
        tag: A control tag, "none" or "auto".

    Raises:
        ValueError: The model was not tuned with this tag.
    """
    tuning = read_bias_tuning(loaded.source, loaded.revision)
    chosen_tag, tag_reason = choose_tag(tag, tuning)
    if context != "auto":
        return Layout(context, f"--context {context} was given", chosen_tag, tag_reason)
    if tuning is not None:
        return Layout(tuning.context, "the model was tuned in it", chosen_tag, tag_reason)
    return Layout(*detect_context(loaded.model, loaded.tokenizer), chosen_tag, tag_reason)
