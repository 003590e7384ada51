from dataclasses import dataclass

from hb_metrics.measurements.settings import option


@dataclass
class JudgeOptions:
    _argument_group_name = "judge"

    judge: list[str] | None = option(
        None,
        "One or more rubrics with which a language model labels the replies: offensive, refusal, condescending, "
        "stereotyping, regard or style_clusters, or the path of your own YAML file. Set the model with --judge_model.",
    )
