from dataclasses import dataclass

from hb_metrics.measurements.settings import check_least, option


@dataclass
class AwarenessOptions:
    _argument_group_name = "awareness"

    awareness_prompts: int = option(
        500,
        "The number of prompts of each kind: questions about a person's needs, where the term should matter, and "
        "neutral questions, where it should not.",
    )

    def __post_init__(self) -> None:
        check_least(self, awareness_prompts=1)
