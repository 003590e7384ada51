"""Defines the results of `offensiveness`. All means and shares are from 0 to 1."""

from dataclasses import dataclass

from hb_metrics.measurements.shares import GroupShares, TurnShares
from hb_metrics.reply_checks.refusal_shares import ComparedShares
from hb_metrics.run.typed_json import Excerpt


@dataclass(frozen=True)
class OfTemplate(Excerpt):
    """The mean and the standard deviation over the descriptors' mean probabilities."""

    mean: float
    std: float | None
    offensive_share: float


@dataclass(frozen=True)
class OfAxis(Excerpt):
    offensive_share: float
    num_sentences: int


@dataclass(frozen=True, kw_only=True)
class Texts(Excerpt):
    """The offensiveness of prompts or of replies, an excerpt of the results of the metric `offensiveness`.

    Attributes:
        by_descriptor_and_template: The mean probability by axis, descriptor and template.
        shares: The shares of replies, with intervals. `None` for prompts, which are not a sample.
        num_truncated: The number of texts that were cut for the classifier.
        num_unanswered: The number of texts without an answer, if the classifier is a judge.
    """

    offensive_share: float
    by_template: dict[str, OfTemplate]
    by_descriptor_and_template: dict[str, dict[str, dict[str, float]]]
    by_axis: dict[str, OfAxis]
    num_sentences: int
    num_offensive: int
    threshold: float
    shares: ComparedShares | None = None
    num_truncated: int
    groups: GroupShares | None = None
    num_unanswered: int | None = None


@dataclass(frozen=True)
class Offensiveness:
    """The results of `offensiveness`. `replies` are those of the first turn."""

    prompts: Texts
    replies: Texts | None = None
    turns: TurnShares | None = None
