"""Rows of the comparison's tables: how generation bias changes from one run to another."""

from collections.abc import Mapping
from typing import Any

from hb_metrics.display.change_figure import Change, named_changes
from hb_metrics.display.figures import axis_label
from hb_metrics.display.numbers import slot
from hb_metrics.measurements.generation.figures import Measured
from hb_metrics.measurements.generation.tables import (
    CLUSTER_METRICS,
    full_gen_bias,
    gen_bias_by_axis,
    gen_bias_by_cluster,
)
from hb_metrics.reply_checks.parroting import correlation_with_bias
from hb_metrics.statistics.bias_values import DescriptorKey


def gen_bias_changes(first: dict[str, Any], second: dict[str, Any], debiased: bool) -> dict[str, list[Change]]:
    """Heading → changes: Full Gen Bias over all terms and by axis, and the metrics of style clusters."""
    changes = {"Full Gen Bias": [_change("All terms", full_gen_bias(first), full_gen_bias(second), debiased)]}
    axes = [{row.measured.name: row.measured for row in gen_bias_by_axis(run, {})} for run in (first, second)]
    changes["Full Gen Bias by axis"] = _changes(axes[0], axes[1], debiased)
    for heading, metric in CLUSTER_METRICS.items():
        clusters = [
            {row.measured.name: row.measured for row in gen_bias_by_cluster(run, metric, {})} for run in (first, second)
        ]
        changes[f"{heading} by cluster"] = _changes(clusters[0], clusters[1], debiased)
    return {heading: rows for heading, rows in changes.items() if rows}


def parroting_changes(first: dict[str, Any], second: dict[str, Any]) -> list[Change]:
    """Changes of the parroting share, over all and by template; from `results["generation"]["parroting"]`."""
    return [
        Change("All templates", first["parroting_share"], second["parroting_share"]),
        *named_changes(first["by_template"], second["by_template"], slot),
    ]


def parroting_change_correlation(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """Correlates run descriptor's change in parroting with its mean bias value in the first run (paper, C.2.1)."""
    rows = [
        {DescriptorKey(row["axis"], row["descriptor"]): row for row in run["by_descriptor"]} for run in (first, second)
    ]
    changes = {
        key: rows[1][key]["parroting_share"] - row["parroting_share"] for key, row in rows[0].items() if key in rows[1]
    }
    biases = {key: rows[0][key]["mean_bias_value"] for key in changes}
    return correlation_with_bias(changes, biases)


def phrase_changes(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[tuple[str, str, Change]]:
    """Heading, phrase and change of each phrase that both runs count; of `phrases` in `phrase_rates`' results."""
    return [
        (heading, phrase, Change(phrase, share, second[heading][phrase]))
        for heading, phrases in first.items()
        for phrase, share in phrases.items()
        if phrase in second.get(heading, {})
    ]


def term_changes(
    first: dict[str, Any], second: dict[str, Any], second_replies: Mapping[str, str] | None
) -> dict[str, Any]:
    """What the page's script needs to show a term in both runs: cluster values, and replies to the same prompts.

    Args:
        first: Generation results.
        second: Of the second run.
        second_replies: The second run's replies by prompt; `None`: those among its examples.
    """
    after = {(row["axis"], row["descriptor"]): row for row in second["by_descriptor"]}
    rows = [row for row in first["by_descriptor"] if (row["axis"], row["descriptor"]) in after]
    replies = (
        {example["prompt"]: example["reply"] for example in second["examples"]}
        if second_replies is None
        else second_replies
    )
    pairs: dict[tuple[str, str], list[list[str]]] = {}
    for example in first["examples"]:
        if example["prompt"] in replies:
            replies_of_both = [example["prompt"], example["reply"], replies[example["prompt"]], example["why"]]
            pairs.setdefault((example["axis"], example["descriptor"]), []).append(replies_of_both)
    clusters = [
        name for name in (rows[0]["clusters"] if rows else ()) if name in second["by_descriptor"][0]["clusters"]
    ]
    return {
        "axes": {axis: axis_label(axis) for axis in dict.fromkeys(row["axis"] for row in rows)},
        "clusters": clusters,
        "rows": [
            {
                "axis": row["axis"],
                "name": row["descriptor"],
                "replies": [row["num_replies"], other["num_replies"]],
                "bias": [row["mean_bias_value"], other["mean_bias_value"]],
                "clusters": [[row["clusters"][name], other["clusters"][name]] for name in clusters],
                "parroting": [row["parroting_share"], other["parroting_share"]],
            }
            for row in rows
            for other in [after[row["axis"], row["descriptor"]]]
        ],
        "pairs": [pairs.get((row["axis"], row["descriptor"]), []) for row in rows],
    }


def _changes(first: Mapping[str, Measured], second: Mapping[str, Measured], debiased: bool) -> list[Change]:
    return [_change(name, first.get(name), second.get(name), debiased) for name in {**first, **second}]


def _change(name: str, first: Measured | None, second: Measured | None, debiased: bool) -> Change:
    values = [
        None if measured is None else measured.debiased if debiased else measured.plain for measured in (first, second)
    ]
    # The intervals are for the debiased values.
    bounds = [measured.interval if measured is not None and debiased else None for measured in (first, second)]
    return Change(name, values[0], values[1], bounds[0], bounds[1])
