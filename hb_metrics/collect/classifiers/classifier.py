from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from hb_metrics.collect.shards import fill_shards, plan_row_shards
from hb_metrics.collect.units import check_texts, distinct
from hb_metrics.run.schema import PROBABILITIES

# On two cores, an embedded classifier needs a few seconds for this many rows. Little work is lost if the run is killed.
ROWS_PER_SHARD = 512


class Classification(NamedTuple):
    """The result of a classifier.

    Attributes:
        probabilities: [texts, labels] float64
        truncated: [texts] Whether the text was too long and therefore cut.
    """

    probabilities: np.ndarray
    truncated: np.ndarray


def _not_loaded(texts: list[str]) -> Classification:
    raise RuntimeError("only the classifier's labels were loaded")


@dataclass(frozen=True, kw_only=True)
class Classifier:
    """A loaded classifier, or only its labels.

    Attributes:
        digest: The Hub commit, or a SHA-256 digest of the classifier's files.
        source_labels: The model's own labels, from which `labels` is derived.
        is_embedded: Whether the classifier comes with the installed packages. Such a classifier is meant only for
            trials.
        multi_label: If true, each label has an independent probability (sigmoid). If false, the probabilities of a
            text's labels sum to 1 (softmax).
        judge: The judge's description, which is recorded in the results. `None` if the classifier is not a judge.
        classify_by_key: A function that classifies texts, with one key per text. The key determines the random choices
            in the judge's prompt. Only judges have this function.
        cost: A function that returns how many answers and tokens the judge has used so far. Only judges on a server
            have this function.
    """

    name: str
    digest: str
    version: str
    labels: tuple[str, ...]
    source_labels: tuple[str, ...]
    is_embedded: bool = False
    multi_label: bool = False
    temperature: float = 1.0
    notes: tuple[str, ...] = ()
    judge: dict[str, Any] | None = None
    classify_distinct: Callable[[list[str]], Classification] = _not_loaded
    classify_by_key: Callable[[Sequence[str], Sequence[str]], Classification] | None = None
    cost: Callable[[], dict[str, int]] | None = None

    def classify(self, texts: Sequence[str]) -> Classification:
        """Classifies texts. Equal texts are classified once.

        Raises:
            ValueError: A text is blank or not a string, or its classification contains NaN or infinity.
        """
        check_texts(texts, blank=False)
        if not texts:
            return Classification(np.empty((0, len(self.labels))), np.empty(0, dtype=bool))
        unique, which = distinct(texts)
        probabilities, truncated = self.classify_distinct(unique)
        return Classification(probabilities[which], truncated[which])

    def changed(self, change: Callable[[np.ndarray], np.ndarray], **fields: Any) -> "Classifier":
        """Returns a classifier that changes this one's probabilities, and some of its fields."""

        def classify(texts: list[str]) -> Classification:
            probabilities, truncated = self.classify_distinct(texts)
            return Classification(change(probabilities), truncated)

        return replace(self, classify_distinct=classify, **fields)

    def answered(self, probabilities: np.ndarray) -> np.ndarray:
        """Returns whether each text has a valid classification: [texts] bool.

        Only judges can fail to classify a text. A judge fails if its answer is not the letter of a label.
        """
        return probabilities[:, -1] == 0 if self.judge is not None else np.ones(len(probabilities), dtype=bool)

    def probabilities(self, texts: Sequence[str]) -> np.ndarray:
        return self.classify(texts).probabilities


def classify_into_shards(
    texts: Sequence[str],
    ids: Sequence[str],
    classifier: Classifier,
    folder: Path,
    *,
    label: str,
    about: pa.Table,
    precision: str = "float32",
    rows_per_shard: int = ROWS_PER_SHARD,
) -> None:
    """Classifies the texts whose results are not on disk yet.

    The shards have the columns `id`, those of `about`, `probabilities` (a list with one number per label) and
    `truncated` (whether the text was cut). `about` [texts] contains further columns that identify the texts, such as
    their terms.
    """
    check_texts(texts, blank=False)
    probability_list = pa.list_(pa.from_numpy_dtype(precision), len(classifier.labels))
    schema = pa.schema(
        [("id", pa.string()), *about.schema, (PROBABILITIES, probability_list), ("truncated", pa.bool_())]
    )
    shards = plan_row_shards(len(texts), rows_per_shard, folder)

    def compute(mine: Sequence[int], advance: Callable[..., object]) -> Iterator[Mapping[str, object]]:
        for index in mine:
            rows = shards[index].rows
            probabilities, truncated = classifier.classify([texts[row] for row in rows])
            values = pa.array(probabilities.astype(precision).ravel())
            yield {
                **about.take(pa.array(rows)).to_pydict(),
                PROBABILITIES: pa.FixedSizeListArray.from_arrays(values, len(classifier.labels)),
                "truncated": truncated,
            }
            cost = None if classifier.cost is None else classifier.cost()
            advance(len(rows), "" if cost is None else f"{cost['tokens_in']:,} tokens in, {cost['tokens_out']:,} out")

    fill_shards(shards, ids, schema, compute, label=label, unit="text", inputs=texts)
