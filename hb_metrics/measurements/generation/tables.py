"""Rows of the generation sections: Gen Bias beside the paper's, styles, terms, frequencies, and reply checks."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from hb_metrics.display.figures import axis_label
from hb_metrics.display.paper import PHRASE_RATES, PhraseFigures
from hb_metrics.measurements.generation.figures import Measured, Term
from hb_metrics.reply_checks.parroting import correlation_with_bias
from hb_metrics.statistics.bias_values import DescriptorKey

NUM_STYLES = 15
CLUSTER_METRICS = {
    "Partial Gen Bias": "partial_gen_bias",
    "Summed-Cluster Gen Bias": "summed_cluster_gen_bias",
}


class BesidePaper(NamedTuple):
    """A measured value with the paper's for other models.

    Attributes:
        measured: Ours.
        printed: The paper's, by model; `None`: not printed.
    """

    measured: Measured
    printed: dict[str, float | None]


class StyleRow(NamedTuple):
    """A style: its share of Full Gen Bias, its mean probability, and its variance (×1000) across terms."""

    measured: Measured
    mean: float
    variance: float


class FrequencyTable(NamedTuple):
    """Terms of one word with how often they are used.

    Attributes:
        terms_by_cluster: Cluster → the terms, with its mean probability.
        rho_by_cluster: Cluster → what `correlation_with_bias` returns for frequency and probability.
        num_several_words: Terms left out because they have several words.
        num_unknown: Terms left out because the source has no frequency of them.
    """

    terms_by_cluster: dict[str, list[Term]]
    rho_by_cluster: dict[str, dict[str, Any]]
    num_several_words: int
    num_unknown: int


class PhraseRow(NamedTuple):
    """The share of replies that contain a phrase: of all, and by group of terms; `None`: the group has no replies."""

    heading: str
    phrase: str
    everyone: float
    groups: dict[str, float | None]
    paper: PhraseFigures | None


def full_gen_bias(generation: dict[str, Any]) -> Measured:
    """The run's Full Gen Bias."""
    return _measured("all terms", generation, ("full_gen_bias",))


def gen_bias_by_axis(generation: dict[str, Any], printed: Mapping[str, Mapping[str, float]]) -> list[BesidePaper]:
    """Full Gen Bias of each axis that has one, the highest first."""
    axes = [axis for axis, value in (generation["gen_bias"]["by_axis"] or {}).items() if value is not None]
    rows = [
        BesidePaper(
            _measured(axis_label(axis), generation, ("by_axis", axis)),
            {model: values.get(axis) for model, values in printed.items()},
        )
        for axis in axes
    ]
    return sorted(rows, key=lambda row: -best(row.measured))


def gen_bias_by_cluster(
    generation: dict[str, Any], metric: str, printed: Mapping[str, Mapping[str, float]]
) -> list[BesidePaper]:
    """`partial_gen_bias` or `summed_cluster_gen_bias` of each cluster, in the classifier's order; may be empty."""
    return [
        BesidePaper(
            _measured(cluster, generation, (metric, cluster)),
            {model: values.get(cluster) for model, values in printed.items()},
        )
        for cluster in generation["gen_bias"][metric] or {}
    ]


def missing_intervals(groups: Mapping[str, Sequence[Measured]]) -> list[tuple[str, str]]:
    """Which values have no interval, and why; values with the same reason are in one entry.

    Args:
        groups: Metric → its values.
    """
    names: dict[str, dict[str, list[str]]] = {}
    for metric, values in groups.items():
        for value in values:
            if value.reason is not None:
                names.setdefault(value.reason, {}).setdefault(metric, []).append(value.name)
    return [
        ("; ".join(f"{metric} ({', '.join(of_metric)})" for metric, of_metric in of_reason.items()), reason)
        for reason, of_reason in names.items()
    ]


def rank_correlations(rows: list[BesidePaper]) -> dict[str, float | None]:
    """Spearman's ρ between our values and each model's of the paper, over the rows that have both."""
    models = list(rows[0].printed) if rows else []
    ours = {DescriptorKey(None, row.measured.name): best(row.measured) for row in rows}
    correlations: dict[str, float | None] = {}
    for model in models:
        theirs = {
            DescriptorKey(None, row.measured.name): value for row in rows if (value := row.printed[model]) is not None
        }
        correlations[model] = correlation_with_bias(ours, theirs)["spearman_rho"]
    return correlations


def best(measured: Measured) -> float:
    """The debiased value if it is known, else the plain one."""
    return measured.plain if measured.debiased is None else measured.debiased


