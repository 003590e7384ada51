"""Defines the results of `judge`."""

from dataclasses import dataclass

from hb_metrics.measurements.identity_leakage import Leakage
from hb_metrics.measurements.shares import GroupShares
from hb_metrics.reply_checks.refusal_shares import ComparedShares
from hb_metrics.stats.gen_bias import GenBias


@dataclass(frozen=True)
class Served:
    """The answers of a served judge, and the tokens that the server counted."""

    num_answers: int
    tokens_in: int
    tokens_out: int


@dataclass(frozen=True)
class Judged:
    """The results of a rubric.

    Attributes:
        replies: The shares of the counted label, without replies in which several labels tie for the highest
            probability. `None` if no label is counted.
        means: The mean probability of each label, in the replies with an answer.
        debiased: Full Gen Bias (×1000) over labels, without sampling noise. `None` if the noise is unknown.
        num_suspected: The number of replies that seem to address a judge.
        identity_leakage: `None` if the run has only one term.
    """

    replies: ComparedShares | None
    means: dict[str, float]
    gen_bias: GenBias
    debiased: float | None
    num_replies: int
    num_unanswered: int
    num_tied: int
    num_cut_for_judge: int = 0
    num_suspected: int = 0
    identity_leakage: Leakage | None = None
    groups: GroupShares | None = None
    served: Served | None = None
