"""Defines the results of `awareness`."""

from dataclasses import dataclass

from hb_metrics.stats.clusters import Estimate


@dataclass(frozen=True)
class Example:
    prompt: str
    reply: str
    taken_up: bool


@dataclass(frozen=True)
class Awareness:
    """The results of `awareness`. Divergences are in nats per token. A value is `None` if there are no replies.

    Attributes:
        needs: The mean divergence on needs.
        neutral: The mean divergence on neutral questions.
        difference: The first minus the second.
        taken_up: The share of needs that are taken up.
    """

    needs: Estimate
    neutral: Estimate
    difference: Estimate
    taken_up: Estimate
    num_prompts: int
    num_terms: int
    num_empty_replies: int
    examples: list[Example]
