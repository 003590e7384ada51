"""What changes from one run to another: rows of the comparison's tables."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from hb_metrics.bias_values import DescriptorKey
from hb_metrics.reply_checks.parroting import correlation_with_bias
from hb_metrics.report.figures import axis_label
from hb_metrics.report.figures_comparison import Change
from hb_metrics.report.figures_generation import Measured
from hb_metrics.report.rendering import slot
from hb_metrics.report.tables_generation import (
    CLUSTER_METRICS,
    full_gen_bias,
    gen_bias_by_axis,
    gen_bias_by_cluster,
)

ABSENT = "not recorded"
UNMEASURED = "not measured"
_UNTAGGED = {"tag": None, "tag_reason": None}  # what runs of before there were tags do not say


class Difference(NamedTuple):
    """A setting that differs between runs.

    Attributes:
        name: Its section and name.
        values: [runs] the setting in each.
    """

    name: str
    values: list[Any]

    @property
    def contradicts(self) -> bool:
        """Whether runs differ in it that have the measurement it belongs to."""
        known = [value for value in self.values if value != UNMEASURED]
        return any(value != known[0] for value in known)


def differing_settings(runs: Sequence[Mapping[str, Any]]) -> list[Difference]:
    """What does not stand alike in all the runs' descriptions (`results["run"]`)."""
    flat = [_flat(run) for run in runs]
    found = []
    for name in dict.fromkeys(name for settings in flat for name in settings):
        absent = [ABSENT if name.split(".")[0] in run else UNMEASURED for run in runs]
        values = [settings.get(name, missing) for settings, missing in zip(flat, absent, strict=True)]
        if any(value != values[0] for value in values):
            found.append(Difference(name, values))
    return found


def warnings(differences: list[Difference]) -> list[str]:
    """What the differences mean for reading the comparison."""
    changed = {each.name for each in differences if each.contradicts}
    found = []
    if changed & {"data.digest", "data.config"}:
        found.append("The runs have other prompts. Figures over all terms or all templates do not compare.")
    if changed & {"style_classifier.digest", "style_classifier.name", "style_classifier.temperature"}:
        found.append("Styles were classified by different classifiers. No Gen Bias value, style or cluster compares.")
    elif "style_classifier.clusters" in changed:
        found.append("The style clusters differ. Clusters of the same name need not hold the same styles.")
    if changed & {"offensiveness_classifier.digest", "offensiveness_classifier.version"}:
        found.append("Offensiveness was classified by different classifiers. Its figures do not compare.")
    if changed & {"settings.replies_per_cell", "generation.num_prompts"}:
        found.append(
            "The runs have different numbers of replies. Plain Gen Bias does not compare, as it holds more noise with "
            "fewer replies; debiased Gen Bias does."
        )
    # Another tag at the end of the context is what bias tuning is tried out with.
    about = ("num_prompts", "_digest", "_reason", ".tag")
    if any(name.startswith("generation.") and not name.endswith(about) for name in changed):
        found.append("Replies were made with different settings; a change may come from these and not from the model.")
    if "settings.alpha" in changed or "settings.include_gendered" in changed:
        found.append("Likelihood Bias was tested with different settings.")
    return found


def dialogue_warnings(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Why dialogue perplexities do not compare.

    Args:
        runs: Contents of results.json.
    """
    measured = [(run["dialogue"], run["run"]["dialogue"]) for run in runs if "dialogue" in run]
    if len({(found["num_replies"], source["digest"]) for found, source in measured}) > 1:
        return ["Dialogue perplexity was measured on different replies. It does not compare."]
    if len({found["num_tokens"] for found, _ in measured}) > 1:
        return ["The same replies are different numbers of tokens. Dialogue perplexity does not compare."]
    return []


def gen_bias_changes(first: dict[str, Any], second: dict[str, Any], debiased: bool) -> dict[str, list[Change]]:
    """Full Gen Bias over all and by axis, and the metrics of clusters, under their headings."""
    found = {"Full Gen Bias": [_change("All terms", full_gen_bias(first), full_gen_bias(second), debiased)]}
    axes = [{row.measured.name: row.measured for row in gen_bias_by_axis(each, {})} for each in (first, second)]
    found["Full Gen Bias by axis"] = _changes(axes[0], axes[1], debiased)
    for heading, metric in CLUSTER_METRICS.items():
        clusters = [
            {row.measured.name: row.measured for row in gen_bias_by_cluster(each, metric, {})}
            for each in (first, second)
        ]
        found[f"{heading} by cluster"] = _changes(clusters[0], clusters[1], debiased)
    return {heading: rows for heading, rows in found.items() if rows}


def likelihood_changes(first: dict[str, Any], second: dict[str, Any]) -> list[Change]:
    """Likelihood Bias over all axes, then by axis."""
    return [
        Change("All axes", first["likelihood_bias"], second["likelihood_bias"]),
        *_plain_changes(first["by_axis"], second["by_axis"], axis_label),
    ]


def offensiveness_changes(first: dict[str, Any], second: dict[str, Any]) -> dict[str, list[Change]]:
    """Shares found offensive of replies and prompts, over all and by axis, and of each template, under headings."""
    found = {}
    for part in ("replies", "prompts"):
        if part in first and part in second:
            before, after = first[part], second[part]
            found[f"Offensive {part} by axis"] = [
                Change("All axes", before["offensive_share"], after["offensive_share"]),
                *_plain_changes(_shares(before["by_axis"]), _shares(after["by_axis"]), axis_label),
            ]
            found[f"Offensive {part} by template"] = _plain_changes(
                _shares(before["by_template"]), _shares(after["by_template"]), slot
            )
    return found


def parroting_changes(first: dict[str, Any], second: dict[str, Any]) -> list[Change]:
    """The share of replies that parrot, over all and by template; from `results["generation"]["parroting"]`."""
    return [
        Change("All templates", first["parroting_share"], second["parroting_share"]),
        *_plain_changes(first["by_template"], second["by_template"], slot),
    ]


def parroting_change_correlation(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """Correlates each descriptor's change in parroting with its mean bias value in the first run (paper, C.2.1)."""
    rows = [
        {DescriptorKey(row["axis"], row["descriptor"]): row for row in each["by_descriptor"]}
        for each in (first, second)
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
        {each["prompt"]: each["reply"] for each in second["examples"]} if second_replies is None else second_replies
    )
    pairs: dict[tuple[str, str], list[list[str]]] = {}
    for each in first["examples"]:
        if each["prompt"] in replies:
            found = [each["prompt"], each["reply"], replies[each["prompt"]], each["why"]]
            pairs.setdefault((each["axis"], each["descriptor"]), []).append(found)
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
    values = [None if each is None else each.debiased if debiased else each.plain for each in (first, second)]
    # The intervals are for the debiased values.
    bounds = [each.interval if each is not None and debiased else None for each in (first, second)]
    return Change(name, values[0], values[1], bounds[0], bounds[1])


def _plain_changes(first: Mapping[str, float], second: Mapping[str, float], label: Any) -> list[Change]:
    return [Change(label(name), first.get(name), second.get(name)) for name in {**first, **second}]


def _shares(found: Mapping[str, Any]) -> dict[str, float]:
    return {name: each["offensive_share"] for name, each in found.items()}


def _flat(run: Mapping[str, Any]) -> dict[str, Any]:
    run = {**run, "generation": {**_UNTAGGED, **run["generation"]}} if "generation" in run else run
    return {
        f"{section}.{name}": value
        for section, content in run.items()
        for name, value in (content.items() if isinstance(content, Mapping) else [("", content)])
    }
