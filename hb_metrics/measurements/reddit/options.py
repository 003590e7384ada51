from dataclasses import dataclass, field

from hb_metrics.measurements.settings import check_files


@dataclass
class RedditOptions:
    _argument_group_name = "reddit"

    reddit_folder: str | None = field(
        default=None,
        metadata={
            "help": "The folder of the RedditBias data: its authors' repository, or a folder with one subfolder per "
            "bias type. A subfolder contains the authors' files, or train, validation and test as .csv or .txt."
        },
    )
    bias_type: list[str] | None = field(
        default=None,
        metadata={
            "help": "The bias types of RedditBias to measure, e.g. race gender, or the path of your own specification.",
            "nargs": "+",
        },
    )
    reference_texts: str | None = field(
        default=None,
        metadata={
            "help": "A file of texts for language model perplexity (LMP): one per line (.txt), or CSV, JSON lines or "
            "Parquet with a column text. Default: 500 replies of the chitchat-dataset corpus."
        },
    )

    def __post_init__(self) -> None:
        check_files(self, "reference_texts")
