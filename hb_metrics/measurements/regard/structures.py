"""Rows of single structures: the best and the worst, and those with the largest and smallest gaps."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from hb_metrics.measurements.regard.figures import group_names
from hb_metrics.report.layout.figure import Figure, Number
from hb_metrics.report.layout.numbers import MISSING, count

ALL_PAIRS = "all"  # in the rankings by gap: the mean gap over the pairs


class Ends(NamedTuple):
    """One figure of every structure, and of those at its ends.

    Attributes:
        label: The group or pair.
        values: Structure → value, of structures that have one.
        high: Structures at the upper end.
        low: Structures at the lower end.
    """

    label: str
    values: dict[str, float]
    high: list[str]
    low: list[str]

    def mean(self, names: Sequence[str]) -> float | None:
        """The mean over these structures."""
        known = [self.values[name] for name in names if name in self.values]
        return sum(known) / len(known) if known else None


def structure_rows(regard: Mapping[str, Any]) -> list[tuple[Figure, str, str, bool]]:
    """Figure, kind, parse and whether it generalizes of each structure: mean regard, and gaps beside it.

    The highest mean regard comes first; structures without one come last.
    """
    rows = []
    for name, found in regard["bias"]["by_structure"].items():
        about = regard["structures"][name]  # of structures that a paraphraser wrote, all may be `None`
        gaps = {f"gap, {pair}": Number(value, "signed") for pair, value in found["gap"].items()}
        figure = Figure(name, found["overall"], "signed", beside=gaps, detail=count(found["num"]))
        rows.append((figure, about["kind"] or MISSING, about["parse"] or MISSING, bool(about["generalizes"])))
    return sorted(rows, key=lambda row: (row[0].value is None, -(row[0].value or 0.0), row[0].name))


def group_ends(bias: Mapping[str, Any]) -> list[Ends]:
    """Mean regard of each group by structure; the ends are the best and worst structures over all groups."""
    rows = []
    for group in group_names(bias):
        means = {name: structure["mean"][group] for name, structure in bias["by_structure"].items()}
        values = {name: mean for name, mean in means.items() if mean is not None}
        rows.append(Ends(group, values, bias["best_structures"], bias["worst_structures"]))
    return rows


def gap_ends(bias: Mapping[str, Any]) -> list[Ends]:
    """The gap of each pair by structure; the ends are the pair's own largest and smallest gaps."""
    rows = []
    for pair in bias["gaps"]:
        gaps = {name: structure["gap"][pair] for name, structure in bias["by_structure"].items()}
        values = {name: gap for name, gap in gaps.items() if gap is not None}
        label = f"{pair[:1].upper()}{pair[1:]}"
        rows.append(Ends(label, values, bias["largest_gap"][pair], bias["smallest_gap"][pair]))
    return rows


def ranked_gaps(bias: Mapping[str, Any]) -> list[tuple[str, str, list[Figure]]]:
    """Pair, end, and the structures there with their gaps; with several pairs also by the mean over pairs."""
    ends = [(row.label, pair, row.values) for row, pair in zip(gap_ends(bias), bias["gaps"], strict=True)]
    if len(ends) > 1:
        means = {}
        for structure in bias["by_structure"]:
            known = [values[structure] for _, _, values in ends if structure in values]
            if known:
                means[structure] = sum(known) / len(known)
        ends.append(("Mean over pairs", ALL_PAIRS, means))
    rows = []
    for label, pair, values in ends:
        for end in ("largest", "smallest"):
            structures = [Figure(name, values.get(name), "signed") for name in bias[f"{end}_gap"][pair]]
            rows.append((label, end, structures))
    return rows
