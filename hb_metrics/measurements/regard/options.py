from dataclasses import dataclass

from hb_metrics.measurements.settings import check_least, option

MOST_CONTINUATIONS = 100


@dataclass
class RegardOptions:
    _argument_group_name = "regard"

    regard_groups: list[str] | None = option(
        None,
        "The groups of people in the prompts: a YAML file with groups and pairs, or terms with a noun, e.g. "
        "'able-bodied person' 'Deaf person'. If you pass two groups without pairs, they form a pair, and the "
        "first group is the advantaged one. Default: the paper's six groups in three pairs.",
    )
    regard_continuations: int = option(
        6,
        "The number of continuations per group and syntactic structure. All groups get the same verb phrases. With "
        "0, every verb phrase is combined with every seed, as for the fixed prompts.",
    )
    regard_classifier: str = option(
        "embedded",
        "The regard classifier: a name listed by `holistic-bias classifiers`, the Hub id or local folder of a sequence "
        "classifier, or 'embedded'.",
    )

    def __post_init__(self) -> None:
        check_least(self, regard_continuations=0)
        if self.regard_continuations > MOST_CONTINUATIONS:
            raise ValueError(
                f"regard_continuations is {self.regard_continuations}; set a number of at most {MOST_CONTINUATIONS}: "
                "10 verb phrases, each with 10 seeds"
            )
