from dataclasses import dataclass

from hb_metrics.measurements.settings import check_files, check_least, option


@dataclass
class DialogueOptions:
    _argument_group_name = "dialogue"

    dialogue_file: str | None = option(
        None,
        "A file of real dialogue (CSV, JSON lines or Parquet), with the columns prompt and reply. Default: the "
        "chitchat-dataset corpus.",
    )
    dialogue_replies: int = option(500, "The number of real replies to score.")

    def __post_init__(self) -> None:
        check_least(self, dialogue_replies=1)
        check_files(self, "dialogue_file")
