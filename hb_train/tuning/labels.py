"""Labels of a model's own replies: the tag of each reply by its bias value, the validation split, and reading them."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from hb_dataset.seeded_draws import seeded_generator
from hb_metrics.runs.finished_run import StyleShards
from hb_metrics.runs.run_folder import read_json
from hb_metrics.statistics.bias_values import bias_values

if TYPE_CHECKING:
    from datasets import Dataset

LABELS_FILE = "labels.json"
CEILING_FILE = "ceiling.json"
SPLITS = ("train", "validation")
ROW_SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("id", "prompt", "completion", "tag")),
        ("bias_value", pa.float64()),
        *((name, pa.string()) for name in ("axis", "descriptor", "noun", "template")),
        # Whether the reply was cut at the longest length, so that nothing ends it.
        ("truncated", pa.bool_()),
    ]
)

ONE_TAG_ERROR = (
    'beta {beta:g} tags {number} of {total} replies "bias"; both tags are needed to tell them apart. The bias values '
    "lie between {low:.3g} and {high:.3g}, half of them above {median:.3g}: give a beta between, or --beta_quantile"
)
# Of labels.json, by whoever tunes on the labels.
_NEEDED = {"suffix", "context", "model", "style_classifier", "by_tag", "by_split"}

TOO_FEW_ERROR = "the replies are to {number} distinct prompts; at least 2 are needed for training and validation"
NO_LABELS_ERROR = "'{folder}' has no {file}; give a folder that hb_train/bias_labels.py has written"
NOT_LABELS_ERROR = "'{path}' does not describe labels; make them again with hb_train/bias_labels.py"
ROWS_ERROR = (
    "'{path}' {problem}; rows that were changed by hand, or are of another release, are not learnt: make them again "
    "with hb_train/{script}.py"
)
SPLIT_ERROR = "'{folder}' has no split '{split}'; there are: {known}"


class Labels(NamedTuple):
    """The tags of replies.

    Attributes:
        values: [replies] float64, the bias values.
        is_biased: [replies] whether the bias value is above β.
        beta: The threshold β.
    """

    values: np.ndarray
    is_biased: np.ndarray
    beta: float


def tag_replies(
    replies: pa.Table,
    styles: StyleShards,
    *,
    alpha: int,
    beta: float | None,
    quantile: float | None,
    values: np.ndarray | None = None,
) -> Labels:
    """Tags replies by their bias values.

    Args:
        replies: Replies with the columns `descriptor`, `template` and `axis`.
        styles: Their style vectors, in the same order.
        alpha: The exponent α: 0, 1 or 2.
        beta: The threshold β; `None`: by `quantile`.
        quantile: The share of replies at or below β.
        values: [replies] their bias values with this α; `None`: they are computed.

    Returns:
        The bias values, the tags and β.

    Raises:
        ValueError: β tags all or none of the replies.
    """
    if values is None:
        columns = (replies[name].to_pylist() for name in ("descriptor", "template", "axis"))
        values = bias_values(styles, *columns, alpha=alpha).values
    if beta is None:
        assert quantile is not None
        beta = float(np.quantile(values, quantile, method="inverted_cdf"))
    is_biased = values > beta
    num_biased = int(is_biased.sum())
    if num_biased in (0, len(values)):
        low, median, high = np.quantile(values, (0, 0.5, 1))
        raise ValueError(
            ONE_TAG_ERROR.format(beta=beta, number=num_biased, total=len(values), low=low, median=median, high=high)
        )
    return Labels(values, is_biased, beta)


def held_out_rows(texts: Sequence[str], validation_fraction: float, seed: int) -> np.ndarray:
    """Chooses the rows held out for validation, by the texts of their prompts.

    Rows of the same descriptor, noun and template have the same text but for variations, and go to the same side; so
    do others whose texts are the same or differ in nothing that variations change ("Deaf" and "deaf").

    Args:
        texts: [rows] the prompts, varied or not.
        validation_fraction: The share of the distinct texts that is held out, at least one and never all.
        seed: Chooses the texts.

    Returns:
        [rows] whether a row is held out.

    Raises:
        ValueError: There are fewer than two distinct texts.
    """
    unvaried = [_without_variations(text) for text in texts]
    distinct = sorted(set(unvaried), key=lambda text: (seeded_generator(seed, "validation", text).random(), text))
    if len(distinct) < len(SPLITS):
        raise ValueError(TOO_FEW_ERROR.format(number=len(distinct)))
    number = min(max(1, round(validation_fraction * len(distinct))), len(distinct) - 1)
    held_out = set(distinct[:number])
    return np.array([text in held_out for text in unvaried])


def read_labels(folder: Path) -> dict[str, Any]:
    """Reads `labels.json` in a folder of labels.

    Raises:
        ValueError: It is not there, or not such a file.
    """
    path = folder / LABELS_FILE
    if not path.is_file():
        raise ValueError(NO_LABELS_ERROR.format(folder=folder, file=LABELS_FILE))
    labels = read_json(path)
    if not isinstance(labels, dict) or not labels.keys() >= _NEEDED:
        raise ValueError(NOT_LABELS_ERROR.format(path=path))
    return labels


def split_path(folder: Path, split: str) -> Path:
    """The file of a split in a folder of labels."""
    return folder / "data" / f"{split}.parquet"


def read_split(folder: Path, split: str, schema: pa.Schema = ROW_SCHEMA, script: str = "bias_labels") -> "Dataset":
    """The rows of a split, read past the cache of `datasets`, which may know another folder of that name.

    Args:
        folder: The folder.
        split: The name of the split.
        schema: The columns of its rows.
        script: What makes such rows, for the error.

    Raises:
        ValueError: There is no such split, or its rows are not such as the script writes.
    """
    from datasets import Dataset

    path = split_path(folder, split)
    if not path.is_file():
        known = ", ".join(sorted(other.stem for other in path.parent.glob("*.parquet")))
        raise ValueError(SPLIT_ERROR.format(split=split, folder=folder, known=known or "none"))
    try:
        rows = pq.read_table(path).select(schema.names).cast(schema)
        problem = _problem(rows)
    except (KeyError, pa.ArrowException) as error:
        problem = f"has other columns ({error})"
    if problem is not None:
        raise ValueError(ROWS_ERROR.format(path=path, problem=problem, script=script))
    return Dataset(rows)


def _problem(rows: pa.Table) -> str | None:
    """What is wrong with rows that have the right columns; `None`: nothing."""
    if not len(rows):
        return "has no rows"
    for name in ("id", "prompt", "baseline_prompt", "completion", "tag", "bias_value"):
        if name in rows.column_names and rows[name].null_count:
            return f"has rows without a value in column '{name}'"
    if "tag" in rows.column_names:
        from hb_metrics.inference.models.bias_tags import TAGS

        if other := set(rows["tag"].unique().to_pylist()) - set(TAGS):
            return f"has the tag '{min(other)}', where there are {' and '.join(TAGS)}"
        if not np.isfinite(rows["bias_value"].to_numpy()).all():
            return "has bias values that are not finite"
    return None


def _without_variations(text: str) -> str:
    """The same text for all texts that `hb_dataset.variations` makes of one."""
    return re.sub(r"\bi'm\b", "i am", text.lower().replace("-", " ")).rstrip(".")
