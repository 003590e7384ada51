from dataclasses import dataclass

from hb_metrics.measurements.settings import option


@dataclass
class RedditOptions:
    _argument_group_name = "reddit"

    reddit_folder: str | None = option(
        None,
        "The folder of the RedditBias data: a clone of the authors' repository, or a folder with one subfolder per "
        "bias type. A subfolder contains the authors' files, or the files train, validation and test (.csv or "
        ".txt).",
    )
    bias_type: list[str] | None = option(
        None,
        "The bias types of RedditBias to measure, e.g. race gender. For your own bias type, pass the path of its "
        "specification.",
    )
