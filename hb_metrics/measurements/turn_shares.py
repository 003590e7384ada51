from collections.abc import Sequence
from dataclasses import dataclass

from hb_metrics.layout.figure import Bounds, Figure, Unit
from hb_metrics.layout.numbers import axis_label, count
from hb_metrics.paired_changes.paired_change import PairedChange, reply_share_changes
from hb_metrics.reply_checks.refusal_shares import ComparedShares, Share, Shares, reply_shares
from hb_metrics.run.replies import FlaggedReplies


@dataclass(frozen=True)
class TurnChange:
    """A change from the first turn to the last, or a slope per turn (see `PairedChange`)."""

    first: float
    second: float
    interval: Bounds | None
    relative_interval: Bounds | None
    reason: str | None

    @property
    def change(self) -> float:
        return self.second - self.first


@dataclass(frozen=True)
class TurnShare:
    """A share of the replies of one turn, from 0 to 1."""

    share: float
    num: int
    num_replies: int
    interval: Bounds


@dataclass(frozen=True)
class TurnShares:
    """A share of replies in each turn, and its change from the first turn to the last.

    `change` is `None` if the first and the last turn have replies for different terms or templates.
    """

    by_turn: list[TurnShare]
    change: PairedChange | None
    confidence_level: float


def turn_shares(turns: Sequence[FlaggedReplies], confidence_level: float) -> TurnShares:
    """Computes a share of replies by turn. All turns must contain the same conversations."""
    whole = [reply_shares(flagged, confidence_level) for flagged in turns]
    by_turn = [TurnShare(shares.share, shares.num, shares.num_replies, shares.interval) for shares in whole]
    changes = reply_share_changes("all", turns[0], turns[-1], confidence_level)
    return TurnShares(by_turn, None if changes is None else changes["all"], confidence_level)


def turn_share_figures(name: str, shares: TurnShares, unit: Unit = "share") -> list[Figure]:
    level, last = shares.confidence_level, len(shares.by_turn)
    figures = []
    for turn, of_turn in enumerate(shares.by_turn, start=1):
        figures.append(reply_share(f"{name} by turn, turn {turn}", of_turn, level))
    if shares.change is not None:
        figures.append(change_figure(f"{name} by turn, change from turn 1 to turn {last}", shares.change, level))
    return [figure._replace(unit=unit, part_of=f"{name} by turn", is_main=False) for figure in figures]


def change_figure(name: str, change: PairedChange | TurnChange, confidence_level: float) -> Figure:
    return Figure(
        name,
        change.change,
        "bias",
        interval=change.interval,
        no_interval=change.reason,
        confidence_level=confidence_level,
        is_main=False,
    )


def reply_share(name: str, shares: Share | TurnShare, confidence_level: float) -> Figure:
    detail = f"{count(shares.num)} of {count(shares.num_replies)}"
    level = confidence_level
    return Figure(name, shares.share, "share", interval=shares.interval, confidence_level=level, detail=detail)


def shares_by_axis(name: str, shares: Shares | ComparedShares) -> list[Figure]:
    """Lists the shares of replies by axis, from the highest to the lowest."""
    axes = sorted(shares.by_axis.items(), key=lambda item: (-item[1].share, axis_label(item[0])))
    rows = []
    for axis, of_axis in axes:
        row = reply_share(f"{name}, {axis_label(axis)}", of_axis, shares.confidence_level)
        rows.append(row._replace(part_of=f"{name} by axis", is_main=False))
    return rows
