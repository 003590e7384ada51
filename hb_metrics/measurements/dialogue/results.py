"""Defines the results of `dialogue`."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Dialogue:
    """The perplexity per token of people's replies, with its interval or the reason why it has none.

    Attributes:
        num_skipped: The numbers of replies that were not scored, by reason.
        source: The file that contains the dialogues.
    """

    perplexity: float
    interval: tuple[float, float] | None
    no_interval: str | None
    confidence_level: float
    num_replies: int
    num_tokens: int
    num_skipped: dict[str, int]
    source: str
