"""Defines the options and the results of `regard`. Mean regard is from -1 to 1, and a gap is from -2 to 2."""

from dataclasses import dataclass
from typing import Literal

Bounds = tuple[float, float]
Verdict = Literal["advantaged", "disadvantaged", "undecided"]


@dataclass(frozen=True)
class Group:
    """The regard for a group.

    Attributes:
        distribution: The share of each label, in which all structures have the same weight.
        counts: The number of texts with each label.
        sd: The standard deviation between texts.
        num: The number of texts.
        no_interval: The reason for each missing interval, by what the interval is over, such as "seeds".
    """

    distribution: dict[str, float | None]
    counts: dict[str, int]
    mean: float | None
    sd: float | None
    num: int
    interval_structures: Bounds | None
    interval_seeds: Bounds | None
    no_interval: dict[str, str]


@dataclass(frozen=True)
class FixedGroup(Group):
    """The regard for a group in the fixed prompts."""

    interval_prompts: Bounds | None


@dataclass(frozen=True)
class AnyGap:
    """The mean regard of the advantaged group minus the mean regard of the disadvantaged group."""

    advantaged: str
    disadvantaged: str
    gap: float | None
    interval_structures: Bounds | None
    interval_seeds: Bounds | None
    no_interval: dict[str, str]


@dataclass(frozen=True)
class FixedGap(AnyGap):
    """A gap in the fixed prompts."""

    interval_prompts: Bounds | None


@dataclass(frozen=True)
class Gap(AnyGap):
    """A gap over all structures.

    Attributes:
        num_structures: The number of structures with texts about both groups.
        flipped: The structures in which the gap has the opposite sign. `None` if there is no gap, or if it is 0.
        num_zero: The number of structures in which the gap is 0.
    """

    num_structures: int
    num_flipped: int | None
    flipped: list[str] | None
    num_zero: int


@dataclass(frozen=True)
class Fixed:
    """The figures of the fixed prompts alone."""

    gaps: dict[str, FixedGap]
    by_group: dict[str, FixedGroup]
    kl_divergence: dict[str, dict[str, float]] | None
    kl_error: str | None
    num_counted: int


@dataclass(frozen=True)
class InStructure:
    """The figures of one structure: the mean regard by group, the mean of these means, and the gap by pair."""

    mean: dict[str, float | None]
    overall: float | None
    gap: dict[str, float | None]
    num: int
    num_groups: int


@dataclass(frozen=True)
class Verdicts:
    """The verdicts on a pair, whether they are the same, and the reason for each missing verdict."""

    fixed: Verdict | None
    structured: Verdict | None
    survives: bool | None
    no_verdict: dict[str, str]


@dataclass(frozen=True)
class Over:
    """What the intervals behind the verdicts are over: structures, seeds or prompts."""

    fixed: Literal["seeds", "prompts"]
    structured: Literal["structures"]


@dataclass(frozen=True)
class Bias:
    """The results of the metric `regard_bias`, whose card describes them.

    Attributes:
        kl_divergence: KL(first ‖ second) in nats, by the first and the second group.
        largest_gap: The structures with the largest gaps, by pair.
        num_other: The number of texts with the label "other", by group.
        pairs: The advantaged and the disadvantaged group of each pair.
    """

    gaps: dict[str, Gap]
    by_group: dict[str, Group]
    kl_divergence: dict[str, dict[str, float]] | None
    kl_error: str | None
    by_structure: dict[str, InStructure]
    best_structures: list[str]
    worst_structures: list[str]
    largest_gap: dict[str, list[str]]
    smallest_gap: dict[str, list[str]]
    fixed: Fixed | None
    verdicts: dict[str, Verdicts]
    verdict_over: Over
    num_rows: int
    num_other: dict[str, int]
    num_counted: int
    num_structures: int
    num_prompts: int
    num_seeds: int
    smoothing: float | None
    confidence_level: float
    fixed_structure: str
    pairs: dict[str, tuple[str, str]]


@dataclass(frozen=True)
class Structure:
    kind: str
    parse: str
    generalizes: bool


@dataclass(frozen=True)
class Example:
    structure: str
    group: str
    text: str
    continuation: str
    regard: str


@dataclass(frozen=True)
class Regard:
    """The results of `regard`.

    Attributes:
        num_blank: The number of continuations without text.
        num_unanswered: The number of continuations for which no single label was the likeliest.
        num_cut_for_classifier: The number of continuations that were too long for the classifier.
    """

    bias: Bias
    structures: dict[str, Structure]
    num_prompts: int
    num_structures: int
    num_seeds: int
    num_continuations: int
    num_blank: int
    num_truncated: int
    num_unanswered: int
    num_cut_for_classifier: int
    examples: list[Example]
