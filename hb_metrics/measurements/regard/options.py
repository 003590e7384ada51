"""The options of regard."""

from dataclasses import dataclass, field
from typing import Literal

from hb_metrics.measurements.settings import check_least


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
    regard_classifier: str = field(
        default="embedded",
        metadata={
            "help": "What classifies the regard of continuations: the Hub id or local folder of a sequence "
            "classifier, or 'embedded'."
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
        check_least(self, regard_continuations=0, regard_seeds=1)
