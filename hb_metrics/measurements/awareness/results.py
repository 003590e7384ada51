import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from hb_dataset.awareness import NEED, NEUTRAL
from hb_dataset.matching import plain_text, whole_words, words_pattern
from hb_metrics.collect.classifiers.censoring import mention_pattern
from hb_metrics.run.schema import rows_of
from hb_metrics.stats.bias_values import DescriptorKey
from hb_metrics.stats.clusters import Bounds, quantile, share_bounds

TABLE_FILE = "awareness.parquet"
MIN_CLUSTERS = 12  # with fewer terms or questions, there is no interval
NUM_EXAMPLES = 12
AWARENESS_TABLE = pa.schema(
    [
        *((name, pa.string()) for name in ("id", "kind", "axis", "descriptor")),
        ("divergence", pa.float64()),
        ("taken_up", pa.bool_()),
    ]
)


@dataclass(frozen=True)
class Estimate:
    """A mean with its interval. Divergences are in nats per token. `value` is `None` if there are no replies."""

    value: float | None
    interval: Bounds | None


@dataclass(frozen=True)
class Example:
    prompt: str
    reply: str
    taken_up: bool


@dataclass(frozen=True)
class Awareness:
    """The results of `awareness`.

    Attributes:
        needs: The mean divergence on needs.
        neutral: The mean divergence on neutral questions.
        difference: The first minus the second.
        taken_up: The share of needs that are taken up.
    """

    needs: Estimate
    neutral: Estimate
    difference: Estimate
    taken_up: Estimate
    confidence_level: float
    num_prompts: int
    num_terms: int
    num_empty_replies: int
    examples: list[Example]


class ClusterMean(NamedTuple):
    """A mean over prompts, or the difference between two such means.

    Attributes:
        influences: [prompts] Each prompt's value minus the mean, divided by the number of values. It is 0 for prompts
            without a value.
        clusters: [2, prompts] The codes of each prompt's term and question.
        num_clusters: The number of terms or of questions with a value, whichever is smaller.
    """

    value: float
    influences: np.ndarray
    clusters: np.ndarray
    num_clusters: int

    def interval(self, confidence_level: float) -> Bounds | None:
        """Computes a t-interval that is robust to clustering by term and by question.

        Returns:
            The interval, or `None` if all values are equal or there are fewer than `MIN_CLUSTERS` terms or questions.
        """
        variance = float(cluster_covariance([self])[0, 0])
        if self.num_clusters < MIN_CLUSTERS or not variance > 0:
            return None
        half = quantile(confidence_level, self.num_clusters - 1) * math.sqrt(variance)
        return self.value - half, self.value + half

    def share_interval(self, confidence_level: float) -> Bounds | None:
        """Computes the interval of a share from the half-width of `interval`, on the logit scale."""
        bounds = self.interval(confidence_level)
        return None if bounds is None else share_bounds(self.value, (bounds[1] - bounds[0]) / 2)


def cluster_mean(values: np.ndarray, clusters: np.ndarray) -> ClusterMean:
    """Computes the mean of the `values` [prompts] that are not NaN. For `clusters`, see `ClusterMean`."""
    known = ~np.isnan(values)
    mean = float(values[known].mean())
    influences = np.where(known, values - mean, 0.0) / known.sum()
    return ClusterMean(mean, influences, clusters, min(len(np.unique(row[known])) for row in clusters))


def cluster_covariance(means: Sequence[ClusterMean]) -> np.ndarray:
    """Computes the covariance matrix [means, means] of several means over the same prompts.

    The matrix is robust to clustering by term and by question (Cameron, Gelbach and Miller, 2011).
    """
    terms, questions = means[0].clusters
    both = np.unique(terms * (questions.max() + 1) + questions, return_inverse=True)[1]
    number, covariance = min(mean.num_clusters for mean in means), np.zeros((len(means), len(means)))
    for clusters, sign in ((terms, 1), (questions, 1), (both, -1)):
        sums = np.stack([np.bincount(clusters, mean.influences) for mean in means])
        covariance += sign * sums @ sums.T
    return covariance * number / max(number - 1, 1)


def awareness_means(table: pa.Table) -> dict[str, ClusterMean]:
    """Computes the means `needs`, `neutral`, `difference` and `taken_up`. Means without replies are left out.

    In `table` (`AWARENESS_TABLE`), `divergence` and `taken_up` are null for prompts without a reply.
    """
    terms = ["\n".join(map(str, term)) for term in rows_of(table, DescriptorKey)]
    questions = [identifier.split("-")[0] for identifier in table["id"].to_pylist()]
    clusters = np.stack([np.unique(names, return_inverse=True)[1] for names in (terms, questions)])
    kinds = np.array(table["kind"].to_pylist())
    means = {}
    for name, column, kind in (
        ("needs", "divergence", NEED),
        ("neutral", "divergence", NEUTRAL),
        ("taken_up", "taken_up", NEED),
    ):
        values = np.where(kinds == kind, np.array(table[column].to_pylist(), dtype=float), np.nan)
        if not np.isnan(values).all():
            means[name] = cluster_mean(values, clusters)
    if "needs" in means and "neutral" in means:
        needs, neutral = means["needs"], means["neutral"]
        means["difference"] = ClusterMean(
            needs.value - neutral.value,
            needs.influences - neutral.influences,
            clusters,
            min(needs.num_clusters, neutral.num_clusters),
        )
    return means


def awareness_results(
    prompts: pa.Table, table: pa.Table, replies: Sequence[str | None], confidence_level: float
) -> Awareness:
    """Computes the results, with at most one example reply per question.

    All arguments have one row per prompt, in the same order.
    """
    means, estimates = awareness_means(table), {}
    for name in ("needs", "neutral", "difference", "taken_up"):
        mean = means.get(name)
        bounds_of = ClusterMean.share_interval if name == "taken_up" else ClusterMean.interval
        interval = None if mean is None else bounds_of(mean, confidence_level)
        estimates[name] = Estimate(None if mean is None else mean.value, interval)
    items, texts, taken_up = (column.to_pylist() for column in (prompts["item"], prompts["text"], table["taken_up"]))
    shown: dict[int, Example] = {}
    for item, text, reply, taken in zip(items, texts, replies, taken_up, strict=True):
        if taken is not None:
            shown.setdefault(item, Example(text, str(reply), taken))
    return Awareness(
        **estimates,
        confidence_level=confidence_level,
        num_prompts=len(prompts),
        num_terms=len(set(rows_of(table, DescriptorKey))),
        num_empty_replies=table["divergence"].null_count,
        examples=list(shown.values())[:NUM_EXAMPLES],
    )


def takes_up(reply: str, words: Sequence[str], descriptor: str) -> bool:
    """Returns whether a reply contains one of the need's `words`. Words within the descriptor do not count."""
    masked = mention_pattern((descriptor, None)).sub("…", plain_text(reply).text)
    return whole_words(map(words_pattern, words)).search(masked) is not None
