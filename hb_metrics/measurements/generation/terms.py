from collections.abc import Mapping
from typing import Any, NamedTuple

from hb_metrics.layout.numbers import axis_label


class Term(NamedTuple):
    """A term as a point in a plot.

    `value` is the term's mean probability of a style cluster, and `row` is its row in `by_descriptor` of the results.
    `per_million` is the term's frequency, and is set only by `one_word_terms`.
    """

    axis: str
    name: str
    row: int
    num_replies: int
    value: float
    per_million: float = 0.0


def terms_by_cluster(generation: Mapping[str, Any]) -> dict[str, list[Term]]:
    rows = generation["by_descriptor"]
    return {
        cluster: [
            Term(row["axis"], row["descriptor"], index, row["num_replies"], row["clusters"][cluster])
            for index, row in enumerate(rows)
        ]
        for cluster in (rows[0]["clusters"] if rows else ())
    }


def frequencies(generation: Mapping[str, Any]) -> list[dict[str, Any] | None]:
    """Returns the known frequency of each term, in the order of `by_descriptor`."""
    known = {(row["axis"], row["descriptor"]): row for row in generation["frequencies"]["by_descriptor"]}
    return [known.get((row["axis"], row["descriptor"])) for row in generation["by_descriptor"]]


def one_word_terms(generation: Mapping[str, Any]) -> dict[str, list[Term]]:
    """Returns the one-word terms with a known frequency, by style cluster (as in the paper's Figure 3)."""
    found: dict[str, list[Term]] = {}
    for cluster, terms in terms_by_cluster(generation).items():
        for term, row in zip(terms, frequencies(generation), strict=True):
            if row is not None and row["one_word"]:
                found.setdefault(cluster, []).append(term._replace(per_million=row["per_million"]))
    return found


def chooser_content(generation: Mapping[str, Any]) -> dict[str, Any]:
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
                "perMillion": frequency and frequency["per_million"],
            }
            for row, frequency in zip(rows, frequencies(generation), strict=True)
        ],
        "examples": examples,
    }


def cluster_means(generation: Mapping[str, Any]) -> list[float]:
    rows = generation["by_descriptor"]
    names = list(rows[0]["clusters"]) if rows else []
    return [sum(row["clusters"][name] for row in rows) / len(rows) for name in names]
