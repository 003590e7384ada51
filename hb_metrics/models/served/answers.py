"""Reads a server's answers: texts, thoughts, and the log-probabilities of tokens.

An invalid answer raises `TemporaryFault`, so that it is requested again. `None` replaces an impossible token count.

For the log-probabilities of a prompt's tokens, the server must support the fields `echo` and `logprobs` of
`/completions`. Other servers return no log-probabilities, or only those of generated text. Log-probabilities are
therefore accepted only if their tokens match the prompt's tokens exactly.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import exp, fsum, isfinite
from typing import Any, Literal, NamedTuple

from hb_metrics.models.served.client import TemporaryFault, count_of, printable
from hb_metrics.models.thoughts import Written, read_written

Ending = Literal["ended", "cut", "filtered", "refused", "unknown"]
# What finish reasons mean, in lower case. A tool call ends an answer although no tool was offered. An "unknown" ending
# is none of the server's faults: it may come again for the same prompt.
_FINISH_REASONS: Mapping[Ending, str] = {
    # OpenAI, TGI, Anthropic, Gemini, Cohere
    "ended": "stop eos eos_token stop_sequence stop_token end_turn complete tool_calls function_call",
    # OpenAI, Anthropic and Gemini, Mistral
    "cut": "length max_tokens model_length token_limit",
    # OpenAI and Azure, Zhipu, Anthropic, Gemini, Bedrock
    "filtered": "content_filter sensitive refusal safety recitation blocklist prohibited_content spii"
    " guardrail_intervened",
    # Gemini, Anthropic, vLLM, and our own client
    "unknown": "conversation_too_long other language unknown finish_reason_unspecified pause_turn repetition",
}
_ENDINGS = {reason: ending for ending, reasons in _FINISH_REASONS.items() for reason in reasons.split()}
# The fields that may contain a thought. Servers that use several of them repeat the thought in each.
_THOUGHTS = ("reasoning_content", "reasoning", "thinking", "thought", "reasoning_text", "reasoning_details")
_TEXTS = ("text", "refusal", "thinking", "reasoning", "summary", "content")  # the fields of parts that contain a text


class ServedAnswer(NamedTuple):
    """A server's answer. An attribute is `None` if its value is unknown or missing.

    Attributes:
        is_open: Whether the thought was cut before it ended.
        inline: Whether the thought was part of the text, between marks, rather than in a separate field.
        invents_turn: Whether the model wrote more text after its turn, which `text` does not include.
        finish_reason: The server's own name of the reason why the answer ended.
        ending: The meaning of this reason. "filtered": a filter removed the text. "refused": the server marks the text
            as a refusal.
        num_tokens: The number of tokens in the text and the thought together.
    """

    text: str | None
    reasoning: str | None
    is_open: bool
    inline: bool
    invents_turn: bool
    finish_reason: str | None
    ending: Ending
    num_tokens: int | None
    num_reasoning_tokens: int | None
    num_prompt_tokens: int | None
    model: str | None


def read_served_answer(content: Any, *, max_tokens: int) -> ServedAnswer:
    """Reads an answer from `/chat/completions` or `/completions`."""
    choice = _choice_of(content)
    message = choice.get("message", {"content": choice["text"]} if "text" in choice else None)
    if not isinstance(message, Mapping):
        raise TemporaryFault("an answer without a message")
    finish_reason = text_of(choice.get("finish_reason"))
    if finish_reason is None:
        raise TemporaryFault("the answer does not state why it ended, so it may be incomplete")
    ending = _ENDINGS.get(finish_reason.lower().partition(":")[0])
    if ending is None:
        raise TemporaryFault(f"the answer ended early, with the finish reason {finish_reason!r}")
    parts = [*_parts(message.get("content")), *_parts(message.get("refusal") or None, "refusal")]
    text, refusal = _joined(parts, "text"), _joined(parts, "refusal")
    if refusal:
        text, ending = "\n".join(filter(None, [text, refusal])), "refused"
    fields = (_joined(_parts(message.get(name), "thought"), "thought") for name in _THOUGHTS)
    thought = _joined(parts, "thought") or next(filter(None, fields), "")
    written = read_written("" if ending == "filtered" else text)
    inline = written.reasoning is not None
    if thought:  # the text may contain a further thought between marks
        is_open = written.is_open or (not text and ending == "cut")
        written = written._replace(reasoning="\n".join(filter(None, [thought, written.reasoning])), is_open=is_open)
    num_tokens, num_reasoning_tokens = _counts(content, written, max_tokens)
    return ServedAnswer(
        text=_whole(written.reply) or None,
        reasoning=None if written.reasoning is None else _whole(written.reasoning),
        is_open=written.is_open,
        inline=inline,
        invents_turn=written.invents_turn,
        finish_reason=finish_reason,
        ending=ending,
        num_tokens=num_tokens,
        num_reasoning_tokens=num_reasoning_tokens,
        num_prompt_tokens=count_of(content, "prompt_tokens") or None,  # no prompt is empty
        model=text_of(content.get("model")),
    )


def is_filtered(content: Any) -> bool:
    """Returns whether a filter has answered in place of the model."""
    reason = text_of(_choice_of(content).get("finish_reason")) or ""
    return _ENDINGS.get(reason.lower().partition(":")[0]) == "filtered"


def check_model(model: str | None, expected: str | None) -> None:
    if model != expected:
        raise TemporaryFault(f"the answer comes from model '{model}', but earlier answers came from '{expected}'")


def text_of(value: Any) -> str | None:
    """Returns the short text in an answer's field, such as a name."""
    return (printable(value) or None) if isinstance(value, str) else None


