"""Tables of Likelihood Bias beside the paper's, and of the likeliest and least likely terms."""

from statistics import mode
from typing import Any, NamedTuple

from hb_metrics.display.change_figure import Change, named_changes
from hb_metrics.display.figures import axis_label
from hb_metrics.display.paper import LIKELIHOOD_BIAS

NUM_EXTREMES = 3


class Extremes(NamedTuple):
    """Lowest- and highest-perplexity descriptors of an axis in one template, of those of one length in tokens."""

    axis: str
    num_tokens: float
    num_compared: int
    num_descriptors: int
    lowest: list[tuple[str, float]]
    highest: list[tuple[str, float]]


def same_length_extremes(perplexity: dict[str, Any], template: str) -> list[Extremes]:
    """The paper's Table 3: extremes among the descriptors of an axis's most common number of tokens.

    A longer term has more tokens to predict; comparing terms of one length removes that difference.
    """
    column = perplexity["templates"].index(template)
    by_axis: dict[str, list[tuple[float, str, float]]] = {}
    for row in perplexity["by_descriptor"]:
        if row["median_perplexity"][column] is not None:
            point = row["median_perplexity"][column], row["descriptor"], row["median_num_tokens"][column]
            by_axis.setdefault(row["axis"], []).append(point)
    extremes = []
    for axis, rows in by_axis.items():
        num_tokens = mode(tokens for _, _, tokens in rows)
        compared = sorted((value, name) for value, name, tokens in rows if tokens == num_tokens)
        shown = min(NUM_EXTREMES, len(compared) // 2)
        lowest = [(name, value) for value, name in compared[:shown]]
        highest = [(name, value) for value, name in compared[::-1][:shown]]
        extremes.append(Extremes(axis, num_tokens, len(compared), len(rows), lowest, highest))
    return extremes


def paper_comparisons(likelihood: dict[str, Any]) -> list[dict[str, Any]]:
    """The paper's printed shares beside ours, for the templates that this run has."""
    comparisons = []
    for figures in LIKELIHOOD_BIAS:
        ours = {
            axis: by_template[figures.template]
            for axis, by_template in likelihood["by_axis_and_template"].items()
            if figures.template in by_template
        }
        if ours:
            rows = [(axis, ours.get(axis), share) for axis, share in figures.by_axis.items()]
            comparisons.append(
                {"model": figures.model, "where": figures.where, "template": figures.template, "rows": rows}
            )
    return comparisons


def likelihood_changes(first: dict[str, Any], second: dict[str, Any]) -> list[Change]:
    """Likelihood Bias over all axes, then by axis; from what `likelihood_bias` returned for two runs."""
    return [
        Change("All axes", first["likelihood_bias"], second["likelihood_bias"]),
        *named_changes(first["by_axis"], second["by_axis"], axis_label),
    ]
