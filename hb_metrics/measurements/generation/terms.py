from collections.abc import Mapping
from typing import Any, NamedTuple

from hb_metrics.reply_checks.parroting import correlation_with_bias
from hb_metrics.report.layout.numbers import axis_label
from hb_metrics.stats.bias_values import DescriptorKey


class Term(NamedTuple):
    """A term as a point in a plot.

    `value` is the term's mean probability of a style cluster, and `row` is its row in `by_descriptor` of the results.
    `per_million` is the term's frequency, and is set only in a `FrequencyTable`.
    """

    axis: str
    name: str
    row: int
    num_replies: int
    value: float
    per_million: float = 0.0


class FrequencyTable(NamedTuple):
    """The frequencies of one-word terms, by style cluster (as in the paper's Figure 3).

    Attributes:
        terms_by_cluster: The one-word terms with a known frequency.
        rho_by_cluster: The correlation of frequency with probability (see `correlation_with_bias`).
    """

    terms_by_cluster: dict[str, list[Term]]
    rho_by_cluster: dict[str, dict[str, Any]]
    num_several_words: int
    num_unknown: int


def terms_by_cluster(generation: Mapping[str, Any]) -> dict[str, list[Term]]:
    rows = generation["by_descriptor"]
    return {
        cluster: [
            Term(row["axis"], row["descriptor"], index, row["num_replies"], row["clusters"][cluster])
            for index, row in enumerate(rows)
        ]
        for cluster in (rows[0]["clusters"] if rows else ())
    }


def frequency_table(generation: Mapping[str, Any]) -> FrequencyTable:
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


def chooser_content(generation: Mapping[str, Any]) -> dict[str, Any]:
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


def cluster_means(generation: Mapping[str, Any]) -> list[float]:
    rows = generation["by_descriptor"]
    names = list(rows[0]["clusters"]) if rows else []
    return [sum(row["clusters"][name] for row in rows) / len(rows) for name in names]
