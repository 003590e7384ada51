"""Plans requests for the probabilities of options to a server.

In a chat, the server lists the likeliest first tokens of the answer. In plain text, it returns the log-probability of
each whole option (`echo`).
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import pyarrow as pa

from hb_metrics.models.served.answers import ALTERNATIVES, FIELDS, LEAST, first_tokens, is_filtered, read_end
from hb_metrics.models.served.client import Server, TemporaryFault, connected
from hb_metrics.models.served.probe import try_log_probabilities
from hb_metrics.reply_checks.first_tokens import forms_of, option_masses

_LABELS = pa.schema([(name, pa.string()) for name in ("id", "prompt_id", "option", "form")])
TOKENS_SCHEMA = pa.schema(
    [("id", pa.string()), ("tokens", pa.list_(pa.string())), ("log_probabilities", pa.list_(pa.float64()))]
)


class ServedOptionPlan(NamedTuple):
    """The requests, and the strings to store beside each answer.

    `read` [content, row] returns the values to store by column, or `None` if the answer does not contain them. If a
    filter blocks a prompt, the values state that no option has a probability.
    """

    scoring: str
    scoring_reason: str
    path: str
    bodies: list[dict[str, Any]]
    columns: dict[str, list[str]]
    schema: pa.Schema
    read: Callable[[Any, int], dict[str, Any] | None]


def chat_plans(ids: Sequence[str], bodies: Sequence[dict[str, Any]]) -> list[ServedOptionPlan]:
    """Plans requests for the first tokens of answers, with as many tokens as a server may allow."""

    def read(content: Any, row: int) -> dict[str, Any] | None:
        if is_filtered(content):
            return {"tokens": [], "log_probabilities": []}
        likeliest = first_tokens(content)
        if likeliest is None:
            return None
        tokens, values = zip(*likeliest, strict=True)
        return {"tokens": list(tokens), "log_probabilities": list(values)}

    return [
        ServedOptionPlan(
            f"served, {number} first tokens",
            "in a trial, the first tokens showed the probability of each option",
            "chat/completions",
            [{**body, "temperature": 1, "logprobs": True, "top_logprobs": number} for body in bodies],
            {"id": list(ids)},
            TOKENS_SCHEMA,
            read,
        )
        for number in ALTERNATIVES
    ]


def echo_plan(ids: Sequence[str], prompts: Sequence[str], options: Sequence[Sequence[str]]) -> ServedOptionPlan:
    """Plans requests for the log-probability of each form of each option after a prompt."""
    rows = [(row, option, form) for row, of_row in enumerate(options) for option in of_row for form in forms_of(option)]

    def read(content: Any, row: int) -> dict[str, Any] | None:
        if is_filtered(content):
            return {"log_likelihood": LEAST}
        prompt, _, form = rows[row]
        log_likelihood = read_end(content, prompts[prompt] + form, form)
        return None if log_likelihood is None else {"log_likelihood": log_likelihood}

    return ServedOptionPlan(
        "served, echo",
        "in a trial, the server returned a log-probability for every token of an option",
        "completions",
        [{"prompt": prompts[row] + form, **FIELDS} for row, _, form in rows],
        {
            "id": [f"{ids[row]}-{number}" for number, (row, _, _) in enumerate(rows)],
            "prompt_id": [ids[row] for row, _, _ in rows],
            "option": [option for _, option, _ in rows],
            "form": [form for _, _, form in rows],
        },
        _LABELS.append(pa.field("log_likelihood", pa.float64())),
        read,
    )


def works(plan: ServedOptionPlan, server: Server, options: Sequence[Sequence[str]]) -> bool:
    """Tries the first request with each list of options. Returns whether the server answers all of them as it should.

    `options` contains the options of each prompt.
    """
    owners = plan.columns.get("prompt_id", plan.columns["id"])
    of_prompt = dict(zip(dict.fromkeys(owners), options, strict=True))
    first = {tuple(of_prompt[owner]): row for row, owner in reversed(list(enumerate(owners)))}

    async def tried() -> bool:
        async with connected(server) as client:
            for names, row in first.items():
                content = await try_log_probabilities(client, plan.path, plan.bodies[row], lambda content: content)
                values = None if content is None else plan.read(content, row)
                if values is None:
                    return False
                if "tokens" in values and not is_filtered(content):
                    pairs = zip(values["tokens"], values["log_probabilities"], strict=True)
                    if option_masses(pairs, names) is None:
                        return False
        return True

    with suppress(TemporaryFault):
        return asyncio.run(tried())
    return False
