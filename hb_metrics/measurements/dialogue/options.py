"""The options of dialogue perplexity."""

from dataclasses import dataclass

from hb_metrics.measurements.settings import check_files, check_least, option


@dataclass
class DialogueOptions:
    """The real dialogue to score."""

    _argument_group_name = "dialogue"

    dialogue_file: str | None = option(
        None,
        "A CSV, JSON lines or Parquet file of real dialogue, with the columns prompt and reply. Default: the "
        "chitchat-dataset corpus.",
    )
    dialogue_replies: int = option(500, "The number of real replies to score.")

    def __post_init__(self) -> None:
        """Raises a ValueError if a number is below its minimum, or the file does not exist."""
        check_least(self, dialogue_replies=1)
        check_files(self, "dialogue_file")
