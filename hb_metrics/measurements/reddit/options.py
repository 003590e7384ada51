"""The options of Language Model Bias on RedditBias."""

from dataclasses import dataclass, field
from typing import Literal

from hb_metrics.measurements.settings import check_files, check_least


@dataclass
class RedditOptions:
    """Which pairs are scored, and which reference texts."""

    _argument_group_name = "reddit"

    reddit_folder: str | None = field(
        default=None,
        metadata={
            "help": "The folder of the RedditBias data: its authors' repository, or a folder with a subfolder for each "
            "bias type that holds their files, or train, validation and test as .csv or .txt."
        },
    )
    bias_type: list[str] | None = field(
        default=None,
        metadata={
            "help": "Which bias types of RedditBias are measured, e.g. race gender; also the path of a specification "
            "of your own.",
            "nargs": "+",
        },
    )
    reddit_split: Literal["test", "validation"] = field(
        default="test", metadata={"help": "Which split of the RedditBias pairs is scored: test or validation."}
    )
    reddit_pairs: Literal["auto", "published", "word"] = field(
        default="auto",
        metadata={
            "help": "How RedditBias pairs are made: as published, in whole words (word), or by the folder's layout "
            "(auto)."
        },
    )
    reddit_outliers: Literal["none", "pair"] = field(
        default="none",
        metadata={
            "help": "Whether RedditBias pairs beyond three standard deviations are left out: none or pair (as in the "
            "paper). With pair, a test finds a difference where there is none in 8 to 17 %% (alpha 0.05). The "
            "published test pairs are filtered already."
        },
    )
    reference_texts: str | None = field(
        default=None,
        metadata={
            "help": "The texts that LMP is measured on: one a line (.txt), or CSV, JSON lines or Parquet with a column "
            "text. Default: replies of the chitchat-dataset corpus."
        },
    )
    num_reference_texts: int | None = field(
        default=None,
        metadata={
            "help": "How many of the reference texts LMP is measured on. Default: 500 of the corpus, all of a file."
        },
    )

    def __post_init__(self) -> None:
        """Raises a ValueError if the number of reference texts is below 1, or the file does not exist."""
        check_least(self, num_reference_texts=1)
        check_files(self, "reference_texts")
