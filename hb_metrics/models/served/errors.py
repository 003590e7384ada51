"""Reads servers' errors, which have many forms, and makes their texts safe to show and to store.

A server may repeat the user's key in any text, and its messages may contain control characters, which could change the
display of a terminal.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from hb_metrics.models.served.addresses import KEY_VARIABLE, Key

_SHOWN = 300  # the maximum number of characters that are quoted from a message
# A shorter key is not a secret but a word that the server requires, such as "EMPTY". The second number is for letters.
_SECRET, _SECRET_LETTERS = 8, 20
# The keys under which an error contains its sentences. Other keys may contain prompts or replies.
_SENTENCES = re.compile("errors?|message|msg|loc|details?|title|reason|metadata|raw|code")
# Hints, by a pattern for the statuses and sentences of the errors to which they apply.
_HINTS = {
    r"context.?(?:length|window|size)|too (?:long|large|many tokens)|reduce the length"
    r"|\btokens?\b.*(?:exceed|max|<=)|(?:exceed|maximum|<=).*\btokens?\b": (
        "if the conversation is too long for the model, lower --turns or --max_new_tokens"
    ),
    "^401|api.?key": f"set the environment variable {KEY_VARIABLE} to a key of this server",
    "^403": f"set the environment variable {KEY_VARIABLE} to a key that may use this model",
    "^404": "check --base_url (it usually ends in /v1) and --model",
}
# The sentences and codes with which Azure, OpenAI, Alibaba, DeepSeek, OpenRouter and others state that a filter blocked
# the prompt.
_FILTERED = (
    "content_?filter|content_policy|content management policy|data_?inspection|content exists risk|content violates"
    "|considered high risk|(?:input|prompt|request|content) was flagged"
)


def parsed(content: bytes, key: Key | None) -> Any:
    """Returns the content of a JSON text, or of a text that is not JSON, without the key and without a web page."""
    try:
        answer = json.loads(content)
    except ValueError:
        answer = content.decode(errors="replace").partition("<")[0]
    if key is None or len(key.value) < (_SECRET_LETTERS if key.value.isalpha() else _SECRET):
        return answer
    return _without(key, answer)


def printable(text: str, key: Key | None = None) -> str:
    """Returns the beginning of a text on one line, without the key, control characters and unpaired surrogates."""
    kept = (letter if letter.isprintable() else " " for letter in _hide(text, key)[: 2 * _SHOWN])
    return " ".join("".join(kept).split())[:_SHOWN]


def error_in(answer: Any) -> Any:
    """Returns the error in an answer with status 200, in which routers report their backends' errors."""
    if not isinstance(answer, dict) or not isinstance(answer.get("choices"), list):
        return answer
    choices = [choice for choice in answer["choices"] if isinstance(choice, dict)]
    parts = (answer, *choices, *(choice.get("message") for choice in choices))
    return next((part["error"] for part in parts if isinstance(part, dict) and part.get("error")), None)


def code_of(error: Any) -> int:
    """Returns the HTTP status that an error contains, or 500 if it contains none."""
    content = error if isinstance(error, dict) else {}
    content = content["error"] if isinstance(content.get("error"), dict) else content
    return int(content["code"]) if re.fullmatch("[45][0-9]{2}", str(content.get("code"))) else 500


def sentences_of(error: Any) -> str:
    return "; ".join(dict.fromkeys(_sentences(error)))


def hint_for(fault: str) -> str:
    return "".join(f"; {hint}" for pattern, hint in _HINTS.items() if re.search(pattern, fault, re.IGNORECASE))


def is_of_filter(sentences: str) -> bool:
    """Returns whether an error states that a filter blocked the prompt."""
    return re.search(_FILTERED, sentences, re.IGNORECASE) is not None


def _sentences(error: Any) -> Iterator[str]:
    if isinstance(error, dict):
        fields = [name for name, value in error.items() if isinstance(value, list)]  # lists of faults by field
        for name in list(filter(_SENTENCES.fullmatch, error)) or fields:
            yield from _sentences(error[name])
    elif isinstance(error, list):
        for part in error:
            yield from _sentences(part)
    elif isinstance(error, str):
        yield error


def _without(key: Key, content: Any) -> Any:
    if isinstance(content, Mapping):
        return {name: _without(key, value) for name, value in content.items()}
    if isinstance(content, list):
        return [_without(key, value) for value in content]
    return _hide(content, key) if isinstance(content, str) else content


def _hide(text: str, key: Key | None) -> str:
    return text if key is None else text.replace(key.value, f"[{key.variable}]")
