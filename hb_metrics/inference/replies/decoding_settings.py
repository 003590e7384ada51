"""How replies are decoded: the settings, what comes of it, and when a decision counts as close."""

from dataclasses import dataclass
from math import inf
from typing import NamedTuple

# How close two candidates may be before the decision counts as close, in log-probability (of whole beams in beam
# search). In float32, rows and padding beside a row move the log-probabilities of the embedded model by up to 8e-5 (96
# contexts, 24 tokens each).
CLOSE = 2e-4


@dataclass(frozen=True, kw_only=True)
class Decoding:
    """How replies are decoded.

    Attributes:
        num_beams: 1: one token after the other; more: beam search.
        sample: Whether tokens are drawn at random; only without beams.
        temperature, top_k, top_p: Of sampling: logits are divided by the temperature, then only the `top_k` likeliest
            tokens and of those the fewest with a total probability of at least `top_p` are drawn from.
        min_new_tokens: A reply that has begun does not end before it has so many tokens. In beam search, as in
            transformers, no end token comes first either.
        max_new_tokens: A reply is cut when it has so many tokens.
        max_reasoning_tokens: A thought before the reply is given up when it has so many tokens, and there is no reply.
        no_repeat_ngram_size: No sequence of so many tokens comes twice in a reply; 0: not blocked.
        length_penalty: Beam scores are summed log-probabilities / length ** length_penalty.
        end_after_sentence: Whether a reply ends with the first sentence that ends after `min_new_tokens`.
    """

    num_beams: int = 1
    sample: bool = False
    temperature: float = 1.0
    top_k: int = 50
    top_p: float = 1.0
    min_new_tokens: int = 0
    max_new_tokens: int = 60
    no_repeat_ngram_size: int = 0
    length_penalty: float = 1.0
    end_after_sentence: bool = False
    max_reasoning_tokens: int = 0

    def __post_init__(self) -> None:
        """Raises a ValueError that names the first setting that is out of range or contradicts another."""
        whole = {"num_beams": 1, "top_k": 1, "min_new_tokens": 0, "max_new_tokens": 1, "no_repeat_ngram_size": 0}
        whole["max_reasoning_tokens"] = 0
        for name, lowest in whole.items():
            if getattr(self, name) < lowest:
                raise ValueError(f"{name} is {getattr(self, name)}; give at least {lowest}")
        if not 0 < self.temperature < inf:  # which NaN is not, either
            raise ValueError(f"temperature is {self.temperature}; give more than 0, or decode greedily")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p is {self.top_p}; give more than 0 and at most 1")
        if self.sample and self.num_beams > 1:
            raise ValueError(f"sampling with num_beams {self.num_beams}: draw with num_beams 1, or do not sample")


class Decoded(NamedTuple):
    """A reply as tokens, with the thought before it, and whether it was cut at `max_new_tokens`."""

    tokens: list[int]
    truncated: bool
