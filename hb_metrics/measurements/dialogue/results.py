"""Defines the results of `dialogue`."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Dialogue:
    """The perplexity per token of people's replies, with its interval or the reason why it has none.

    Attributes:
        num_too_long: The number of replies that were too long to score.
    """

    perplexity: float
    interval: tuple[float, float] | None
    no_interval: str | None
    num_replies: int
    num_tokens: int
    num_too_long: int
