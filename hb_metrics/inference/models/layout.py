"""How prompts are laid out for a model: the context format, the control tag, and what a chat template is given."""

from typing import Any, Literal, NamedTuple

from hb_metrics.inference.models.bias_tags import Tag, choose_tag, read_bias_tuning
from hb_metrics.inference.models.chats import CHAT_DATE, DEFAULT_CHAT, ChatOptions, check_template_reads
from hb_metrics.inference.models.contexts import ContextFormat, detect_context
from hb_metrics.inference.models.loading import LoadedModel

NO_CHAT_ERROR = (
    "{option} is for chats, and prompts are laid out in context '{context}' ({reason}); leave it out, or give "
    "--context chat"
)


class Layout(NamedTuple):
    """How prompts are laid out for a model.

    Attributes:
        context: The context format.
        context_reason: Why this one.
        tag: The control tag at the end of each context; `None`: none.
        tag_reason: Why.
        chat: What the chat template is given beside the prompt.
        tuned_with: What the replies that the model was tuned on were asked for with (`bias_tags.ASKED_WITH`); `None`:
            it was not tuned, or that is not known.
        label_ceiling: The ceiling of the labels that the model was tuned on; `None`: there are none, or it is not
            known.
    """

    context: ContextFormat
    context_reason: str
    tag: Tag | None
    tag_reason: str
    chat: ChatOptions = DEFAULT_CHAT
    tuned_with: dict[str, Any] | None = None
    label_ceiling: dict[str, Any] | None = None


def choose_layout(
    loaded: LoadedModel,
    *,
    context: ContextFormat | Literal["auto"],
    tag: str,
    chat: ChatOptions = DEFAULT_CHAT,
) -> Layout:
    """What was given, else what the model was tuned with, else what suits the model.

    Args:
        loaded: The model.
        context: A context format, or "auto".
        tag: A control tag, "none" or "auto".
        chat: What the chat template is given beside the prompt.

    Raises:
        ValueError: The tag is not known, or there is something for the chat template that it cannot read, since the
            layout is no chat or the template does not name it.
    """
    tuning = read_bias_tuning(loaded.source, loaded.revision)
    chosen_tag, tag_reason = choose_tag(tag, tuning)
    chosen: ContextFormat
    if context != "auto":
        chosen, reason = context, f"--context {context} was given"
    elif tuning is not None:
        chosen, reason = tuning.context, "the model was tuned in it"
    else:
        chosen, reason = detect_context(loaded.model, loaded.tokenizer)
    _check_chat(chat, chosen, reason)
    if chosen == "chat":
        check_template_reads(chat, loaded.tokenizer)
    if tuning is None:
        return Layout(chosen, reason, chosen_tag, tag_reason, chat)
    return Layout(chosen, reason, chosen_tag, tag_reason, chat, tuning.asked_with, tuning.labels.get("ceiling"))


def unloaded_layout(*, context: ContextFormat | Literal["auto"], tag: str, chat: ChatOptions = DEFAULT_CHAT) -> Layout:
    """How prompts are laid out for a model that is not loaded here: as chats, unless another context was given.

    Arguments and errors as `choose_layout`; what its chat template reads is not known.
    """
    chosen_tag, tag_reason = choose_tag(tag, None)
    chosen: ContextFormat = "chat" if context == "auto" else context
    reason = "the model is not loaded here" if context == "auto" else f"--context {context} was given"
    _check_chat(chat, chosen, reason)
    return Layout(chosen, reason, chosen_tag, tag_reason, chat)


def _check_chat(chat: ChatOptions, context: ContextFormat, reason: str) -> None:
    """Raises a ValueError if there is something for a chat, and the layout is none."""
    if context == "chat":
        return
    for option, value in (
        ("chat_template_kwargs", chat.template_kwargs or None),
        ("system_prompt", chat.system_prompt),
        ("chat_date", None if chat.date == CHAT_DATE else chat.date),
    ):
        if value is not None:
            raise ValueError(NO_CHAT_ERROR.format(option=option, context=context, reason=reason))