def _joined(parts: Iterable[tuple[str, str]], kind: str) -> str:
    return "".join(part for name, part in parts if name == kind).strip()


def _parts(content: Any, kind: str = "text") -> Iterator[tuple[str, str]]:
    """Yields the texts in a message's content, each with its kind: "text", "thought" or "refusal".

    OpenAI, Mistral and Anthropic divide a content into typed parts, which may again contain parts.
    """
    if isinstance(content, str):
        yield kind, content
    elif isinstance(content, list):
        for part in content:
            yield from _parts(part, kind)
    elif isinstance(content, Mapping):
        name = str(content.get("type"))
        kind = "thought" if re.search("reason|think|thought", name) else "refusal" if name == "refusal" else kind
        given = [content[field] for field in _TEXTS if field in content]
        if not given and kind != "thought":  # servers may encrypt thoughts
            raise TemporaryFault(f"the answer has a part of type {printable(name)!r}, which is not a text")
        for part in given[:1]:
            yield from _parts(part, kind)
    elif content is not None and kind != "thought":
        raise TemporaryFault("an answer whose content is not a text")


def _choice_of(content: Any) -> Mapping[str, Any]:
    choices = content.get("choices") if isinstance(content, Mapping) else None
    if not isinstance(choices, list) or len(choices) != 1 or not isinstance(choices[0], Mapping):
        raise TemporaryFault("an answer that does not contain exactly one choice")
    return choices[0]


def _counts(content: Any, written: Written, max_tokens: int) -> tuple[int | None, int | None]:
    """Returns the numbers of tokens in an answer and in its thought. Impossible counts are `None`.

    A count is impossible if it exceeds the requested maximum, or if it is 0 although the text is not empty.
    """
    number = count_of(content, "completion_tokens")
    if number is None or number > max_tokens or (not number and (written.reply or written.reasoning)):
        return None, None
    thought = count_of({"usage": content["usage"].get("completion_tokens_details")}, "reasoning_tokens")
    return number, None if thought is None or thought > number else thought


def _whole(text: str) -> str:
    """Replaces unpaired surrogates, which JSON may contain, with question marks."""
    return text.encode(errors="replace").decode()


