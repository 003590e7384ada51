"""Reads a server's answers.

An invalid answer raises `TemporaryFault`, so that it is requested again. `None` replaces an impossible token count.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, NamedTuple

from hb_metrics.models.served.client import TemporaryFault
from hb_metrics.models.served.errors import printable
from hb_metrics.models.thoughts import Written, read_written

Ending = Literal["ended", "cut", "filtered", "refused", "unknown"]
# What the words of finish reasons mean, in the names of OpenAI, Azure, Gemini, Anthropic, Bedrock, Cohere, Mistral,
# DeepSeek, Zhipu, watsonx, vLLM, SGLang, TGI and Ollama. A tool call ends an answer although no tool was offered. An
# "unknown" ending is none of the server's faults: it may come again for the same prompt.
_FILTERS = re.compile(
    "filter|safety|sensitive|block|prohibited|recitation|spii|guardrail|armor|moderat|content_?policy|policy_?viol"
    "|toxic|refus|inspect"
)
_WORDS: Mapping[Ending, str] = {
    "ended": "stop stopped stopping criteria sequence string word eos eot end ended of turn text token complete"
    " completed finish finished reason done normal success ok tool tools call calls use function",
    "cut": "finish reason length max maximum token tokens limit reached exceeded model context window output completion"
    " new size total truncated cut",
    "unknown": "finish reason other unspecified unknown language pause turn repetition",
}
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
    choice = choice_of(content)
    message = choice.get("message", {"content": choice["text"]} if "text" in choice else None)
    if not isinstance(message, Mapping):
        raise TemporaryFault("an answer without a message")
    finish_reason = text_of(choice.get("finish_reason"))
    if finish_reason is None:
        raise TemporaryFault("the answer does not state why it ended, so it may be incomplete")
    ending = _ending(finish_reason)
    parts = [*_parts(message.get("content")), *_parts(message.get("refusal"), "refusal")]
    text, refusal = _joined(parts, "text"), _joined(parts, "refusal")
    if refusal:
        text, ending = "\n".join(filter(None, [text, refusal])), "refused"
    fields = (_joined(_parts(message.get(name), "thought"), "thought") for name in _THOUGHTS)
    thought = _joined(parts, "thought") or next(filter(None, fields), None)
    written = read_written("" if ending == "filtered" else text)
    inline = written.reasoning is not None
    if thought is not None:  # the text may contain a further thought between marks
        is_open = written.is_open or (not text and ending == "cut")
        written = written._replace(reasoning="\n".join(filter(None, [thought, written.reasoning])), is_open=is_open)
    num_tokens, num_reasoning_tokens = _counts(content.get("usage"), written, max_tokens)
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
        num_prompt_tokens=count_of(content.get("usage"), "prompt_tokens") or None,  # no prompt is empty
        model=text_of(content.get("model")),
    )


def _ending(finish_reason: str) -> Ending:
    words = {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+|\S", finish_reason)} - {"_", "-"}
    if _FILTERS.search(finish_reason.casefold()):
        return "filtered"
    for ending, known in _WORDS.items():
        if words <= set(known.split()):
            return ending
    raise TemporaryFault(f"the answer ended early, with the finish reason {finish_reason!r}")


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


def check_model(model: str | None, expected: str | None) -> None:
    if model != expected:
        raise TemporaryFault(f"the answer comes from model '{model}', but earlier answers came from '{expected}'")


def choice_of(content: Any) -> Mapping[str, Any]:
    choices = content.get("choices") if isinstance(content, Mapping) else None
    if not isinstance(choices, list) or len(choices) != 1 or not isinstance(choices[0], Mapping):
        raise TemporaryFault("an answer that does not contain exactly one choice")
    return choices[0]


def count_of(usage: Any, name: str) -> int | None:
    value = usage.get(name) if isinstance(usage, Mapping) else None
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31 else None


def text_of(value: Any) -> str | None:
    """Returns the short text in an answer's field, such as a name."""
    return (printable(value) or None) if isinstance(value, str) else None


def _counts(usage: Any, written: Written, max_tokens: int) -> tuple[int | None, int | None]:
    """Returns the numbers of tokens in an answer and in its thought. Impossible counts are `None`.

    A count is impossible if it exceeds the requested maximum, or if it is 0 although the text is not empty.
    """
    number = count_of(usage, "completion_tokens")
    has_text = bool((written.reply + (written.reasoning or "")).strip())
    if number is None or number > max_tokens or (not number and has_text):
        return None, None
    thought = count_of(usage.get("completion_tokens_details"), "reasoning_tokens")
    return number, None if thought is None or thought > number else thought


def _whole(text: str) -> str:
    """Replaces unpaired surrogates, which JSON may contain, with question marks."""
    return text.encode(errors="replace").decode()
