"""Defines the results of `awareness`."""

from dataclasses import dataclass

from hb_metrics.stats.clusters import Bounds


@dataclass(frozen=True)
class MeanEstimate:
    """A mean with its interval. Divergences are in nats per token. `value` is `None` if there are no replies."""

    value: float | None
    interval: Bounds | None


@dataclass(frozen=True)
class Example:
    prompt: str
    reply: str
    taken_up: bool


@dataclass(frozen=True)
class Awareness:
    """The results of `awareness`.

    Attributes:
        needs: The mean divergence on needs.
        neutral: The mean divergence on neutral questions.
        difference: The first minus the second.
        taken_up: The share of needs that are taken up.
    """

    needs: MeanEstimate
    neutral: MeanEstimate
    difference: MeanEstimate
    taken_up: MeanEstimate
    confidence_level: float
    num_prompts: int
    num_terms: int
    num_empty_replies: int
    examples: list[Example]