FIELDS: dict[str, object] = {"echo": True, "logprobs": 1, "max_tokens": 1, "temperature": 0}
ALTERNATIVES = (20, 5)  # the number of likeliest tokens to request; some servers allow at most 5
_HALF_CHARACTER = ("\ufffd", "bytes:", "<0x")  # signs that a token is only part of a character
_ROUNDING = 1e-3  # the largest accepted log-probability; in half precision, rounding may raise one above 0
_SLACK = 1e-2  # the amount by which rounding may change a log-probability, or raise a sum of probabilities above 1
LEAST = -9999.0  # the log-probability of an impossible token, for which JSON has no number
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
    tokens, values = _tokens_of(content, text)
    start = _start_token(tokens, text)
    if start is not None and values[0]:  # the first token cannot have a log-probability
        raise TemporaryFault("the token before the text has a log-probability, so all may be shifted by one token")
    # The first token has a log-probability only if the server does not return the token before it.
    predicted = values[1:] if start is not None or not values[0] else values
    numbers = [value for value in predicted if value is not None]
    if not numbers or len(numbers) < len(predicted):
        raise TemporaryFault(_NOT_COVERED)
    if any(not isfinite(value) or value > _ROUNDING for value in numbers):
        raise TemporaryFault("some log-probabilities are not valid numbers")
    return TextLikelihood(fsum(numbers), len(numbers), start, text_of(content.get("model")))


def has_impossible_token(content: Any, text: str, least: float) -> bool:
    """Returns whether a token of the text is stated to have a log-probability below `least`, such as -9999."""
    return any(value is not None and value < least for value in _tokens_of(content, text)[1])


def read_end(content: Any, text: str, end: str) -> float | None:
    """Returns the log-probability of a text's end, or `None` if no token begins where the end begins."""
    read_likelihood(content, text)  # raises an error if the tokens are not those of the text
    tokens, values = _tokens_of(content, text)
    starts = [start for start in range(1, len(tokens)) if "".join(tokens[start:]) == end]
    return fsum(value or 0.0 for value in values[starts[0] :]) if starts else None


def _tokens_of(content: Any, text: str) -> tuple[list[str], list[float | None]]:
    """Returns the tokens of a text, without the generated token, and their log-probabilities."""
    tokens, values = _echoed(content)
    number = count_of(content, "prompt_tokens")
    if not number:
        return _without_written(tokens, values, text)
    if len(tokens) < number:
        raise TemporaryFault(_NOT_COVERED)
    return tokens[:number], values[:number]


def read_next_token(content: Any, text: str) -> tuple[str, float]:
    """Returns the token that was generated after a text, and its log-probability."""
    tokens, values = _echoed(content)
    if not tokens[-1].strip() or values[-1] is None or not "".join(tokens[:-1]).strip().endswith(text.strip()):
        raise TemporaryFault("the answer contains no log-probability of the generated token")
    return tokens[-1], values[-1]


def first_tokens(content: Any) -> list[list[Any]] | None:
    """Returns the candidates for an answer's first token, as pairs of a token and its log-probability.

    The chosen token is a candidate even if the server does not list it. Returns `None` if there are fewer than two
    candidates, or if a value is not a log-probability. Some servers return probabilities, or logarithms to another
    base, so the probabilities of the candidates must not sum to more than 1.
    """
    try:
        chosen = _choice_of(content)["logprobs"]["content"][0]
        float(chosen["logprob"])  # it may not be missing
        *listed, (token, value) = [_candidate(each) for each in (*chosen["top_logprobs"], chosen)]
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        return None
    candidates = dict.fromkeys(listed)  # a server may list a token twice, and different tokens may have the same text
    if all(token != name or abs(value - other) > _SLACK for name, other in candidates):
        candidates[token, value] = None
    is_sound = len(candidates) > 1 and fsum(exp(number) for _, number in candidates) <= 1 + _SLACK
    return list(map(list, candidates)) if is_sound else None


def _candidate(content: Any) -> tuple[str, float]:
    """Returns a token and its log-probability.

    Some versions of vLLM return ids such as "token_id:32" as tokens, and the text only as bytes.
    """
    token, value = content["token"], content["logprob"]
    if token.startswith("token_id:"):
        token = bytes(content["bytes"]).decode(errors="replace")
    value = LEAST if value is None else float(max(value, LEAST))
    if not value <= _ROUNDING:
        raise ValueError
    return _whole(token), min(value, 0.0)


def _echoed(content: Any) -> tuple[list[str], list[float | None]]:
    given = _choice_of(content).get("logprobs")
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
