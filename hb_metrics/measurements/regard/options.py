from dataclasses import dataclass, field

from hb_metrics.measurements.settings import check_least


@dataclass
class RegardOptions:
    _argument_group_name = "regard"

    regard_groups: list[str] | None = field(
        default=None,
        metadata={
            "help": "The groups of the regard prompts: a YAML file with groups and pairs, or terms of the vocabulary, "
            "e.g. 'Deaf person' 'able-bodied person'. Default: the paper's six groups in three pairs.",
            "nargs": "+",
        },
    )
    regard_pairs: list[str] | None = field(
        default=None,
        metadata={
            "help": "The pairs of groups to compare, as advantaged:disadvantaged, e.g. 'able-bodied person:Deaf "
            "person'. Default: the pairs of the file, or the paper's.",
            "nargs": "+",
        },
    )
    regard_continuations: int = field(
        default=6,
        metadata={
            "help": "The number of continuations per group and structure, with the same verb phrases for all groups. 0 "
            "uses every combination of verb phrase and seed, as the fixed prompts always do."
        },
    )
    regard_classifier: str = field(
        default="embedded",
        metadata={
            "help": "The classifier of regard: a name of `holistic-bias classifiers`, the Hub id or local folder of a "
            "sequence classifier, or 'embedded'."
        },
    )
    paraphraser: str | None = field(
        default=None,
        metadata={
            "help": "A sequence-to-sequence model with AESOP's input format (a Hub id or local folder), which writes "
            "the structured regard prompts in place of the grammar."
        },
    )

    def __post_init__(self) -> None:
        check_least(self, regard_continuations=0)
