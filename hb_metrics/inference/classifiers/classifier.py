from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from hb_metrics.inference.shards import fill_shards, plan_row_shards
from hb_metrics.inference.text_checks import check_texts
from hb_metrics.inference.units import distinct

# Some seconds of work for an embedded classifier on two cores. A kill therefore loses little, and every process has
# work.
ROWS_PER_SHARD = 512
PROBABILITIES = "probabilities"


class Classification(NamedTuple):
    """A classifier's probabilities ([texts, labels] float64), and whether each text was cut to the maximum length."""

    probabilities: np.ndarray
    truncated: np.ndarray


@dataclass(frozen=True, kw_only=True)
class Classifier:
    """A loaded classifier.

    Attributes:
        digest: The Hub commit, or a SHA-256 over its files.
        version: The package that runs it, with the package's version.
        source_labels: The model's own labels, from which `labels` were made.
        is_embedded: Whether it is part of the installed packages and meant for trials.
        multi_label: Whether each label has a separate probability (sigmoid). Otherwise, probabilities sum to 1
            (softmax).
        max_tokens: The number of tokens to which longer texts are cut, or `None` if it accepts texts of any length.
        notes: Decisions made while loading that readers of the results should know.
        classify_by_key: For a judge, classifies texts with prompts whose random draws depend on one key per text.
        cost: For a served judge, returns the number of its answers so far and of their tokens.
    """

    name: str
    digest: str
    version: str
    labels: tuple[str, ...]
    source_labels: tuple[str, ...]
    is_embedded: bool = False
    multi_label: bool = False
    temperature: float = 1.0
    max_tokens: int | None = None
    notes: tuple[str, ...] = ()
    judge: dict[str, Any] | None = None
    classify_distinct: Callable[[list[str]], Classification]
    classify_by_key: Callable[[Sequence[str], Sequence[str]], Classification] | None = None
    cost: Callable[[], dict[str, int]] | None = None

    def classify(self, texts: Sequence[str]) -> Classification:
        """Classifies texts. Each distinct text is classified once.

        Raises:
            ValueError: A text is blank or not a string, or its classification contains NaN or infinity.
        """
        check_texts(texts, blank=False)
        unique, which = distinct(texts)
        probabilities, truncated = self.classify_distinct(unique)
        return Classification(probabilities[which], truncated[which])

    def answered(self, probabilities: np.ndarray) -> np.ndarray:
        """Returns whether a judge's answer was one of its letters. For other classifiers, returns True."""
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
    precision: str = "float32",
    rows_per_shard: int = ROWS_PER_SHARD,
    progress: bool = True,
) -> pa.Table | None:
    """Classifies the texts that are not on disk yet. On the main process, reads all probabilities.

    The table's columns are `id`, `probabilities` ([labels] per row) and `truncated` (whether the text was cut).
    """
    check_texts(texts, blank=False)
    schema = probability_schema(len(classifier.labels), precision)
    shards = plan_row_shards(len(texts), rows_per_shard, folder)

    def compute(mine: Sequence[int], advance: Callable[..., object]) -> Iterator[pa.Table]:
        for index in mine:
            rows = shards[index].rows
            probabilities, truncated = classifier.classify([texts[row] for row in rows])
            values = pa.array(probabilities.astype(precision).ravel())
            columns = {
                "id": [ids[row] for row in rows],
                PROBABILITIES: pa.FixedSizeListArray.from_arrays(values, len(classifier.labels)),
                "truncated": truncated,
            }
            yield pa.table(columns, schema=schema)
            cost = None if classifier.cost is None else classifier.cost()
            advance(len(rows), "" if cost is None else f"{cost['tokens_in']:,} tokens in, {cost['tokens_out']:,} out")

    return fill_shards(shards, ids, schema, compute, label=label, unit="text", inputs=texts, progress=progress)


def probability_schema(num_labels: int, precision: str = "float32") -> pa.Schema:
    probabilities = pa.list_(pa.from_numpy_dtype(precision), num_labels)
    return pa.schema([("id", pa.string()), (PROBABILITIES, probabilities), ("truncated", pa.bool_())])


def probability_array(table: pa.Table) -> np.ndarray:
    column = table[PROBABILITIES].combine_chunks()
    return column.flatten().to_numpy(zero_copy_only=False).reshape(len(column), column.type.list_size)
