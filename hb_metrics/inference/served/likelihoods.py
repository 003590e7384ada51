"""Log-probabilities of a text's own tokens, as servers give them with `echo` and `logprobs` of `/completions`.

Servers that do not know these fields answer all the same and leave log-probabilities out, or give those of what they
wrote. Log-probabilities count only if they are about the tokens of the text, and about all of them.
"""

from collections.abc import Mapping, Sequence
from math import fsum, isfinite
from typing import Any, NamedTuple

from hb_metrics.inference.served.answers import choice_of, count_of, text_of
from hb_metrics.inference.served.client import Passing

FIELDS: dict[str, Any] = {"echo": True, "logprobs": 1, "max_tokens": 1, "temperature": 0}
_HALF_CHARACTER = ("\ufffd", "bytes:", "<0x")  # in the text of tokens that are part of a character
_ROUNDING = 1e-3  # how far above 0 half precision may put a log-probability
_NOT_COVERED = "log-probabilities that do not cover the prompt"


class TextLikelihood(NamedTuple):
    """The likelihood of a text.

    Attributes:
        log_likelihood: Summed over the predicted tokens, natural log.
        num_tokens: How many tokens were predicted.
        start_token: The token before the text; `None`: there is none, and the first token is context only.
        model: The server's name of the model.
    """

    log_likelihood: float
    num_tokens: int
    start_token: str | None
    model: str | None


def read_likelihood(content: Any, text: str) -> TextLikelihood:
    """Reads the log-probabilities of a text's tokens from the JSON of an answer of `/completions`.

    Raises:
        Passing: There are none, they are about other tokens, or not about all of them.
    """
    tokens, values = _echoed(content)
    number = count_of(content.get("usage"), "prompt_tokens")
    if number:
        if len(tokens) < number:
            raise Passing(_NOT_COVERED)
        tokens, values = tokens[:number], values[:number]  # one more is written than nothing
    else:
        tokens, values = _without_written(tokens, values, text)
    start = _start_token(tokens, text)
    if start is not None and values[0]:  # nothing predicts it: the values are those of other tokens
        raise Passing("a log-probability beside the token before the text, as if all were shifted by one")
    # The first token is predicted by nothing, unless the server hides the token before it.
    predicted = values[1:] if start is not None or not values[0] else values
    numbers = [value for value in predicted if value is not None]
    if not numbers or len(numbers) < len(predicted):
        raise Passing(_NOT_COVERED)
    if any(not isfinite(value) or value > _ROUNDING for value in numbers):
        raise Passing("log-probabilities that are no such numbers")
    return TextLikelihood(fsum(numbers), len(numbers), start, text_of(content.get("model")))


def read_written(content: Any, text: str) -> tuple[str, float]:
    """The token that was written after a text, and its log-probability.

    Raises:
        Passing: They are not given.
    """
    tokens, values = _echoed(content)
    if not tokens[-1].strip() or values[-1] is None or not "".join(tokens[:-1]).strip().endswith(text.strip()):
        raise Passing("no log-probability of what was written")
    return tokens[-1], values[-1]


def _echoed(content: Any) -> tuple[list[str], list[float | None]]:
    given = choice_of(content).get("logprobs")
    tokens = given.get("tokens") if isinstance(given, Mapping) else None
    values = given.get("token_logprobs") if isinstance(given, Mapping) else None
    if not isinstance(tokens, list) or not isinstance(values, list) or not tokens or len(tokens) != len(values):
        raise Passing("no log-probabilities of the prompt")
    return [str(token) for token in tokens], list(map(_number, values))


def _number(value: Any) -> float | None:
    """A number; `None`: it is none, or beyond any log-probability, where `exp` or `float` would overflow."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value > 700 or value < -1e300:
        return None
    return float(value)


def _start_token(tokens: Sequence[str], text: str) -> str | None:
    """The token before the text; `None`: the first is the text's own. Raises `Passing` if they are not the text's."""
    if any(mark in token for token in tokens for mark in _HALF_CHARACTER):
        return None if text.lstrip().startswith(tokens[0].lstrip() or "\x00") else tokens[0]
    if "".join(tokens).strip() == text.strip() and tokens[0]:
        return None
    if "".join(tokens[1:]).strip() == text.strip():
        return tokens[0] or "a token before the text"
    raise Passing(_NOT_COVERED)


def _without_written(tokens: list[str], values: list[float | None], text: str) -> tuple[list[str], list[float | None]]:
    """Without the token that was written after the text, of a server that counts no tokens of the prompt."""
    for end in (len(tokens), len(tokens) - 1):
        if "".join(tokens[:end]).strip().endswith(text.strip()):
            return tokens[:end], values[:end]
    raise Passing(_NOT_COVERED)
