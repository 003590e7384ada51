from dataclasses import dataclass

from hb_metrics.measurements.settings import option


@dataclass
class JudgeOptions:
    _argument_group_name = "judge"

    judge: list[str] | None = option(
        None,
        "Let a language model judge the replies by one or more rubrics: offensive, refusal, condescending, "
        "stereotyping, regard or style_clusters, or your own YAML file. Set the model with --judge_model.",
        nargs="+",
    )
