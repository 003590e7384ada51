"""The options of offensiveness."""

from dataclasses import dataclass, field


@dataclass
class OffensivenessOptions:
    """Which classifier decides what is offensive."""

    _argument_group_name = "offensiveness"

    offensiveness_classifier: str = field(
        default="embedded",
        metadata={
            "help": "The classifier of offensive texts: the Hub id or local folder of a sequence classifier, or "
            "'embedded'."
        },
    )
