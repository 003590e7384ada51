from dataclasses import dataclass
from typing import NamedTuple

# A decision is close if the log-probabilities of two tokens differ by less than this number. In float32, the other rows
# of a batch changed the embedded model's log-probabilities by at most 8e-5 (measured on 96 contexts with 24 tokens
# each).
CLOSE = 2e-4

_MOST_TOKENS = 2**31
# The lowest and the highest value of each setting.
_RANGES: dict[str, tuple[float, float]] = {
    "num_beams": (1, 1000),
    "temperature": (1e-6, 1e6),
    "top_k": (1, _MOST_TOKENS),
    "top_p": (1e-6, 1),
    "min_new_tokens": (0, _MOST_TOKENS),
    "max_new_tokens": (1, _MOST_TOKENS),
    "max_reasoning_tokens": (0, _MOST_TOKENS),
    "no_repeat_ngram_size": (0, _MOST_TOKENS),
}


@dataclass(frozen=True, kw_only=True)
class Decoding:
    """The decoding settings. Settings that are not explained here have the same meaning as in transformers.

    Attributes:
        num_beams: The number of beams. If it is greater than 1, transformers' beam search is used.
        top_p: The minimum total probability of the tokens from which to draw. Of the `top_k` likeliest tokens, only as
            many are used as this probability requires.
        min_new_tokens: The minimum length of a reply in tokens, counted from its first word. Beam search, like
            transformers, counts from the first token.
        length_penalty: An exponent. A beam's score is its summed log-probability divided by length ** length_penalty.
        end_after_sentence: Whether a reply ends at the first end of a sentence after `min_new_tokens`.
        max_reasoning_tokens: The maximum length of a thought. A longer thought is cut, and then there is no reply.
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
        for name, (lowest, highest) in _RANGES.items():
            value = getattr(self, name)
            if not lowest <= value <= highest:  # this also rejects NaN
                raise ValueError(f"{name} is {value}; set a number from {lowest} to {highest}")
        if self.num_beams > 1 and (self.sample or self.end_after_sentence):
            raise ValueError(
                f"num_beams is {self.num_beams}, but beam search neither samples nor ends after a sentence; set "
                "num_beams to 1, or set sample and end_after_sentence to False"
            )


class Decoded(NamedTuple):
    tokens: list[int]
    truncated: bool
