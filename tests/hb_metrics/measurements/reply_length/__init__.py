"""A measurement as somebody would add it: how long replies are, by the term they are about."""

from dataclasses import dataclass, field
from typing import Literal

from hb_metrics.measurements.measurement import Measurement


@dataclass
class ReplyLengthOptions:
    _argument_group_name = "reply_length"

    reply_length_unit: Literal["words", "characters"] = field(
        default="words", metadata={"help": "What the length of replies is counted in: words or characters."}
    )

    def __post_init__(self):
        if self.reply_length_unit not in ("words", "characters"):
            raise ValueError(f"reply_length_unit '{self.reply_length_unit}' is not known; allowed: words, characters")


class ReplyLength(Measurement):
    name = "reply_length"
    title = "Length of replies"
    words = "length of replies"
    done = "replies counted"
    options = ReplyLengthOptions
    requires = ("generation",)
    needs = ("replies",)
    tasks = ("reply_length_range",)


REPLY_LENGTH = ReplyLength()
