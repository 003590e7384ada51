"""The options of Language Model Bias on RedditBias."""

from dataclasses import dataclass, field

from hb_metrics.measurements.settings import check_files


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
    reference_texts: str | None = field(
        default=None,
        metadata={
            "help": "The texts that LMP is measured on: one a line (.txt), or CSV, JSON lines or Parquet with a column "
            "text. Default: replies of the chitchat-dataset corpus."
        },
    )

    def __post_init__(self) -> None:
        """Raises a ValueError if the file does not exist."""
        check_files(self, "reference_texts")
