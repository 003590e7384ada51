"""Reads the log-probabilities of a text's own tokens, which servers return for `echo` and `logprobs` of `/completions`.

Servers that do not support these fields still answer, but without log-probabilities or with those of the text that they
generated. Log-probabilities are accepted only if they cover all tokens of the text and no other tokens.
"""

from collections.abc import Mapping, Sequence
from math import fsum, isfinite
from typing import Any, NamedTuple

from hb_metrics.inference.served.answers import choice_of, count_of, text_of
from hb_metrics.inference.served.client import Passing

FIELDS: dict[str, Any] = {"echo": True, "logprobs": 1, "max_tokens": 1, "temperature": 0}
_HALF_CHARACTER = ("\ufffd", "bytes:", "<0x")  # occurs in the text of tokens that are part of a character
_ROUNDING = 1e-3  # how far above 0 half precision may raise a log-probability
_NOT_COVERED = "log-probabilities that do not cover the prompt"


class TextLikelihood(NamedTuple):
    """The natural logarithm of a text's likelihood, summed over the `num_tokens` predicted tokens.

    `start_token` is the token before the text. If there is none, the first token is only context.
    """

    log_likelihood: float
    num_tokens: int
    start_token: str | None
    model: str | None


def read_likelihood(content: Any, text: str) -> TextLikelihood:
    """Reads a text's log-probabilities by token from an answer of `/completions`. Raises `Passing` without them."""
    tokens, values = _echoed(content)
    number = count_of(content.get("usage"), "prompt_tokens")
    if number:
        if len(tokens) < number:
            raise Passing(_NOT_COVERED)
        tokens, values = tokens[:number], values[:number]  # servers generate at least one token
    else:
        tokens, values = _without_written(tokens, values, text)
    start = _start_token(tokens, text)
    if start is not None and values[0]:  # nothing predicts the first token, so the values belong to other tokens
        raise Passing("the answer has a log-probability for the token before the text, as if all were shifted by one")
    # Nothing predicts the first token, unless the server hides the token before it.
    predicted = values[1:] if start is not None or not values[0] else values
    numbers = [value for value in predicted if value is not None]
    if not numbers or len(numbers) < len(predicted):
        raise Passing(_NOT_COVERED)
    if any(not isfinite(value) or value > _ROUNDING for value in numbers):
        raise Passing("some log-probabilities are not valid numbers")
    return TextLikelihood(fsum(numbers), len(numbers), start, text_of(content.get("model")))


def read_written(content: Any, text: str) -> tuple[str, float]:
    """Reads the token that was generated after a text, and its log-probability. Raises `Passing` without them."""
    tokens, values = _echoed(content)
    if not tokens[-1].strip() or values[-1] is None or not "".join(tokens[:-1]).strip().endswith(text.strip()):
        raise Passing("the answer contains no log-probability of the generated token")
    return tokens[-1], values[-1]


def _echoed(content: Any) -> tuple[list[str], list[float | None]]:
    given = choice_of(content).get("logprobs")
    tokens = given.get("tokens") if isinstance(given, Mapping) else None
    values = given.get("token_logprobs") if isinstance(given, Mapping) else None
    if not isinstance(tokens, list) or not isinstance(values, list) or not tokens or len(tokens) != len(values):
        raise Passing("the answer contains no log-probabilities of the prompt")
    return [str(token) for token in tokens], list(map(_number, values))


def _number(value: Any) -> float | None:
    """Returns a valid number. Returns `None` for other values, and for numbers that would overflow `exp` or `float`."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value > 700 or value < -1e300:
        return None
    return float(value)


def _start_token(tokens: Sequence[str], text: str) -> str | None:
    """Returns the token before the text, or `None` if the first token is the text's. Otherwise raises `Passing`."""
    if any(mark in token for token in tokens for mark in _HALF_CHARACTER):
        return None if text.lstrip().startswith(tokens[0].lstrip() or "\x00") else tokens[0]
    if "".join(tokens).strip() == text.strip() and tokens[0]:
        return None
    if "".join(tokens[1:]).strip() == text.strip():
        return tokens[0] or "a token before the text"
    raise Passing(_NOT_COVERED)


def _without_written(tokens: list[str], values: list[float | None], text: str) -> tuple[list[str], list[float | None]]:
    """Removes the token that was generated after the text, for servers that do not count the prompt's tokens."""
    for end in (len(tokens), len(tokens) - 1):
        if "".join(tokens[:end]).strip().endswith(text.strip()):
            return tokens[:end], values[:end]
    raise Passing(_NOT_COVERED)
