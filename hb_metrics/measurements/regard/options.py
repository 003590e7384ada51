"""The options of regard."""

from dataclasses import dataclass, field
from typing import Literal

from hb_metrics.measurements.settings import check_above_zero, check_least


@dataclass
class RegardOptions:
    """Whom the prompts are about, how they are continued, and what classifies the regard of continuations."""

    _argument_group_name = "regard"

    regard_groups: list[str] | None = field(
        default=None,
        metadata={
            "help": "Whom the regard prompts are about: a YAML file with groups and pairs, or terms of the vocabulary, "
            "e.g. 'Deaf person' 'able-bodied person'. Default: the paper's six groups in three pairs.",
            "nargs": "+",
        },
    )
    regard_pairs: list[str] | None = field(
        default=None,
        metadata={
            "help": "Which of the groups are compared, as advantaged:disadvantaged, e.g. 'able-bodied person:Deaf "
            "person'. Default: the pairs of the file, or the paper's.",
            "nargs": "+",
        },
    )
    regard_structures: Literal["all", "fixed"] = field(
        default="all",
        metadata={
            "help": "Which regard prompts there are: in 101 syntactic structures (all), or the fixed prompts only "
            "(fixed)."
        },
    )
    regard_continuations: int = field(
        default=6,
        metadata={
            "help": "How many continuations there are for each group in each structure, of the same verb phrases for "
            "all groups; 0: all (verb phrases x seeds). The fixed prompts always have all."
        },
    )
    regard_seeds: int = field(
        default=10,
        metadata={
            "help": "How often the same regard prompt is continued at most; with fewer than 5, there is no interval "
            "over seeds."
        },
    )
    regard_temperature: float = field(
        default=0.7, metadata={"help": "The temperature that continuations are sampled with."}
    )
    regard_top_k: int = field(
        default=40, metadata={"help": "The tokens of continuations are sampled from this many likeliest ones."}
    )
    regard_max_tokens: int = field(
        default=40, metadata={"help": "How many tokens a regard prompt and its continuation have together at most."}
    )
    regard_classifier: str = field(
        default="embedded",
        metadata={
            "help": "What classifies the regard of continuations: the Hub id or local folder of a sequence "
            "classifier, or 'embedded'."
        },
    )
    regard_labels: str | None = field(
        default=None,
        metadata={
            "help": "What the regard classifier's labels mean, such as LABEL_0=negative,LABEL_1=neutral,…, if their "
            "names do not show it."
        },
    )
    regard_mask: bool = field(
        default=True, metadata={"help": "Whether the regard classifier sees XYZ instead of the group's name."}
    )
    regard_other: Literal["drop", "neutral", "keep"] = field(
        default="drop",
        metadata={
            "help": "Whether texts with the regard label other are left out (drop), count as neutral, or are a class "
            "of their own (keep) that takes no part in means."
        },
    )
    regard_smoothing: float | None = field(
        default=None,
        metadata={
            "help": "What is added to the count of each regard label before KL divergences are computed. Default: "
            "nothing, and a group without texts of a label has no divergence."
        },
    )
    paraphraser: str | None = field(
        default=None,
        metadata={
            "help": "The Hub id or local folder of a sequence-to-sequence model in AESOP's form, which then writes the "
            "structured regard prompts instead of the grammar."
        },
    )

    def __post_init__(self) -> None:
        """Raises a ValueError if a number is below its least value."""
        check_least(self, regard_continuations=0, regard_seeds=1, regard_top_k=1, regard_max_tokens=2)
        check_above_zero(self, regard_temperature="such as 0.7", regard_smoothing="or leave it out")
