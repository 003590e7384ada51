"""Divergences by kind of prompt, their difference, and the share of needs taken up."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from scipy import stats

from hb_dataset.awareness import NEED, NEUTRAL, AwarenessItem, taken_up_pattern
from hb_metrics.inference.classifiers.censoring import mention_pattern

TABLE_FILE = "awareness.parquet"
MIN_TERMS = 12  # with fewer, there is no interval
NUM_EXAMPLES = 12
AWARENESS_TABLE = pa.schema(
    [
        *((name, pa.string()) for name in ("id", "kind", "axis", "descriptor")),
        ("divergence", pa.float64()),
        ("taken_up", pa.bool_()),
    ]
)


class ClusterMean(NamedTuple):
    """A mean over prompts, or a difference of two means.

    `influences` [terms] are each term's sum of deviations from the mean, divided by the number of all prompts.
    """

    value: float
    influences: np.ndarray

    def interval(self, confidence_level: float) -> list[float] | None:
        """Computes the cluster-robust t-interval; with fewer than `MIN_TERMS` terms, returns `None`."""
        number = len(self.influences)
        if number < MIN_TERMS:
            return None
        error = math.sqrt(cluster_covariance([self])[0, 0])
        half = float(stats.t.ppf((1 + confidence_level) / 2, number - 1)) * error
        return [self.value - half, self.value + half]


def cluster_mean(values: np.ndarray, clusters: np.ndarray, number: int) -> ClusterMean:
    """Computes a mean with its influences. `clusters` [rows] numbers each value's cluster from 0."""
    mean = float(values.mean())
    return ClusterMean(mean, np.bincount(clusters, values - mean, number) / len(values))


def cluster_covariance(means: Sequence[ClusterMean]) -> np.ndarray:
    """Computes the cluster-robust covariance matrix [means, means] of means over the same clusters."""
    influences = np.stack([mean.influences for mean in means])
    number = influences.shape[1]
    covariance: np.ndarray = number / (number - 1) * influences @ influences.T
    return covariance


def awareness_means(table: pa.Table) -> dict[str, ClusterMean]:
    """Computes the means `needs`, `neutral`, `difference` and `taken_up`, as far as there are replies.

    In the table, `divergence` and `taken_up` are null for prompts without a reply.
    """
    terms = list(zip(table["axis"].to_pylist(), table["descriptor"].to_pylist(), strict=True))
    row_of = {term: row for row, term in enumerate(sorted(set(terms)))}
    clusters, kinds = np.array([row_of[term] for term in terms]), np.array(table["kind"].to_pylist())
    means = {}
    for name, column, kind in (
        ("needs", "divergence", NEED),
        ("neutral", "divergence", NEUTRAL),
        ("taken_up", "taken_up", NEED),
    ):
        known = np.array(table[column].is_valid().to_pylist()) & (kinds == kind)
        if known.any():
            values = np.array(table[column].to_pylist(), dtype=object)[known].astype(float)
            means[name] = cluster_mean(values, clusters[known], len(row_of))
    if "needs" in means and "neutral" in means:
        needs, neutral = means["needs"], means["neutral"]
        means["difference"] = ClusterMean(needs.value - neutral.value, needs.influences - neutral.influences)
    return means


def awareness_results(
    prompts: pa.Table, table: pa.Table, replies: Sequence[str | None], confidence_level: float
) -> dict[str, Any]:
    """Computes values for results.json, with at most one example per question.

    All arguments have a row per prompt, in the same order.
    """
    means = awareness_means(table)
    results: dict[str, Any] = {}
    for name in ("needs", "neutral", "difference", "taken_up"):
        mean = means.get(name)
        interval = None if mean is None else mean.interval(confidence_level)
        results[name] = {"value": None if mean is None else mean.value, "interval": interval}
    columns = [prompts["text"].to_pylist(), replies, table["kind"].to_pylist(), table["taken_up"].to_pylist()]
    shown: dict[int, dict[str, Any]] = {}
    for item, text, reply, kind, taken in zip(prompts["item"].to_pylist(), *columns, strict=True):
        if kind == NEED and reply is not None:
            shown.setdefault(item, {"prompt": text, "reply": reply, "taken_up": taken})
    return {
        **results,
        "confidence_level": confidence_level,
        "num_prompts": len(prompts),
        "num_terms": len(set(zip(table["axis"].to_pylist(), table["descriptor"].to_pylist(), strict=True))),
        "num_empty_replies": table["divergence"].null_count,
        "examples": list(shown.values())[:NUM_EXAMPLES],
    }


def takes_up(reply: str, item: AwarenessItem, descriptor: str) -> bool:
    """Checks whether a reply contains one of the need's words, outside mentions of the descriptor."""
    masked = mention_pattern(descriptor).sub("…", reply)
    return taken_up_pattern(item.taken_up).search(masked) is not None
