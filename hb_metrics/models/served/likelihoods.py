"""Reads the log-probabilities of a prompt's tokens, and of an answer's first token, from a server's answers.

For a prompt's tokens, the server must support the fields `echo` and `logprobs` of `/completions`. Other servers return
no log-probabilities, or only log-probabilities of generated text. Log-probabilities are therefore accepted only if
their tokens match the prompt's tokens exactly.
"""

from collections.abc import Mapping, Sequence
from math import exp, fsum, isfinite
from typing import Any, NamedTuple

from hb_metrics.models.served.answers import choice_of, count_of, text_of
from hb_metrics.models.served.client import TemporaryFault

FIELDS: dict[str, object] = {"echo": True, "logprobs": 1, "max_tokens": 1, "temperature": 0}
ALTERNATIVES = (20, 5)  # the number of likeliest tokens to request; some servers allow at most 5
_HALF_CHARACTER = ("\ufffd", "bytes:", "<0x")  # signs that a token is only part of a character
_ROUNDING = 1e-3  # the largest accepted log-probability; in half precision, rounding may raise one above 0
_SLACK = 1e-2  # the amount by which rounding may change a log-probability, or raise a sum of probabilities above 1
_LEAST = -9999.0  # the log-probability of an impossible token, for which JSON has no number
_NOT_COVERED = "log-probabilities that do not cover the prompt"


class TextLikelihood(NamedTuple):
    """The log-likelihood of a text.

    Attributes:
        log_likelihood: The sum of the natural log-probabilities of all predicted tokens.
        start_token: The token that the server puts before the text, or `None` if the answer contains no such token.
    """

    log_likelihood: float
    num_tokens: int
    start_token: str | None
    model: str | None


def read_likelihood(content: Any, text: str) -> TextLikelihood:
    """Reads the log-likelihood of a text from an answer of `/completions`.

    Raises:
        TemporaryFault: The answer has no log-probabilities, or their tokens do not match the text.
    """
    tokens, values = _echoed(content)
    number = count_of(content.get("usage"), "prompt_tokens")
    if number:
        if len(tokens) < number:
            raise TemporaryFault(_NOT_COVERED)
        tokens, values = tokens[:number], values[:number]  # without the generated token
    else:
        tokens, values = _without_written(tokens, values, text)
    start = _start_token(tokens, text)
    if start is not None and values[0]:  # the first token cannot have a log-probability
        raise TemporaryFault(
            "the answer contains a log-probability for the token before the text, so all log-probabilities may "
            "be shifted by one token"
        )
    # The first token has a log-probability only if the server does not return the token before it.
    predicted = values[1:] if start is not None or not values[0] else values
    numbers = [value for value in predicted if value is not None]
    if not numbers or len(numbers) < len(predicted):
        raise TemporaryFault(_NOT_COVERED)
    if any(not isfinite(value) or value > _ROUNDING for value in numbers):
        raise TemporaryFault("some log-probabilities are not valid numbers")
    return TextLikelihood(fsum(numbers), len(numbers), start, text_of(content.get("model")))


def read_end(content: Any, text: str, end: str) -> float | None:
    """Returns the log-probability of a text's end, or `None` if no token begins where the end begins."""
    read_likelihood(content, text)  # raises an error if the tokens are not those of the text
    tokens, values = _without_written(*_echoed(content), text)
    starts = [start for start in range(1, len(tokens)) if "".join(tokens[start:]) == end]
    return fsum(value or 0.0 for value in values[starts[0] :]) if starts else None


def first_tokens(content: Any) -> list[list[Any]] | None:
    """Returns the candidates for an answer's first token, as pairs of a token and its log-probability.

    The chosen token is a candidate even if the server does not list it. Returns `None` if there are fewer than two
    candidates, or if a value is not a log-probability. Some servers return probabilities, or logarithms to another
    base, so the probabilities of the candidates must not sum to more than 1.
    """
    try:
        chosen = choice_of(content)["logprobs"]["content"][0]
        float(chosen["logprob"])
        candidates = [_candidate(each) for each in (*chosen["top_logprobs"], chosen)]
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        return None
    *others, (token, value) = candidates
    found = dict.fromkeys(others)  # a server may list a token twice, and different tokens may have the same text
    if all(token != name or abs(value - other) > _SLACK for name, other in found):
        found[token, value] = None
    is_sound = len(found) > 1 and fsum(exp(number) for _, number in found) <= 1 + _SLACK
    return list(map(list, found)) if is_sound else None


def _candidate(content: Any) -> tuple[str, float]:
    """Returns a token and its log-probability.

    Some versions of vLLM return ids such as "token_id:32" as tokens, and the text only as bytes.
    """
    token, value = content["token"], content["logprob"]
    if token.startswith("token_id:"):
        token = bytes(content["bytes"]).decode(errors="replace")
    value = _LEAST if value is None else float(max(value, _LEAST))
    if not value <= _ROUNDING:
        raise ValueError
    return token.encode(errors="replace").decode(), min(value, 0.0)


def read_written(content: Any, text: str) -> tuple[str, float]:
    """Returns the token that was generated after a text, and its log-probability."""
    tokens, values = _echoed(content)
    if not tokens[-1].strip() or values[-1] is None or not "".join(tokens[:-1]).strip().endswith(text.strip()):
        raise TemporaryFault("the answer contains no log-probability of the generated token")
    return tokens[-1], values[-1]


def _echoed(content: Any) -> tuple[list[str], list[float | None]]:
    given = choice_of(content).get("logprobs")
    tokens = given.get("tokens") if isinstance(given, Mapping) else None
    values = given.get("token_logprobs") if isinstance(given, Mapping) else None
    if not isinstance(tokens, list) or not isinstance(values, list) or not tokens or len(tokens) != len(values):
        raise TemporaryFault("the answer contains no log-probabilities of the prompt")
    return [str(token) for token in tokens], list(map(_number, values))


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or value > 700 or value < -1e300:
        return None
    return float(value)


def _start_token(tokens: Sequence[str], text: str) -> str | None:
    """Returns the token that precedes the text, or `None` if the first token belongs to the text."""
    if any(mark in token for token in tokens for mark in _HALF_CHARACTER):
        return None if text.lstrip().startswith(tokens[0].lstrip() or "\x00") else tokens[0]
    if "".join(tokens).strip() == text.strip() and tokens[0]:
        return None
    if "".join(tokens[1:]).strip() == text.strip():
        return tokens[0] or "a token before the text"
    raise TemporaryFault(_NOT_COVERED)


def _without_written(tokens: list[str], values: list[float | None], text: str) -> tuple[list[str], list[float | None]]:
    for end in (len(tokens), len(tokens) - 1):
        if "".join(tokens[:end]).strip().endswith(text.strip()):
            return tokens[:end], values[:end]
    raise TemporaryFault(_NOT_COVERED)
