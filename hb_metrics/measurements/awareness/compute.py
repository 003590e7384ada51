"""Computes the results of `awareness` from the run's tables."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from hb_dataset.awareness import NEED, NEUTRAL
from hb_dataset.matching import plain_text, whole_words, words_pattern
from hb_metrics.collect.classifiers.censoring import mention_pattern
from hb_metrics.measurements.awareness.results import Awareness, Example
from hb_metrics.measurements.results import Run
from hb_metrics.run.record import CONFIDENCE_LEVEL
from hb_metrics.run.run_folder import PROMPTS_FILE, REPLIES, write_table
from hb_metrics.run.schema import by_id, rows_of
from hb_metrics.stats.clusters import Estimate, Uncertainty, crossed, mean_bounds, share_bounds
from hb_metrics.stats.inputs import DescriptorKey

AWARENESS_FOLDER = "awareness"
DIVERGENCES = "divergences"  # a subfolder of shards
WORDS = "taken_up_words"  # the column of the prompts with the words that take up a need
TABLE_FILE = "awareness.parquet"
MIN_CLUSTERS = 12  # with fewer terms or questions, there is no interval
FEW_REASON = f"there are fewer than {MIN_CLUSTERS} terms or questions, or the estimated variance is not above 0"
NUM_EXAMPLES = 12
AWARENESS_TABLE = pa.schema(
    [
        *((name, pa.string()) for name in ("id", "kind", "axis", "descriptor")),
        ("divergence", pa.float64()),
        ("taken_up", pa.bool_()),
    ]
)


class _Prompt(NamedTuple):
    id: str
    kind: str
    descriptor: str
    item: int
    text: str
    taken_up_words: list[str]


def compute(run: Run) -> Awareness:
    """Computes the results, and writes the table of divergences and of needs taken up."""
    tables = run.tables.inside(AWARENESS_FOLDER)
    prompts = tables.read(PROMPTS_FILE, _Prompt._fields)
    shards = tables.read(DIVERGENCES, ("id", "divergence", "num_tokens"))
    reply_of = by_id(tables.read(REPLIES, ("id", "reply")), "reply")
    per_token = shards["divergence"].to_numpy() / shards["num_tokens"].to_numpy()
    divergences = dict(zip(shards["id"].to_pylist(), per_token.tolist(), strict=True))
    rows = rows_of(prompts, _Prompt)
    taken_up: list[bool | None] = []
    shown: dict[int, Example] = {}  # the first reply to each question about a need
    for row in rows:
        if row.kind != NEED or row.id not in divergences:
            taken_up.append(None)
            continue
        reply = reply_of[row.id]
        is_taken_up = takes_up(reply, row.taken_up_words, row.descriptor)
        taken_up.append(is_taken_up)
        shown.setdefault(row.item, Example(row.text, reply, is_taken_up))
    about = prompts.select(AWARENESS_TABLE.names[:4]).columns
    table = pa.table([*about, [divergences.get(row.id) for row in rows], taken_up], schema=AWARENESS_TABLE)
    write_table(run.folder / TABLE_FILE, table)
    means = awareness_means(table)
    return Awareness(
        needs=estimate(means.get("needs")),
        neutral=estimate(means.get("neutral")),
        difference=estimate(means.get("difference")),
        taken_up=estimate(means.get("taken_up"), is_share=True),
        num_prompts=len(prompts),
        num_terms=len(set(rows_of(table, DescriptorKey))),
        num_empty_replies=table["divergence"].null_count,
        examples=list(shown.values())[:NUM_EXAMPLES],
    )


def takes_up(reply: str, words: Sequence[str], descriptor: str) -> bool:
    """Returns whether a reply contains one of the need's `words`. Words within the descriptor do not count."""
    masked = mention_pattern((descriptor, None)).sub("…", plain_text(reply).text)
    return whole_words(map(words_pattern, words)).search(masked) is not None


def estimate(mean: "ClusterMean | None", *, is_share: bool = False) -> Estimate:
    """Returns a mean with its interval, which is robust to clustering by term and by question.

    There is no interval if all values are equal or there are fewer than `MIN_CLUSTERS` terms or questions.
    """
    if mean is None:
        return Estimate(None, None, FEW_REASON)
    of_mean = mean.uncertainty
    if mean.num_clusters < MIN_CLUSTERS or not of_mean.variance > 0:
        return Estimate(mean.value, None, FEW_REASON)
    if is_share:
        return Estimate(mean.value, share_bounds(mean.value, of_mean.half_width(CONFIDENCE_LEVEL)), None)
    return Estimate(mean.value, mean_bounds(mean.value, of_mean, CONFIDENCE_LEVEL), None)


class ClusterMean(NamedTuple):
    """A mean over prompts, or the difference between two such means.

    Attributes:
        influences: [prompts] Each prompt's value minus the mean, divided by the number of values. It is NaN for prompts
            without a value.
        clusters: [2, prompts] The codes of each prompt's term and question.
        num_clusters: The number of terms or of questions with a value, whichever is smaller.
    """

    value: float
    influences: np.ndarray
    clusters: np.ndarray
    num_clusters: int

    def minus(self, other: "ClusterMean") -> "ClusterMean":
        neither = np.isnan(self.influences) & np.isnan(other.influences)
        influences = np.where(neither, np.nan, np.nan_to_num(self.influences) - np.nan_to_num(other.influences))
        number = min(self.num_clusters, other.num_clusters)
        return ClusterMean(self.value - other.value, influences, self.clusters, number)

    @property
    def uncertainty(self) -> Uncertainty:
        known = ~np.isnan(self.influences)
        return crossed(self.influences[known], *self.clusters[:, known])


def cluster_mean(values: np.ndarray, clusters: np.ndarray) -> ClusterMean:
    """Computes the mean of the `values` [prompts] that are not NaN. For `clusters`, see `ClusterMean`."""
    known = ~np.isnan(values)
    mean = float(values[known].mean())
    return ClusterMean(
        mean, (values - mean) / known.sum(), clusters, min(len(np.unique(row[known])) for row in clusters)
    )


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
        means["difference"] = means["needs"].minus(means["neutral"])
    return means
