"""Reads what servers answer: the text, what was thought before it, tokens, why it ended, and which model it is of.

Nothing is believed that contradicts itself: an answer that does not hold together is asked for again, and a count of
tokens that cannot be is left out.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol, TypeVar

from hb_metrics.inference.models.thoughts import Written, read_written
from hb_metrics.inference.served.client import Passing

# How servers say that the model itself ended its answer: all, and TGI before 2.1.
ENDED = ("stop", "eos_token", "stop_sequence")
# What servers call the field of a thought: vLLM, SGLang and transformers; Inference Providers, and vLLM since 0.11.
_REASONING_FIELDS = ("reasoning_content", "reasoning")

_NO_ANSWER = "an answer that is no JSON of the form asked for"


class _OfModel(Protocol):
    @property
    def model(self) -> str | None: ...


A = TypeVar("A", bound=_OfModel)


class ServedAnswer(NamedTuple):
    """What a server answered.

    Attributes:
        text: What was written, without the thought; `None`: nothing.
        reasoning: What was thought before; `None`: nothing.
        is_open: Whether the thought did not end.
        inline: Whether the thought was between marks in the text, and not given apart.
        invents_turn: Whether the model went on with somebody else's turn, which is left out.
        finish_reason: Why it ended, as the server says it: "stop", "length", "content_filter", …
        num_tokens: Tokens of text and thought; `None`: not given, or not believed.
        num_reasoning_tokens: Those of the thought; `None`: not given.
        num_prompt_tokens: Tokens of what was asked; `None`: not given.
        model: The model that it is of, as the server says it; `None`: nothing is said.
        fingerprint: What else identifies that model, as the server says it.
        bad_counts: Whether counts of tokens were given that cannot be.
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


def read_chat(content: Any, *, max_tokens: int) -> ServedAnswer:
    """Reads an answer of `/chat/completions`.

    Args:
        content: The content of the answer.
        max_tokens: The tokens that were asked for at most.

    Raises:
        Passing: It is not of the form, or not whole.
    """
    choice = _choice(content)
    message = choice.get("message")
    if not isinstance(message, Mapping):
        raise Passing(_NO_ANSWER)
    text, thought = message.get("content"), _first_text(message, _REASONING_FIELDS)
    if not isinstance(text, str | None):
        raise Passing(_NO_ANSWER)
    written = read_written(text or "")
    inline = written.reasoning is not None
    if thought is not None:  # what is between marks beside it is thought, too
        is_open = written.is_open or (not text and choice.get("finish_reason") == "length")
        written = written._replace(reasoning="\n".join(filter(None, [thought, written.reasoning])), is_open=is_open)
    return _answer(content, choice, written, inline, max_tokens)


def read_completion(content: Any, *, max_tokens: int) -> ServedAnswer:
    """Reads an answer of `/completions`. Arguments and errors as `read_chat`."""
    choice = _choice(content)
    text = choice.get("text")
    if not isinstance(text, str):
        raise Passing(_NO_ANSWER)
    written = read_written(text)
    return _answer(content, choice, written, written.reasoning is not None, max_tokens)


def check_model(answer: A, model: str | None) -> A:
    """Returns the answer unchanged; raises `Passing` if it came from a different model."""
    if answer.model != model:
        raise Passing(f"an answer of model {_quoted(answer.model)}, where the others are of {_quoted(model)}")
    return answer


def _answer(
    content: Mapping[str, Any],
    choice: Mapping[str, Any],
    written: Written,
    inline: bool,
    max_tokens: int,
) -> ServedAnswer:
    finish_reason = choice.get("finish_reason")
    if not isinstance(finish_reason, str) or not finish_reason:
        raise Passing("half an answer: nothing states why it ended")
    counts = _counts(content.get("usage"), written.reply + (written.reasoning or ""), max_tokens)
    return ServedAnswer(
        text=_whole(written.reply) or None,
        reasoning=None if written.reasoning is None else _whole(written.reasoning),
        is_open=written.is_open,
        inline=inline,
        invents_turn=written.invents_turn,
        finish_reason=_whole(finish_reason),
        model=_text(content.get("model")),
        fingerprint=_text(content.get("system_fingerprint")),
        **counts,
    )


def _counts(usage: Any, written: str, max_tokens: int) -> dict[str, Any]:
    """The counts of tokens that can be: as many as were asked for at most, and some where something was written."""
    usage = usage if isinstance(usage, Mapping) else {}
    details = usage.get("completion_tokens_details")
    prompt, number = _count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens"))
    thought = _count(details.get("reasoning_tokens")) if isinstance(details, Mapping) else None
    given = usage.get("completion_tokens") is not None
    if number is not None and (number > max_tokens or (not number and written.strip())):
        number = None
    if number is None or (thought is not None and thought > number):
        thought = None
    return {
        "num_tokens": number,
        "num_reasoning_tokens": thought,
        "num_prompt_tokens": prompt,
        "bad_counts": given and number is None,
    }


def _choice(content: Any) -> Mapping[str, Any]:
    choices = content.get("choices") if isinstance(content, Mapping) else None
    if not isinstance(choices, list) or len(choices) != 1 or not isinstance(choices[0], Mapping):
        raise Passing(_NO_ANSWER)
    return choices[0]


def _first_text(content: Mapping[str, Any], names: tuple[str, ...]) -> str | None:
    texts = (content.get(name) for name in names)
    return next((text.strip() for text in texts if isinstance(text, str) and text.strip()), None)


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _text(value: Any) -> str | None:
    return _whole(value) if isinstance(value, str) and value else None


def _whole(text: str) -> str:
    """A text that can be written: JSON may hold half a character."""
    return text.encode(errors="replace").decode()


def _quoted(model: str | None) -> str:
    return "no name" if model is None else f"'{model}'"
