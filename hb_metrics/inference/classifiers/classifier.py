"""A classifier of texts, whatever it classifies, and its probabilities as resumable shards."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypedDict

import numpy as np
import pyarrow as pa

from hb_metrics.inference.shards import fill_shards, plan_row_shards
from hb_metrics.inference.text_checks import check_nonblank_texts
from hb_metrics.inference.units import distinct

# Some seconds of work for an embedded classifier on two cores: little is lost to a kill, and every process has some.
ROWS_PER_SHARD = 512
PRECISIONS = {"float16": pa.float16(), "float32": pa.float32(), "float64": pa.float64()}
PROBABILITIES = "probabilities"  # the column

PRECISION_ERROR = "precision '{precision}' is not known; allowed: {allowed}"
LENGTH_ERROR = "there are {texts} texts and {others} ids; give as many of both"


class Classification(NamedTuple):
    """What a classifier gives for texts.

    Attributes:
        probabilities: [texts, labels] float64.
        truncated: [texts] bool, whether a text was longer than the classifier takes and was cut.
    """

    probabilities: np.ndarray
    truncated: np.ndarray


class ParlaiOrigin(TypedDict):
    """What is known of a classifier that `convert-classifier` made of a ParlAI checkpoint.

    Attributes:
        kind: What it classifies: "style" or "safety".
        agent: The ParlAI agent it was trained with.
        parameters: How many numbers its weights are.
    """

    kind: str
    agent: str
    parameters: int


@dataclass(frozen=True, kw_only=True)
class Classifier:
    """A classifier that is loaded.

    Attributes:
        name: The Hub id or folder it was loaded from; of an embedded one, what it is called in a report.
        digest: What identifies its weights: the Hub commit, or a SHA-256 over its files.
        version: The package that runs it, and its version.
        labels: What its probabilities are of, in their order.
        source_labels: The model's own labels that `labels` were made from.
        is_embedded: Whether it comes with the installed packages, and is for trying out.
        multi_label: Whether each of the model's own labels has a probability by itself (sigmoid); else those of a text
            sum to 1 (softmax).
        temperature: What scores are divided by before the softmax.
        max_tokens: Texts with more tokens are cut; `None`: it takes texts of any length.
        notes: What was decided in loading it and a reader of the results should know.
        parlai: What is known of the ParlAI checkpoint it was converted from; `None`: it was not converted.
        classify_distinct: Classifies texts, no two of them the same.
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
    parlai: ParlaiOrigin | None = None
    classify_distinct: Callable[[list[str]], Classification]

    def classify(self, texts: Sequence[str]) -> Classification:
        """Classifies texts; identical ones once.

        Raises:
            ValueError: A text is blank or not a string, or the classifier gives NaN or infinity for it.
        """
        check_nonblank_texts(texts)
        unique, which = distinct(texts)
        probabilities, truncated = self.classify_distinct(unique)
        return Classification(probabilities[which], truncated[which])

    def probabilities(self, texts: Sequence[str]) -> np.ndarray:
        """[texts, labels] float64; errors as `classify`."""
        return self.classify(texts).probabilities


def classify_into_shards(
    texts: Sequence[str],
    ids: Sequence[str],
    classifier: Classifier,
    folder: Path,
    *,
    label: str,
    precision: str = "float32",
    rows_per_shard: int | None = None,
    progress: bool = True,
) -> pa.Table | None:
    """Classifies the texts that are not on disk yet, and reads all probabilities.

    Args:
        texts: The texts, none of them blank.
        ids: [texts] what each row is keyed by; each id once.
        classifier: The classifier. Identical texts of a shard are classified once.
        folder: Where the shards are; made if it is not there.
        label: What the progress bar shows.
        precision: `"float16"` (half the space, three digits), `"float32"` or `"float64"`.
        rows_per_shard: Texts in a shard; `None`: `ROWS_PER_SHARD`.
        progress: Whether the main process shows a progress bar.

    Returns:
        A table in the order of `texts` on the main process; `None` on all others. Its columns are `id`,
        `probabilities` ([labels] a row) and `truncated` (whether the classifier was given a part of the text only).

    Raises:
        ValueError: A text is blank or not a string, there are more or fewer ids than texts, or the precision is not
            known.
    """
    if len(texts) != len(ids):
        raise ValueError(LENGTH_ERROR.format(texts=len(texts), others=len(ids)))
    check_nonblank_texts(texts)
    schema = probability_schema(len(classifier.labels), precision)
    shards = plan_row_shards(len(texts), rows_per_shard or ROWS_PER_SHARD, folder)

    def compute(mine: Sequence[int], advance: Callable[[int], object]) -> Iterator[pa.Table]:
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
            advance(len(rows))

    return fill_shards(shards, ids, schema, compute, label=label, unit="text", inputs=texts, progress=progress)


def probability_schema(num_labels: int, precision: str = "float32") -> pa.Schema:
    """The columns of the shards of a classifier with this many labels."""
    if precision not in PRECISIONS:
        raise ValueError(PRECISION_ERROR.format(precision=precision, allowed=", ".join(PRECISIONS)))
    probabilities = pa.list_(PRECISIONS[precision], num_labels)
    return pa.schema([("id", pa.string()), (PROBABILITIES, probabilities), ("truncated", pa.bool_())])


def probability_array(table: pa.Table) -> np.ndarray:
    """[texts, labels] in the precision they are stored in, from a table of `classify_into_shards`."""
    column = table[PROBABILITIES].combine_chunks()
    return column.flatten().to_numpy(zero_copy_only=False).reshape(len(column), column.type.list_size)
