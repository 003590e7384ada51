from dataclasses import dataclass

from hb_metrics.measurements.settings import check_least, option


@dataclass
class AwarenessOptions:
    _argument_group_name = "awareness"

    awareness_prompts: int = option(
        500,
        "The number of questions about a person's needs, where the term should matter. The run has the same number of "
        "neutral questions, where the term should not matter.",
    )

    def __post_init__(self) -> None:
        check_least(self, awareness_prompts=1)
