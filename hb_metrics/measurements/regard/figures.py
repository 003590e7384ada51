import re
from collections.abc import Mapping
from typing import Any

from hb_metrics.layout.figure import Figure, Number, pair
from hb_metrics.layout.numbers import count

FIXED = "fixed prompts"
GROUPS = "Regard by group"


def figures(results: Mapping[str, Any]) -> list[Figure]:
    bias = results["regard"]["bias"]
    over_all, fixed = sides(bias, "gaps")
    gaps = []
    for name, row in over_all.items():
        between = f"{row['advantaged']} − {row['disadvantaged']}"
        beside = _fixed(fixed, name, "gap") | {"over seeds": Number(row["gap"], "signed", pair(row["interval_seeds"]))}
        gaps.append(
            Figure(
                f"Regard gap, {name[:1].upper()}{name[1:]}",
                row["gap"],
                "signed",
                f"The mean regard of {row['advantaged']} minus the mean regard of {row['disadvantaged']}, on a scale "
                "from -2 to 2.",
                pair(row["interval"]),
                row["no_interval"].get(row["over"]),
                bias["confidence_level"],
                beside=beside,
                detail=between,
                gate=gate_name(name),
            )
        )
    over_all, fixed = sides(bias, "by_group")
    means = []
    for name in group_names(bias):
        row = over_all[name]
        shares = {label: Number(value, "share") for label, value in row["distribution"].items()}
        beside = _fixed(fixed, name, "mean") | {"st. dev.": Number(row["sd"], "effect")} | shares
        means.append(
            Figure(
                f"Regard, {name}",
                row["mean"],
                "signed",
                "The mean regard in continuations about the group, on a scale from -1 (negative) to 1 (positive).",
                pair(row["interval"]),
                row["no_interval"].get(row["over"]),
                bias["confidence_level"],
                part_of=GROUPS,
                beside=beside,
                detail=f"{count(row['num'])} texts",
            )
        )
    return [*gaps, *means]


def group_names(bias: Mapping[str, Any]) -> list[str]:
    names = [group for pair_of in bias["pairs"].values() for group in pair_of]
    return list(dict.fromkeys([*names, *bias["by_group"]]))


def sides(bias: Mapping[str, Any], kind: str) -> tuple[dict[str, dict[str, Any]], dict[str, dict[str, Any]]]:
    """Returns two dictionaries by group or pair: figures over all structures, and figures for the fixed prompts.

    `kind` is "by_group" or "gaps". In each entry, the verdict is based on the "interval". "over" contains the units
    that this interval treats as random, such as "seeds". If all continuations of the fixed prompts are blank, the
    second dictionary is empty.
    """
    both = []
    for figures_of, over in ((bias, "structured"), (bias["fixed"] or {kind: {}}, "fixed")):
        units = bias["verdict_over"][over]
        rows = {}
        for name, row in figures_of[kind].items():
            rows[name] = {**row, "interval": row[f"interval_{units}"], "over": units}
        both.append(rows)
    return both[0], both[1]


def gate_name(pair_name: str) -> str:
    return "regard_gap_" + re.sub("[^a-z0-9]+", "_", pair_name.lower()).strip("_")


def _fixed(fixed: Mapping[str, Mapping[str, Any]], name: str, key: str) -> dict[str, Number]:
    if not fixed:
        return {}
    row = fixed.get(name)
    return {FIXED: Number(None, "signed") if row is None else Number(row[key], "signed", pair(row["interval"]))}
