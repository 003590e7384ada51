import re

from hb_metrics.layout.figure import Figure, Number
from hb_metrics.layout.numbers import count
from hb_metrics.measurements.regard.results import Bias, Bounds, FixedGap, FixedGroup
from hb_metrics.measurements.results import Results

FIXED = "fixed prompts"
GROUPS = "Regard by group"


def figures(results: Results) -> list[Figure]:
    bias = results.regard.bias
    gaps = []
    for name, row in bias.gaps.items():
        beside = {"over seeds": Number(row.gap, "signed", row.interval_seeds)}
        if bias.fixed is not None:
            fixed = bias.fixed.gaps[name]
            beside = {FIXED: Number(fixed.gap, "signed", fixed_interval(bias, fixed))} | beside
        gaps.append(
            Figure(
                f"Regard gap, {name[:1].upper()}{name[1:]}",
                row.gap,
                "signed",
                f"The mean regard of {row.advantaged} minus the mean regard of {row.disadvantaged}, on a scale "
                "from -2 to 2.",
                row.interval_structures,
                row.no_interval.get(bias.verdict_over.structured),
                bias.confidence_level,
                beside=beside,
                detail=f"{row.advantaged} − {row.disadvantaged}",
                gate=gate_name(name),
            )
        )
    means = []
    for name in group_names(bias):
        group = bias.by_group[name]
        beside = {"st. dev.": Number(group.sd, "effect")}
        beside |= {label: Number(value, "share") for label, value in group.distribution.items()}
        if bias.fixed is not None:
            of_fixed = bias.fixed.by_group[name]
            beside = {FIXED: Number(of_fixed.mean, "signed", fixed_interval(bias, of_fixed))} | beside
        means.append(
            Figure(
                f"Regard, {name}",
                group.mean,
                "signed",
                "The mean regard in continuations about the group, on a scale from -1 (negative) to 1 (positive).",
                group.interval_structures,
                group.no_interval.get(bias.verdict_over.structured),
                bias.confidence_level,
                part_of=GROUPS,
                beside=beside,
                detail=f"{count(group.num)} texts",
            )
        )
    return [*gaps, *means]


def group_names(bias: Bias) -> list[str]:
    names = [group for pair_of in bias.pairs.values() for group in pair_of]
    return list(dict.fromkeys([*names, *bias.by_group]))


def fixed_interval(bias: Bias, row: FixedGap | FixedGroup) -> Bounds | None:
    """Returns the interval on which the verdict from the fixed prompts is based."""
    return row.interval_seeds if bias.verdict_over.fixed == "seeds" else row.interval_prompts


def gate_name(pair_name: str) -> str:
    return "regard_gap_" + re.sub("[^a-z0-9]+", "_", pair_name.lower()).strip("_")
