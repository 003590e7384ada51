"""Labelled texts from any dataset, and their split for training, calibration and test."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import yaml

from hb_dataset.data_files import load_split
from hb_dataset.hints import did_you_mean
from hb_dataset.seeded_draws import seeded_generator

SHIPPED = "shipped"  # the exemplars of the embedded classifier, in place of a dataset
_EXEMPLARS = Path(__file__).parents[2] / "hb_metrics" / "inference" / "classifiers" / "style_data" / "exemplars.yaml"
SHARE = 0.1  # of each label's texts, for calibration and again for the test


class LabelledRows(NamedTuple):
    """Texts with their labels.

    Attributes:
        texts: [rows].
        labels: [rows] their names.
    """

    texts: list[str]
    labels: list[str]


def read_rows(
    source: str, *, text_column: str = "text", label_column: str = "label", config: str | None = None
) -> tuple[LabelledRows, dict[str, int]]:
    """Reads texts and labels.

    Args:
        source: A CSV, TSV, JSON, JSONL or Parquet file, a folder, a dataset of the Hub (its split "train"), or
            "shipped": the exemplars of the embedded classifier.
        text_column: The column of the texts.
        label_column: The column of the labels: names, or numbers of a `ClassLabel`, which become their names.
        config: A config of the dataset.

    Returns:
        The rows, and reason → rows that were left out: `no_text`, `no_label`, `repeated` (the same text and label).

    Raises:
        ValueError: A column does not exist or has another type, or there are no rows.
        OSError: There is no such file or dataset.
    """
    if source == SHIPPED:
        entries = yaml.safe_load(_EXEMPLARS.read_text(encoding="utf-8"))
        texts, labels = zip(*((text, entry["style"]) for entry in entries for text in entry["replies"]), strict=True)
        return _without_gaps(source, texts, labels)
    import datasets

    try:
        dataset = load_split([source], config, "train")
    except (datasets.exceptions.DatasetsError, pa.ArrowException, EOFError) as error:
        reason = " ".join(str(error.__cause__ or error).split())
        raise ValueError(
            f"'{source}' cannot be read ({reason}); set texts and labels in UTF-8 as CSV, TSV, JSON, JSONL or Parquet"
        ) from error
    for name in (text_column, label_column):
        if name not in dataset.column_names:
            raise ValueError(
                f"'{source}' has no column '{name}'; {did_you_mean(name, dataset.column_names)}its columns are: "
                f"{', '.join(dataset.column_names)} (--text_column, --label_column)"
            )
    names = getattr(dataset.features[label_column], "names", None)  # of a ClassLabel
    values = dataset[label_column][:]
    if names is not None:
        values = [None if value is None or value < 0 else names[value] for value in values]  # -1: not labelled
    return _without_gaps(source, dataset[text_column][:], values)


def split_rows(rows: LabelledRows, *, seed: int, share: float = SHARE) -> dict[str, LabelledRows]:
    """Sets aside random rows by a seed, the same share of each label.

    Returns:
        The rows "train", "calibration" and "test". Rows with the same text, ignoring case, stay together.

    Raises:
        ValueError: There is only one label, or no row is left for calibration and test.
    """
    by_label: dict[str, list[str]] = {}
    for key, label in {_key(text): label for text, label in zip(rows.texts, rows.labels, strict=True)}.items():
        by_label.setdefault(label, []).append(key)
    use_of: dict[str, str] = {}
    for label, keys in by_label.items():
        order = [keys[index] for index in seeded_generator(seed, "held-out rows", label).permutation(len(keys))]
        number = round(share * len(keys))
        use_of |= dict.fromkeys(order[:number], "test")
        use_of |= dict.fromkeys(order[number : 2 * number], "calibration")
    if len(by_label) < 2 or not use_of:
        raise ValueError(
            f"{len(rows.texts)} rows with {len(by_label)} labels are too few; set a dataset with two labels or more, "
            f"and at least {round(1 / share)} texts of one label"
        )
    parts = {use: LabelledRows([], []) for use in ("train", "calibration", "test")}
    for text, label in zip(rows.texts, rows.labels, strict=True):
        part = parts[use_of.get(_key(text), "train")]
        part.texts.append(text)
        part.labels.append(label)
    return parts


def _key(text: str) -> str:
    """The key of equal texts: their words, ignoring case and white space."""
    return " ".join(text.casefold().split())


def _without_gaps(source: str, texts: Sequence[Any], labels: Sequence[Any]) -> tuple[LabelledRows, dict[str, int]]:
    """The rows with a text and a label, each pair once."""
    skipped = Counter({"no_text": 0, "no_label": 0, "repeated": 0})
    kept: dict[tuple[str, str], None] = {}
    for row, (text, label) in enumerate(zip(texts, labels, strict=True)):
        if not isinstance(text, str | None) or not isinstance(label, str | int | None) or isinstance(label, bool):
            raise ValueError(
                f"row {row} of '{source}' has text {text!r} and label {label!r}; set --text_column to texts, and "
                "--label_column to one string or whole number for each"
            )
        if text is None or not text.strip():
            skipped["no_text"] += 1
        elif label is None or not str(label).strip():
            skipped["no_label"] += 1
        elif (text, str(label)) in kept:
            skipped["repeated"] += 1
        else:
            kept[text, str(label)] = None
    return LabelledRows([text for text, _ in kept], [label for _, label in kept]), dict(skipped)
