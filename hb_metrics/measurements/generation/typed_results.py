"""Defines the results of `generation`. Bias values are multiplied by 1000. Shares and probabilities are from 0 to 1."""

from dataclasses import dataclass
from typing import Literal

from hb_metrics.identity_leakage.leakage import Leakage
from hb_metrics.measurements.shares import GroupShares, TurnShares
from hb_metrics.reply_checks.parroting import Parroting
from hb_metrics.reply_checks.phrase_rates import PhraseRates
from hb_metrics.reply_checks.refusal_shares import ComparedShares, Shares
from hb_metrics.stats.changes import PairedChange
from hb_metrics.stats.clusters import Bounds, Estimate
from hb_metrics.stats.gen_bias import GenBias


@dataclass(frozen=True)
class PairSide:
    """A reply of `MedianPair`. `style_means` are the mean probabilities of `style` for this term and the other one."""

    axis: str
    descriptor: str
    prompt: str
    reply: str
    style: str
    style_means: tuple[float, float]


@dataclass(frozen=True)
class MedianPair:
    """Two replies to the same template (see `median_pair`). `share` is how often style tells their terms apart."""

    share: float
    sides: tuple[PairSide, PairSide]


@dataclass(frozen=True)
class ShownReply:
    prompt: str
    reply: str
    reasoning: str | None


@dataclass(frozen=True)
class ServedCounts:
    """A server's answers.

    Attributes:
        finish_reasons: The number of answers with each finish reason.
        endings: The number of answers with each ending, which is derived from the finish reason.
        num_without_counts: The number of answers without a valid token count.
        num_shortened: The number of requests from which the server probably left out messages.
    """

    finish_reasons: dict[str, int]
    endings: dict[str, int]
    num_without_counts: int
    num_shortened: int
    tokens_in: int
    tokens_out: int


@dataclass(frozen=True)
class Style:
    """The mean of a style over descriptors, and its variance ×1000 (the paper's Table 15)."""

    style: str
    mean: float
    variance: float


@dataclass(frozen=True)
class Term:
    """A descriptor. `clusters` contains the mean probability of each cluster's styles."""

    axis: str
    descriptor: str
    num_replies: int
    mean_bias_value: float
    clusters: dict[str, float]
    parroting_share: float


@dataclass(frozen=True)
class Example:
    """A reply to a prompt about a descriptor, with its likeliest style."""

    id: str
    axis: str
    descriptor: str
    why: Literal["characteristic", "drawn"]
    prompt: str
    reply: str
    style: str
    style_probability: float
    parroting: bool
    template: str = ""


@dataclass(frozen=True)
class NounBias:
    """The bias between nouns. `value` is `None` if no template has two terms that share two nouns."""

    value: float | None
    interval: Bounds | None
    no_interval: str | None


@dataclass(frozen=True)
class Nouns(NounBias):
    by_gender: dict[str, NounBias]
    confidence_level: float


@dataclass(frozen=True)
class NameGroups:
    """The bias between groups of names.

    Attributes:
        within: The variance between the names of a group.
        p: The p-value of no difference between groups.
        reason: The reason why there is no value, or no interval.
        num_names: The number of names in each group.
        num_questions: The number of questions to which all names have replies.
        num_left_out: The number of all other questions.
    """

    value: float | None
    within: float | None
    interval: Bounds | None
    p: float | None
    reason: str | None
    num_names: dict[str, int]
    num_questions: int
    num_left_out: int
    confidence_level: float


@dataclass(frozen=True)
class RefusalShares(ComparedShares):
    """The shares of refusals or disclaimers. `by_rule` counts each reply only for the first rule that it matches."""

    by_rule: dict[str, int]
    groups: GroupShares | None = None


@dataclass(frozen=True)
class Refusals:
    refusals: RefusalShares
    disclaimers: RefusalShares


@dataclass(frozen=True)
class Frequency:
    """The uses of a descriptor in a million training examples."""

    axis: str
    descriptor: str
    per_million: float
    one_word: bool


@dataclass(frozen=True, kw_only=True)
class Biases:
    """Gen Bias values: plain ones (with sampling noise) with the intervals, and values without this noise.

    Attributes:
        debiased: `None` if there is a template in which no term has a second reply.
    """

    gen_bias: GenBias
    debiased: GenBias | None


@dataclass(frozen=True, kw_only=True)
class Turns:
    """The values by turn, over the conversations that have a reply at every turn.

    Attributes:
        name_groups: The bias between groups of names in each turn. `None` if the prompts have no names.
        num_ended: The number of conversations that ended early.
        num_unclosed_reasoning: The number of conversations that ended because a thought did not end.
        change: The change in debiased Full Gen Bias from the first turn to the last. `None` if a value is unknown.
        slope: Its slope per turn.
        change_by_axis: The change for the terms of each axis.
    """

    name_groups: list[NameGroups] | None = None
    num_conversations: int
    num_ended: int
    num_unclosed_reasoning: int
    served: ServedCounts | None = None
    by_turn: list[Biases]
    change: PairedChange | None
    slope: PairedChange | None
    change_by_axis: dict[str, PairedChange]
    uptake: TurnShares
    refusals: TurnShares


@dataclass(frozen=True, kw_only=True)
class StyleResults(Biases):
    """The results that depend on styles."""

    telling: Estimate
    pair: MedianPair | None
    styles: list[Style]
    by_descriptor: list[Term]
    parroting: Parroting
    phrase_rates: PhraseRates
    examples: list[Example]


@dataclass(frozen=True, kw_only=True)
class ReplyCounts:
    """The numbers of replies, and some random replies.

    Attributes:
        num_filtered_replies: The number of replies that a server's filter removed.
        num_truncated_replies: The number of replies that were cut at the maximum length. `None` if it is unknown.
        short_share: The share of replies with fewer words than `SHORT`.
        most_frequent_share: The share of replies that are the most frequent reply.
        num_unclosed_reasoning: The number of prompts without a reply because a thought did not end.
        num_invented_turns: The number of replies whose text after the model's turn was removed.
    """

    num_prompts: int
    num_replies: int
    num_empty_replies: int
    num_filtered_replies: int
    num_truncated_replies: int | None
    num_distinct_replies: int
    short_share: float
    most_frequent_share: float
    num_with_reasoning: int
    num_unclosed_reasoning: int
    mean_num_reasoning_tokens: float | None
    num_invented_turns: int
    served: ServedCounts | None = None
    shown_replies: list[ShownReply]


@dataclass(frozen=True, kw_only=True)
class Generation(StyleResults, ReplyCounts):
    """The results of `generation`. All values are for the first turn, except `turns`.

    Attributes:
        num_unanswered: The number of replies without an answer, if the style classifier is a judge.
        uptake: The share of replies that name the prompt's term.
    """

    num_cut_for_classifier: int
    num_unanswered: int | None = None
    identity_leakage: Leakage | None
    uptake: Shares
    nouns: Nouns
    name_groups: NameGroups | None = None
    refusals: Refusals
    frequencies: list[Frequency]
    turns: Turns | None = None
