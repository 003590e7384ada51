"""Plans requests for the probabilities of options: in a chat, servers list the likeliest first tokens of an answer."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import pyarrow as pa

from hb_metrics.models.served.answers import ALTERNATIVES, first_tokens
from hb_metrics.models.served.client import RefusedError, Server, TemporaryFault, connected
from hb_metrics.reply_checks.first_tokens import option_masses

TOKENS_SCHEMA = pa.schema(
    [("id", pa.string()), ("tokens", pa.list_(pa.string())), ("log_probabilities", pa.list_(pa.float64()))]
)


class ServedOptionPlan(NamedTuple):
    ids: list[str]
    bodies: list[dict[str, Any]]
    scoring: str
    scoring_reason: str = "in a trial, the first tokens showed the probability of each option"


def plan_served_options(
    ids: list[str], bodies: Sequence[dict[str, Any]], options: Sequence[Sequence[str]], server: Server
) -> ServedOptionPlan | str:
    """Plans requests with as many first tokens as the server allows, or returns a reason why none would work."""
    for number in ALTERNATIVES:
        asked = [{**body, "temperature": 1, "logprobs": True, "top_logprobs": number} for body in bodies]
        if _works(asked, options, server):
            return ServedOptionPlan(ids, asked, f"served, {number} first tokens")
    return "the server returns no log-probabilities that show the probability of each option"


def _works(bodies: Sequence[dict[str, Any]], options: Sequence[Sequence[str]], server: Server) -> bool:
    """Tries the first request with each list of options. Returns whether all answers show the options' probabilities.

    `options` contains the options of each request.
    """
    first = {tuple(names): body for names, body in reversed(list(zip(options, bodies, strict=True)))}

    async def tried() -> bool:
        async with connected(server) as client:
            for names, body in first.items():
                likeliest = await client.post("chat/completions", body, first_tokens, what="a trial")
                if likeliest is None or option_masses(map(tuple, likeliest), names) is None:
                    return False
        return True

    with suppress(RefusedError, TemporaryFault):
        return asyncio.run(tried())
    return False