def most_varying_styles(generation: dict[str, Any]) -> list[StyleRow]:
    """The styles with the largest parts of Full Gen Bias, the largest first."""
    rows = [
        StyleRow(_measured(style["style"], generation, ("by_style", style["style"])), style["mean"], style["variance"])
        for style in generation["styles"]
    ]
    return sorted(rows, key=lambda row: -best(row.measured))[:NUM_STYLES]


def terms_by_cluster(generation: dict[str, Any]) -> dict[str, list[Term]]:
    """Cluster → each term with its mean probability of that cluster."""
    rows = generation["by_descriptor"]
    return {
        cluster: [
            Term(row["axis"], row["descriptor"], index, row["num_replies"], row["clusters"][cluster])
            for index, row in enumerate(rows)
        ]
        for cluster in (rows[0]["clusters"] if rows else ())
    }


def frequency_table(generation: dict[str, Any]) -> FrequencyTable:
    """One-word terms with their frequencies, as in the paper's Figure 3."""
    known = {(row["axis"], row["descriptor"]): row for row in generation["frequencies"]["by_descriptor"]}
    one_word_terms: dict[str, list[Term]] = {}
    correlations = {}
    for cluster, terms in terms_by_cluster(generation).items():
        one_word_terms[cluster] = [
            term._replace(per_million=known[term.axis, term.name]["per_million"])
            for term in terms
            if (term.axis, term.name) in known and known[term.axis, term.name]["one_word"]
        ]
        correlations[cluster] = correlation_with_bias(
            {DescriptorKey(term.axis, term.name): term.per_million for term in one_word_terms[cluster]},
            {DescriptorKey(term.axis, term.name): term.value for term in one_word_terms[cluster]},
        )
    rows = [known.get((row["axis"], row["descriptor"])) for row in generation["by_descriptor"]]
    return FrequencyTable(
        one_word_terms,
        correlations,
        num_several_words=sum(row is not None and not row["one_word"] for row in rows),
        num_unknown=sum(row is None for row in rows),
    )


def phrase_table(rates: dict[str, Any]) -> list[PhraseRow]:
    """Each phrase with its shares and the paper's."""
    groups = rates["groups"]
    return [
        PhraseRow(
            heading,
            phrase,
            everyone,
            {name: group["phrases"][heading][phrase] for name, group in groups.items()},
            PHRASE_RATES.get(phrase),
        )
        for heading, phrases in rates["phrases"].items()
        for phrase, everyone in phrases.items()
    ]


def chooser_content(generation: dict[str, Any]) -> dict[str, Any]:
    """What the page's script needs to show a term: its values, and its example replies."""
    per_million = {
        (row["axis"], row["descriptor"]): row["per_million"] for row in generation["frequencies"]["by_descriptor"]
    }
    rows = generation["by_descriptor"]
    index_of = {(row["axis"], row["descriptor"]): index for index, row in enumerate(rows)}
    examples: list[list[Any]] = [[] for _ in rows]
    for example in generation["examples"]:
        examples[index_of[example["axis"], example["descriptor"]]].append(
            [example[name] for name in ("why", "prompt", "reply", "style", "style_probability", "parroting")]
        )
    return {
        "axes": {axis: axis_label(axis) for axis in dict.fromkeys(row["axis"] for row in rows)},
        "clusters": list(rows[0]["clusters"]) if rows else [],
        "means": cluster_means(generation),
        "rows": [
            {
                "axis": row["axis"],
                "name": row["descriptor"],
                "replies": row["num_replies"],
                "bias": row["mean_bias_value"],
                "clusters": list(row["clusters"].values()),
                "parroting": row["parroting_share"],
                "perMillion": per_million.get((row["axis"], row["descriptor"])),
            }
            for row in rows
        ],
        "examples": examples,
    }


def cluster_means(generation: dict[str, Any]) -> list[float]:
    """The unweighted mean over the terms of each cluster's mean probability."""
    rows = generation["by_descriptor"]
    names = list(rows[0]["clusters"]) if rows else []
    return [sum(row["clusters"][name] for row in rows) / len(rows) for name in names]


def _measured(name: str, generation: dict[str, Any], path: tuple[str, ...]) -> Measured:
    bounds = _value_at(generation["gen_bias"]["intervals"], path)
    return Measured(
        name,
        _value_at(generation["gen_bias"], path),
        _value_at(generation["debiased"], path),
        None if bounds is None else (bounds[0], bounds[1]),
        _value_at(generation["gen_bias"]["no_intervals"], path),
    )


def _value_at(content: Any, path: tuple[str, ...]) -> Any:
    """The value at a path of keys, `None` where any part is missing."""
    for key in path:
        if content is None:
            return None
        content = content.get(key)
    return content
