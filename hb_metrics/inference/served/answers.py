"""Reads a server's answers: the text, any thought before it, the token counts, the finish reason, and the model's name.

An answer that contradicts itself is requested again. An impossible token count is left out.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from hb_metrics.inference.models.thoughts import Written, read_written
from hb_metrics.inference.served.client import NO_ANSWER, Passing

# Finish reasons of an answer that the model itself ended. The last two are from TGI before 2.1.
ENDED = ("stop", "eos_token", "stop_sequence")
# The fields with a thought: the first in vLLM, SGLang and transformers, the second in Inference Providers and in vLLM
# since 0.11.
_REASONING_FIELDS = ("reasoning_content", "reasoning")


class ServedAnswer(NamedTuple):
    """A server's answer. Unknown or missing parts are `None`.

    Attributes:
        text: The text without the thought.
        is_open: Whether the thought did not end.
        inline: Whether the thought was between marks in the text and not in a separate field.
        invents_turn: Whether the model went on to write another speaker's turn, which is left out.
        finish_reason: The server's reason for ending the answer, such as "stop", "length" or "content_filter".
        num_tokens: The number of tokens in the text and the thought.
        bad_counts: Whether the server returned an impossible token count.
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
    bad_counts: bool = False


def read_answer(content: Any, *, max_tokens: int) -> ServedAnswer:
    """Reads an answer from `/chat/completions` or `/completions`. Raises `Passing` if the answer is incomplete."""
    choice = choice_of(content)
    message = choice.get("message", {"content": choice.get("text", 0)})
    text = message.get("content") if isinstance(message, Mapping) else 0
    if not isinstance(text, str | None):
        raise Passing(NO_ANSWER)
    finish_reason = choice.get("finish_reason")
    if not isinstance(finish_reason, str) or not finish_reason:
        raise Passing("the answer does not state why it ended, so it may be incomplete")
    written = read_written(text or "")
    inline = written.reasoning is not None
    thoughts = [message.get(name) for name in _REASONING_FIELDS]
    thought = next((text.strip() for text in thoughts if isinstance(text, str) and text.strip()), None)
    if thought is not None:  # text between marks, beside this field, is also thought
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
        raise Passing(f"the answer comes from model '{model}', but earlier answers came from '{expected}'")


def choice_of(content: Any) -> Mapping[str, Any]:
    """Returns the only choice in an answer. Raises `Passing` if there is not exactly one."""
    choices = content.get("choices") if isinstance(content, Mapping) else None
    if not isinstance(choices, list) or len(choices) != 1 or not isinstance(choices[0], Mapping):
        raise Passing(NO_ANSWER)
    return choices[0]


def count_of(usage: Any, name: str) -> int | None:
    value = usage.get(name) if isinstance(usage, Mapping) else None
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31 else None


def text_of(value: Any) -> str | None:
    return _whole(value) if isinstance(value, str) and value else None


def _counts(usage: Any, written: Written, max_tokens: int) -> dict[str, Any]:
    """Returns the token counts that are plausible.

    A reply has at most the requested number of tokens and, if it has any text, at least one token.
    """
    number = count_of(usage, "completion_tokens")
    has_text = bool((written.reply + (written.reasoning or "")).strip())
    if number is not None and (number > max_tokens or (not number and has_text)):
        number = None
    given = isinstance(usage, Mapping) and usage.get("completion_tokens") is not None
    thought = None
    if number is not None:
        thought = count_of(usage.get("completion_tokens_details"), "reasoning_tokens")
        thought = None if thought is None or thought > number else thought
    return {
        "num_tokens": number,
        "num_reasoning_tokens": thought,
        "num_prompt_tokens": count_of(usage, "prompt_tokens"),
        "bad_counts": given and number is None,
    }


def _whole(text: str) -> str:
    """Makes a text encodable, because JSON may contain half of a character."""
    return text.encode(errors="replace").decode()
