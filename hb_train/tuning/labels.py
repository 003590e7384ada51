import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from datasets import Dataset

from hb_dataset.seeded_draws import seeded_generator
from hb_dataset.whole_files import write_atomically
from hb_metrics.models.contexts import ContextFormat
from hb_metrics.run.run_folder import read_json
from hb_metrics.stats.bias_values import bias_values


class RowRecord(NamedTuple):
    """What tuning reads from the record of a folder of rows.

    `suffix` is the text after the tag in every prompt, and `temperature` that of the replies in `OWN_REPLIES`.
    """

    content: dict[str, object]
    context: ContextFormat
    model: dict[str, str | None]
    asked_with: dict[str, object] | None = None
    alpha: int | None = None
    beta: float | None = None
    suffix: str = ""
    temperature: float = 1.0


class RowFolder(NamedTuple):
    """A kind of folder of rows: the name of its record, the script that writes it, and the columns of the rows."""

    record: str
    script: str
    schema: pa.Schema


SPLITS = ("train", "validation")
VALIDATION_SHARE = 0.1  # the share of the distinct prompts
ROW_SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("id", "prompt", "completion", "tag")),
        ("bias_value", pa.float64()),
        *((name, pa.string()) for name in ("axis", "descriptor", "noun", "template")),
        # Whether the maximum length truncated the reply, so that its end is unknown.
        ("truncated", pa.bool_()),
    ]
)
LABELS = RowFolder("labels.json", "bias_labels", ROW_SCHEMA)


def tag_replies(replies: pa.Table, styles: np.ndarray, *, alpha: int, beta: float) -> tuple[np.ndarray, np.ndarray]:
    """Returns the bias values of replies, and whether each value is above β."""
    columns = (replies[name].to_pylist() for name in ("descriptor", "template", "axis"))
    values = bias_values(styles, *columns, alpha=alpha).values
    is_biased = values > beta
    if is_biased.all() or not is_biased.any():
        low, median, high = np.quantile(values, (0, 0.5, 1))
        raise ValueError(
            f'beta {beta:g} tags {is_biased.sum()} of {len(values)} replies "bias", and tuning needs both tags; set a '
            f"beta from {low:.3g} to {high:.3g} (median {median:.3g})"
        )
    return values, is_biased


def held_out_rows(texts: Sequence[str], seed: int) -> np.ndarray:
    """Returns whether each row is held out for validation, given the text of its prompt.

    Texts that differ only in stylistic variations ("Deaf" and "deaf") are in the same split.
    """
    unvaried = [_without_variations(text) for text in texts]
    distinct = sorted(set(unvaried), key=lambda text: (seeded_generator(seed, "validation", text).random(), text))
    if len(distinct) < len(SPLITS):
        raise ValueError(f"the number of distinct prompts with a reply is {len(distinct)}; use at least 2 prompts")
    held_out = set(distinct[: max(1, round(VALIDATION_SHARE * len(distinct)))])
    return np.array([text in held_out for text in unvaried])


def write_splits(folder: Path, rows: pa.Table, held_out: np.ndarray) -> None:
    (folder / "data").mkdir(exist_ok=True)
    for split, in_split in zip(SPLITS, (~held_out, held_out), strict=True):
        write = partial(pq.write_table, rows.filter(pa.array(in_split)), compression="zstd")
        write_atomically(_split_path(folder, split), write)


def read_labels(folder: Path, rows: RowFolder = LABELS) -> RowRecord:
    path = folder / rows.record
    content = read_json(path) if path.is_file() else None
    if not isinstance(content, dict) or not {"context", "model"} <= content.keys():
        raise ValueError(f"'{folder}' has no {rows.record}; pass a folder that hb_train/{rows.script}.py has written")
    return RowRecord(content, **{name: content[name] for name in RowRecord._fields if name in content})


def read_split(folder: Path, split: str, rows: RowFolder = LABELS) -> Dataset:
    """Reads the rows of a split without the cache of `datasets`, which may confuse folders of the same name."""
    path = _split_path(folder, split)
    try:
        return Dataset(pq.read_table(path).select(rows.schema.names).cast(rows.schema))
    except (KeyError, OSError, pa.ArrowException) as error:
        raise ValueError(f"'{path}' cannot be read ({error}); run hb_train/{rows.script}.py again") from error


def _split_path(folder: Path, split: str) -> Path:
    return folder / "data" / f"{split}.parquet"


def _without_variations(text: str) -> str:
    return re.sub(r"\bi'm\b", "i am", text.lower().replace("-", " ")).rstrip(".")
