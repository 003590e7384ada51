"""Chooses the form in which a model reads prompts, and reads the record of bias tuning in a tuned model's folder.

During tuning (Smith et al., 2022, C.1), prompts end in a control tag: the word "bias" or "no_bias". The tuned model is
measured on prompts that end in "no_bias".
"""

import json
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

from hb_metrics.models.chats import DEFAULT_CHAT, ChatOptions, check_template_reads
from hb_metrics.models.contexts import CONTEXTS, ContextFormat, detect_context
from hb_metrics.models.loading import LoadedTokenizer
from hb_metrics.models.sources import file_of

Tag = Literal["bias", "no_bias"]
BIAS, NO_BIAS = TAGS = get_args(Tag)
TUNING_FILE = "bias_tuning.json"
# Options in run.json that affect replies. The context format and the tag are recorded separately.
ASKED_WITH = ("system_prompt", "chat_template_kwargs", "cue")
_METHODS = {"counterfactual": "counterfactual distillation"}
POSITION = "the last word of the prompt, after a space and before the end of the turn"


@dataclass(frozen=True, kw_only=True)
class BiasTuning:
    """The record of a model's bias tuning.

    Attributes:
        tag: The tag with which to measure the model, or `None` if it was tuned without tags.
        alpha: The exponent α of the bias values, or `None` if there are no labels.
        beta: The bias value β above which a reply was tagged "bias", or `None` if there are no labels.
        labels: The run, the model and the style classifier that produced the labels or the training replies.
        asked_with: The values that the options in `ASKED_WITH` had in the run that generated the training replies.
            `None` if the values are unknown.
        tag_in_template: Whether the model's chat template adds the tag. If not, only this toolkit sends the tag.
    """

    tag: Tag | None
    context: ContextFormat
    alpha: int | None
    beta: float | None
    labels: dict[str, object]
    training: dict[str, Any]
    place: str = POSITION
    asked_with: dict[str, object] | None = None
    tag_in_template: bool = False

    @property
    def method(self) -> str:
        return str(self.training["method"])


def read_bias_tuning(name: str, revision: str | None = None) -> BiasTuning | None:
    path = file_of(name, TUNING_FILE, revision)
    if path is None:
        return None
    try:
        tuning = BiasTuning(**json.loads(path.read_text(encoding="utf-8")))
        if tuning.tag not in (*TAGS, None) or tuning.context not in CONTEXTS or not isinstance(tuning.training, dict):
            raise TypeError(f"tag {tuning.tag!r}, context {tuning.context!r}, training {tuning.training!r}")
    except (ValueError, TypeError, AttributeError) as error:
        raise ValueError(f"'{path}' is not a record of bias tuning ({error}); remove it, and set --tag") from error
    return tuning


def choose_tag(tag: str, tuning: BiasTuning | None) -> tuple[Tag | None, str]:
    if tag == "auto":
        if tuning is None:
            return None, "the model has no record of bias tuning with tags"
        if tuning.tag is None:
            by = "" if tuning.method == "sft" else f"by {_METHODS.get(tuning.method, tuning.method)}, "
            return None, f"the model was tuned {by}without tags"
        sent = "its chat template sends it" if tuning.tag_in_template else "other programs do not send it"
        return tuning.tag, f"the model was tuned with it, and {sent}"
    if tag == "none":
        return None, "--tag none was given"
    return (BIAS if tag == BIAS else NO_BIAS), f"--tag {tag} was given"


class Layout(NamedTuple):
    """The form in which a model reads prompts, and the reasons for choosing this form.

    Attributes:
        tuned_with: For a tuned model, the values that the options in `ASKED_WITH` had in the run that
            generated the training replies.
    """

    context: ContextFormat
    context_reason: str = ""
    tag: Tag | None = None
    tag_reason: str = ""
    chat: ChatOptions = DEFAULT_CHAT
    tuned_with: dict[str, object] | None = None


def choose_layout(
    loaded: LoadedTokenizer | None,
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
        tuning = None if adapter is None else read_bias_tuning(adapter.name, adapter.revision)
        tuning = tuning or read_bias_tuning(loaded.source, loaded.revision)  # an adapter may be added to a tuned model
    chosen_tag, tag_reason = choose_tag(tag, tuning)
    chosen: ContextFormat
    if context != "auto":
        chosen, reason = context, f"--context {context} was given"
    elif loaded is None:
        chosen, reason = "chat", "the model is not loaded here"
    elif tuning is not None:
        chosen, reason = tuning.context, "the model was tuned in this context"
    else:
        chosen, reason = detect_context(loaded, loaded.tokenizer)
    if chosen != "chat":
        for option, value in chat.description().items():
            if value is not None:
                raise ValueError(f"{option} applies only to chats, but the context is '{chosen}'; remove --{option}")
    elif loaded is not None:
        check_template_reads(chat, loaded.tokenizer)
    return Layout(chosen, reason, chosen_tag, tag_reason, chat, None if tuning is None else tuning.asked_with)
