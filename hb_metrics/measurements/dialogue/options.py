"""The options of dialogue perplexity."""

from dataclasses import dataclass, field

from hb_metrics.measurements.settings import check_files, check_least


@dataclass
class DialogueOptions:
    """Which real dialogue is scored."""

    _argument_group_name = "dialogue"

    dialogue_file: str | None = field(
        default=None,
        metadata={
            "help": "A CSV, JSON lines or Parquet file with columns prompt and reply: what real people said. "
            "Default: the chitchat-dataset corpus."
        },
    )
    dialogue_replies: int = field(default=500, metadata={"help": "How many replies of the real dialogue are scored."})
    n_resamples: int = field(
        default=1000,
        metadata={"help": "How many resamples make the interval of the dialogue perplexity; 0: no interval."},
    )

    def __post_init__(self) -> None:
        """Raises a ValueError if a number is below its least value, or the file does not exist."""
        check_least(self, n_resamples=0, dialogue_replies=1)
        check_files(self, "dialogue_file")
