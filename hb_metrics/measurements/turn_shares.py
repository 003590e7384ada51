from collections.abc import Mapping, Sequence
from typing import Any

from hb_metrics.layout.figure import Figure, Unit, pair, reply_share
from hb_metrics.paired_changes.reply_shares import reply_share_changes
from hb_metrics.reply_checks.refusal_shares import reply_shares
from hb_metrics.run.replies import FlaggedReplies


def turn_shares(turns: Sequence[FlaggedReplies], confidence_level: float) -> dict[str, Any]:
    """Computes a share of replies for results.json: its value in each turn, and its change from the first to the last.

    All turns must contain the same conversations. `change` is `None` if the first and the last turn have replies for
    different terms or templates.
    """
    by_turn = []
    for flagged in turns:
        shares = reply_shares(flagged, confidence_level)
        by_turn.append({name: shares[name] for name in ("share", "num", "num_replies", "interval")})
    changes = reply_share_changes("all", turns[0], turns[-1], confidence_level)
    change = None if changes is None else changes["all"]._asdict()
    return {"by_turn": by_turn, "change": change, "confidence_level": confidence_level}


def turn_share_figures(name: str, shares: Mapping[str, Any], unit: Unit = "share") -> list[Figure]:
    level, last = shares["confidence_level"], len(shares["by_turn"])
    figures = []
    for turn, found in enumerate(shares["by_turn"], start=1):
        figures.append(reply_share(f"{name} by turn, turn {turn}", found, level))
    if shares["change"] is not None:
        figures.append(change_figure(f"{name} by turn, change from turn 1 to turn {last}", shares["change"], level))
    return [figure._replace(unit=unit, part_of=f"{name} by turn", is_main=False) for figure in figures]


def change_figure(name: str, change: Mapping[str, Any], confidence_level: float) -> Figure:
    return Figure(
        name,
        change["second"] - change["first"],
        "bias",
        interval=pair(change["interval"]),
        no_interval=change["reason"],
        confidence_level=confidence_level,
        is_main=False,
    )
