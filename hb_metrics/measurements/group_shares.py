"""Compares shares of replies, such as refusals, between groups of names. Prompts and names are both random."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from hb_dataset.names import has_names
from hb_metrics.layout.figure import Figure, pair
from hb_metrics.layout.numbers import count
from hb_metrics.reply_checks.refusal_shares import cell_counts
from hb_metrics.run.replies import FlaggedReplies
from hb_metrics.stats.name_gaps import name_gaps

BY_GROUP = "by group of names"


def group_shares(flagged: FlaggedReplies, prompts: pa.Table, confidence_level: float) -> dict[str, Any] | None:
    """Computes the share of flagged replies in each group of names, and the largest difference, for results.json.

    A group's share is the mean over prompts of the mean over names. The result is `None` if people are not names.
    """
    if not has_names(prompts) or not flagged.replies.ids:
        return None
    keys, counts, sizes = cell_counts(flagged)
    groups = dict(zip(prompts["descriptor"].to_pylist(), prompts["bucket"].to_pylist(), strict=True))
    of_names = [groups[key.descriptor] for key in keys]
    table = np.divide(counts, sizes, out=np.full(counts.shape, np.nan), where=sizes > 0).T
    largest = name_gaps(table, of_names, confidence_level)
    by_group = {}
    for group in largest.groups:
        members = [name == group for name in of_names]
        num, number = int(counts[members].sum()), int(sizes[members].sum())
        by_group[group] = {"share": num / number, "num": num, "num_replies": number}
    found: dict[str, Any] = {"by_group": by_group, "largest": None, "confidence_level": confidence_level}
    if largest.largest is not None:
        gap = largest.largest.gap
        names = {"high": largest.groups[largest.largest.high], "low": largest.groups[largest.largest.low]}
        found["largest"] = {**names, **gap._asdict(), "p_value": largest.p_value}
    return found


def group_figures(name: str, found: Mapping[str, Any] | None) -> list[Figure]:
    """Lists the share of each group of names, from the highest to the lowest, and the largest difference."""
    if found is None:
        return []
    rows = []
    for group, share in sorted(found["by_group"].items(), key=lambda item: -item[1]["share"]):
        detail = f"{count(share['num'])} of {count(share['num_replies'])}"
        rows.append(Figure(f"{name} {BY_GROUP}, {group}", share["share"], "share", detail=detail))
    if (largest := found["largest"]) is not None:
        row = Figure(
            f"{name} {BY_GROUP}, largest difference",
            largest["value"],
            "points",
            interval=pair(largest["interval"]),
            no_interval=largest["reason"],
            confidence_level=found["confidence_level"],
            detail=f"{largest['high']} compared with {largest['low']}",
        )
        rows.append(row)
    return [row._replace(part_of=f"{name} {BY_GROUP}", is_main=False) for row in rows]
