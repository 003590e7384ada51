"""Reads a server's answers.

An invalid answer raises `TemporaryFault`, so that it is requested again. `None` replaces an impossible token count.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from hb_metrics.inference.models.thoughts import Written, read_written
from hb_metrics.inference.served.client import NO_ANSWER, TemporaryFault

# The finish reasons of answers that the model itself ended. TGI before 2.1 uses the last two.
ENDED = ("stop", "eos_token", "stop_sequence")
# The fields that may contain a thought. vLLM, SGLang and transformers use the first field. Inference Providers and vLLM
# since 0.11 use the second.
_REASONING_FIELDS = ("reasoning_content", "reasoning")


class ServedAnswer(NamedTuple):
    """A server's answer. An attribute is `None` if its value is unknown or missing.

    Attributes:
        is_open: Whether the thought was cut before it ended.
        inline: Whether the thought was part of the text, between marks, rather than in a separate field.
        invents_turn: Whether the model wrote more text after its turn, which `text` does not include.
        finish_reason: "stop", "length", "content_filter" or another reason why the answer ended.
        num_tokens: The number of tokens in the text and the thought together.
        fingerprint: The server's identifier of its configuration.
    """

    text: str | None
    reasoning: str | None
    is_open: bool
    inline: bool
    invents_turn: bool
    finish_reason: str | None
    num_tokens: int | None
    num_reasoning_tokens: int | None
    num_prompt_tokens: int | None
    model: str | None
    fingerprint: str | None


def read_served_answer(content: Any, *, max_tokens: int) -> ServedAnswer:
    """Reads an answer from `/chat/completions` or `/completions`."""
    choice = choice_of(content)
    message = choice.get("message", {"content": choice.get("text", 0)})
    text = message.get("content") if isinstance(message, Mapping) else 0
    if not isinstance(text, str | None):
        raise TemporaryFault(NO_ANSWER)
    finish_reason = choice.get("finish_reason")
    if not isinstance(finish_reason, str) or not finish_reason:
        raise TemporaryFault("the answer does not state why it ended, so it may be incomplete")
    written = read_written(text or "")
    inline = written.reasoning is not None
    thoughts = [message.get(name) for name in _REASONING_FIELDS]
    thought = next((text.strip() for text in thoughts if isinstance(text, str) and text.strip()), None)
    if thought is not None:  # the text may contain a further thought between marks
        is_open = written.is_open or (not text and finish_reason == "length")
        written = written._replace(reasoning="\n".join(filter(None, [thought, written.reasoning])), is_open=is_open)
    return ServedAnswer(
        text=_whole(written.reply) or None,
        reasoning=None if written.reasoning is None else _whole(written.reasoning),
        is_open=written.is_open,
        inline=inline,
        invents_turn=written.invents_turn,
        finish_reason=_whole(finish_reason),
        model=text_of(content.get("model")),
        fingerprint=text_of(content.get("system_fingerprint")),
        **_counts(content.get("usage"), written, max_tokens),
    )


def check_model(model: str | None, expected: str | None) -> None:
    if model != expected:
        raise TemporaryFault(f"the answer comes from model '{model}', but earlier answers came from '{expected}'")


def choice_of(content: Any) -> Mapping[str, Any]:
    choices = content.get("choices") if isinstance(content, Mapping) else None
    if not isinstance(choices, list) or len(choices) != 1 or not isinstance(choices[0], Mapping):
        raise TemporaryFault(NO_ANSWER)
    return choices[0]


def count_of(usage: Any, name: str) -> int | None:
    value = usage.get(name) if isinstance(usage, Mapping) else None
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31 else None


def text_of(value: Any) -> str | None:
    return _whole(value) if isinstance(value, str) and value else None


def _counts(usage: Any, written: Written, max_tokens: int) -> dict[str, Any]:
    """Returns the token counts in an answer. Impossible counts are `None`.

    A count is impossible if it exceeds the requested maximum, or if it is 0 although the text is not empty.
    """
    number = count_of(usage, "completion_tokens")
    has_text = bool((written.reply + (written.reasoning or "")).strip())
    if number is not None and (number > max_tokens or (not number and has_text)):
        number = None
    thought = None
    if number is not None:
        thought = count_of(usage.get("completion_tokens_details"), "reasoning_tokens")
        thought = None if thought is None or thought > number else thought
    return {
        "num_tokens": number,
        "num_reasoning_tokens": thought,
        "num_prompt_tokens": count_of(usage, "prompt_tokens"),
    }


def _whole(text: str) -> str:
    """Replaces unpaired surrogates, which JSON may contain, with question marks."""
    return text.encode(errors="replace").decode()
