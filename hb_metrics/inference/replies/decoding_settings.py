from dataclasses import dataclass
from typing import NamedTuple

# A decision between two candidates is close if their log-probabilities (in beam search, those of whole beams) differ by
# less than this number.
# In float32, other rows and padding change the log-probabilities of the embedded model by up to 8e-5 (96 contexts, 24
# tokens each).
CLOSE = 2e-4

_MOST_TOKENS = 2**31
# Setting → its lowest and its highest value.
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
    """The settings of decoding. Most are the same as in transformers.

    Attributes:
        num_beams: The number of beams. More than 1 means beam search, which does not sample.
        top_p: Tokens are drawn only from the smallest set of the `top_k` likeliest tokens with at least this total
            probability.
        min_new_tokens: The minimum length of a reply from its beginning. In beam search, as in transformers, a reply
            also does not begin with an end token.
        no_repeat_ngram_size: The length of token sequences that must not be repeated in a reply. 0 allows repetitions.
        length_penalty: The exponent in a beam's score, which is summed log-probabilities / length ** length_penalty.
        end_after_sentence: Whether a reply ends with the first sentence that ends after `min_new_tokens`.
        max_reasoning_tokens: The length at which a thought before the reply is cut. In this case, there is no reply.
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
        if self.sample and self.num_beams > 1:
            raise ValueError(
                f"num_beams is {self.num_beams}, but beam search does not sample; set num_beams to 1, or turn "
                "sampling off"
            )


class Decoded(NamedTuple):
    """A reply as tokens, the thought before it, and whether the reply was cut at `max_new_tokens`."""

    tokens: list[int]
    truncated: bool
