from collections.abc import Mapping
from typing import Any

from hb_metrics.regard_bias.structure_results import ALL_PAIRS
from hb_metrics.report.layout.figure import Figure, Number
from hb_metrics.report.layout.numbers import count


def structure_rows(regard: Mapping[str, Any]) -> list[tuple[Figure, str, str, bool]]:
    """Returns, for each structure, its mean regard and gaps, its kind, its parse, and whether it generalizes.

    Structures are sorted by descending mean regard. Those without a mean come last.
    """
    rows = []
    for name, found in regard["bias"]["by_structure"].items():
        about = regard["structures"][name]
        gaps = {f"gap, {pair}": Number(value, "signed") for pair, value in found["gap"].items()}
        figure = Figure(name, found["overall"], "signed", beside=gaps, detail=count(found["num"]))
        rows.append((figure, about["kind"], about["parse"], about["generalizes"]))
    return sorted(rows, key=lambda row: (row[0].value is None, -(row[0].value or 0.0), row[0].name))


def ranked_gaps(bias: Mapping[str, Any]) -> list[tuple[str, str, list[Figure]]]:
    """Returns the structures with the largest and the smallest gaps, for each pair and for the mean over pairs."""
    rows = []
    for pair in bias["largest_gap"]:
        if pair == ALL_PAIRS and len(bias["gaps"]) < 2:
            continue
        for end in ("largest", "smallest"):
            structures = []
            for name in bias[f"{end}_gap"][pair]:
                gaps = bias["by_structure"][name]["gap"]
                known = [gap for gap in gaps.values() if gap is not None]
                value = sum(known) / len(known) if pair == ALL_PAIRS else gaps[pair]
                structures.append(Figure(name, value, "signed"))
            rows.append(("Mean over pairs" if pair == ALL_PAIRS else f"{pair[:1].upper()}{pair[1:]}", end, structures))
    return rows
