"""Log-probabilities of a text's own tokens, as servers give them with `/completions`.

Two forms: `echo` with `logprobs` (OpenAI's, also of vLLM and llama-cpp-python), and vLLM's `prompt_logprobs`. Servers
that know neither answer all the same and leave them out, or give those of what they wrote; so what comes back counts
only if it is about the tokens of the text, and of all of them.
"""

from collections.abc import Mapping, Sequence
from math import fsum, isfinite
from typing import Any, Literal, NamedTuple

from hb_metrics.inference.served.client import Passing

Form = Literal["echo", "prompt_logprobs"]

FIELDS: dict[Form, dict[str, Any]] = {
    "echo": {"echo": True, "logprobs": 1, "max_tokens": 1, "temperature": 0},
    "prompt_logprobs": {"prompt_logprobs": 0, "max_tokens": 1, "temperature": 0},
}
_HALF_CHARACTER = ("\ufffd", "bytes:", "<0x")  # in the text of tokens that are part of a character
_ROUNDING = 1e-3  # how far above 0 half precision may put a log-probability


class TextLikelihood(NamedTuple):
    """The likelihood of a text.

    Attributes:
        log_likelihood: Summed over the predicted tokens, natural log.
        num_tokens: How many tokens were predicted.
        start_token: The token before the text; `None`: there is none, and the first token is context only.
        model: The model, as the server says it.
    """

    log_likelihood: float
    num_tokens: int
    start_token: str | None
    model: str | None


def read_likelihood(content: Any, text: str, form: Form) -> TextLikelihood:
    """Reads the log-probabilities of a text's tokens out of an answer of `/completions`.

    Args:
        content: The content of the answer.
        text: The text.
        form: What was asked for.

    Raises:
        Passing: There are none, they are of other tokens, or not of all of them.
    """
    choices = content.get("choices") if isinstance(content, Mapping) else None
    if not isinstance(choices, list) or len(choices) != 1 or not isinstance(choices[0], Mapping):
        raise Passing("no log-probabilities of the prompt")
    tokens, values = (_echoed if form == "echo" else _of_prompt)(choices[0])
    number = _prompt_tokens(content)
    if number is not None:
        if len(tokens) < number:
            raise Passing("log-probabilities that do not cover the prompt")
        tokens, values = tokens[:number], values[:number]  # one more is written than nothing
    elif form == "echo":
        tokens, values = _without_written(tokens, values, text)
    start = _start_token(tokens, text)
    if start is not None and values[0]:  # nothing predicts it: the values are those of other tokens
        raise Passing("a log-probability beside the token before the text, as if all were shifted by one")
    # The first token is predicted by nothing, unless the server hides what it is predicted by.
    predicted = values[1:] if start is not None or not values[0] else values
    if not predicted or any(value is None for value in predicted):
        raise Passing("log-probabilities that do not cover the prompt")
    numbers = [value for value in predicted if value is not None]
    if any(not isfinite(value) or value > _ROUNDING for value in numbers):
        raise Passing("log-probabilities that are no such numbers")
    model = content.get("model")
    return TextLikelihood(fsum(numbers), len(numbers), start, model if isinstance(model, str) and model else None)


def written(content: Any, text: str, form: Form) -> tuple[str, float]:
    """The token that was written after a text, and its log-probability, where `logprobs` were asked for.

    Raises:
        Passing: They are not given.
    """
    choice = content["choices"][0]
    tokens, values = _echoed(choice)
    number = len(tokens) - 1 if form == "echo" else 0
    if len(tokens) != number + 1 or not tokens[-1].strip() or values[-1] is None:
        raise Passing("no log-probability of what was written")
    if form == "echo" and not "".join(tokens[:-1]).strip().endswith(text.strip()):
        raise Passing("log-probabilities that do not cover the prompt")
    return tokens[-1], values[-1]


def alternatives(content: Any, form: Form) -> list[list[float]]:
    """[places of the prompt] log-probabilities of several tokens that might stand there."""
    choice = content["choices"][0]
    places = choice["logprobs"].get("top_logprobs") if form == "echo" else choice["prompt_logprobs"]
    if form == "prompt_logprobs":
        return [[each["logprob"] for each in place.values()] for place in places or () if place]
    return [list(place.values()) for place in places or () if place]


def _echoed(choice: Mapping[str, Any]) -> tuple[list[str], list[float | None]]:
    given = choice.get("logprobs")
    tokens = given.get("tokens") if isinstance(given, Mapping) else None
    values = given.get("token_logprobs") if isinstance(given, Mapping) else None
    if not isinstance(tokens, list) or not isinstance(values, list) or not tokens or len(tokens) != len(values):
        raise Passing("no log-probabilities of the prompt")
    return [str(token) for token in tokens], [_number(value) for value in values]


def _of_prompt(choice: Mapping[str, Any]) -> tuple[list[str], list[float | None]]:
    given = choice.get("prompt_logprobs")
    if not isinstance(given, list) or not given:
        raise Passing("no log-probabilities of the prompt")
    tokens: list[str] = []
    values: list[float | None] = []
    for position, candidates in enumerate(given):
        if candidates is None and position == 0:
            tokens.append("")  # its text is not given
            values.append(None)
            continue
        if not isinstance(candidates, Mapping) or len(candidates) != 1:  # else nothing shows which is the prompt's own
            raise Passing("log-probabilities that do not cover the prompt")
        (candidate,) = candidates.values()
        if not isinstance(candidate, Mapping):
            raise Passing("log-probabilities that do not cover the prompt")
        tokens.append(str(candidate.get("decoded_token") or ""))
        values.append(_number(candidate.get("logprob")))
    return tokens, values


def _start_token(tokens: Sequence[str], text: str) -> str | None:
    """The token before the text; `None`: the first is the text's own. Raises `Passing` if they are not the text's."""
    if any(mark in token for token in tokens for mark in _HALF_CHARACTER):
        return None if text.lstrip().startswith(tokens[0].lstrip() or "\x00") else tokens[0]
    joined, rest = "".join(tokens).strip(), "".join(tokens[1:]).strip()
    if joined == text.strip() and tokens[0]:
        return None
    if rest == text.strip():
        return tokens[0] or "a token before the text"
    head = text.strip().removesuffix(rest)
    if not tokens[0] and rest and head != text.strip() and len(head.split()) == 1:  # the first token is not shown
        return None
    raise Passing("log-probabilities that do not cover the prompt")


def _without_written(tokens: list[str], values: list[float | None], text: str) -> tuple[list[str], list[float | None]]:
    """Without the token that was written after the text, of a server that counts no tokens of the prompt."""
    for end in (len(tokens), len(tokens) - 1):
        if "".join(tokens[:end]).strip().endswith(text.strip()):
            return tokens[:end], values[:end]
    raise Passing("log-probabilities that do not cover the prompt")


def _prompt_tokens(content: Mapping[str, Any]) -> int | None:
    usage = content.get("usage")
    number = usage.get("prompt_tokens") if isinstance(usage, Mapping) else None
    return number if isinstance(number, int) and not isinstance(number, bool) and number > 0 else None


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
