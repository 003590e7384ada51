from collections.abc import Sequence
from typing import Literal, NamedTuple

from hb_metrics.models.bias_tags import Tag, choose_tag, read_bias_tuning
from hb_metrics.models.chats import DEFAULT_CHAT, ChatOptions, chat_messages, check_template_reads
from hb_metrics.models.contexts import ContextFormat, detect_context, render_messages, with_tag
from hb_metrics.models.loading import LoadedModel, LoadedTokenizer


class Layout(NamedTuple):
    """The form in which a model reads prompts, and the reasons for choosing this form.

    Attributes:
        tuned_with: For a tuned model, the values that the options in `bias_tags.ASKED_WITH` had in the run that
            generated the training replies.
    """

    context: ContextFormat
    context_reason: str
    tag: Tag | None
    tag_reason: str
    chat: ChatOptions = DEFAULT_CHAT
    tuned_with: dict[str, object] | None = None


def choose_layout(
    loaded: LoadedModel | None,
    *,
    context: ContextFormat | Literal["auto"],
    tag: str,
    chat: ChatOptions = DEFAULT_CHAT,
) -> Layout:
    """Chooses the form in which the model reads prompts.

    The user's options have the highest priority, followed by the form in which the model was tuned, and then by the
    usual form for this kind of model. If the model is not loaded here (`loaded` is `None`), the default context is a
    chat.
    """
    tuning = None
    if loaded is not None:
        adapter = loaded.adapter
        files = (loaded.source, loaded.revision) if adapter is None else (adapter.name, adapter.revision)
        tuning = read_bias_tuning(*files)
    chosen_tag, tag_reason = choose_tag(tag, tuning)
    chosen: ContextFormat
    if context != "auto":
        chosen, reason = context, f"--context {context} was given"
    elif loaded is None:
        chosen, reason = "chat", "the model is not loaded here"
    elif tuning is not None:
        chosen, reason = tuning.context, "the model was tuned in this context"
    else:
        chosen, reason = detect_context(loaded.model, loaded.tokenizer)
    if chosen != "chat":
        for option, value in chat.description().items():
            if value is not None:
                raise ValueError(
                    f"{option} applies only to chats, but the context is '{chosen}' ({reason}); remove --{option}, or "
                    "set --context chat"
                )
    elif loaded is not None:
        check_template_reads(chat, loaded.tokenizer)
    return Layout(chosen, reason, chosen_tag, tag_reason, chat, None if tuning is None else tuning.asked_with)


def render_prompts(texts: Sequence[str], loaded: LoadedTokenizer, layout: Layout) -> list[str]:
    """Renders prompts up to the beginning of the reply, so that the model does not think first."""
    return render_messages(
        [chat_messages(with_tag(text, layout.tag), [], layout.chat) for text in texts],
        loaded.tokenizer,
        layout.context,
        is_encoder_decoder=loaded.config.is_encoder_decoder,
        chat=layout.chat,
        thought=False,
    )
