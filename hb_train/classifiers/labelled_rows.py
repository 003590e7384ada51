"""Texts with a label each, from any dataset, and their split into rows to train, to calibrate and to test on."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import yaml

from hb_dataset.data_files import load_split
from hb_dataset.hints import did_you_mean
from hb_dataset.seeded_draws import seeded_generator

SHIPPED = "shipped"  # the exemplars of the embedded classifier, in place of a dataset
_STYLE_DATA = Path(__file__).parents[2] / "hb_metrics" / "inference" / "classifiers" / "style_data"
_SHIPPED_FILES = {"train": "exemplars.yaml", "calibration": "calibration.yaml"}

SHARE = 0.1  # of each label's texts, set aside to calibrate and again to test


class LabelledRows(NamedTuple):
    """Texts with their labels.

    Attributes:
        texts: [rows].
        labels: [rows] their names.
        num_skipped: Reason → rows that were left out: `no_text`, `no_label`, `repeated` (the same text and label).
    """

    texts: list[str]
    labels: list[str]
    num_skipped: dict[str, int]


class SplitRows(NamedTuple):
    """Rows by what they are used for; no text is in two of them."""

    train: LabelledRows
    calibration: LabelledRows
    test: LabelledRows


def read_rows(
    source: str,
    *,
    text_column: str = "text",
    label_column: str = "label",
    config: str | None = None,
    split: str = "train",
) -> LabelledRows:
    """Reads texts and labels.

    Args:
        source: A CSV, TSV, JSON, JSONL or Parquet file, a folder, a dataset of the Hub, or "shipped": the exemplars of
            the embedded classifier (split "train") or the replies its temperature is fitted on ("calibration").
        text_column: The column of the texts.
        label_column: The column of the labels: names, or numbers of a `ClassLabel`, which become their names.
        config: A config of the dataset.
        split: A split of the dataset; of a file "train".

    Raises:
        ValueError: A column is not there or holds something else, or there are no rows.
        OSError: There is no such file or dataset.
    """
    if source == SHIPPED:
        entries = yaml.safe_load((_STYLE_DATA / _SHIPPED_FILES[split]).read_text(encoding="utf-8"))
        texts, labels = zip(*((text, entry["style"]) for entry in entries for text in entry["replies"]), strict=True)
        return _without_gaps(source, texts, labels)
    dataset = _load(source, config, split)
    for name in (text_column, label_column):
        if name not in dataset.column_names:
            raise ValueError(
                f"'{source}' has no column '{name}'; {did_you_mean(name, dataset.column_names)}there are: "
                f"{', '.join(dataset.column_names)} (--text_column, --label_column)"
            )
    names = getattr(dataset.features[label_column], "names", None)  # of a ClassLabel
    values = dataset[label_column][:]
    if names is not None:
        values = [None if value is None or value < 0 else names[value] for value in values]  # -1: not labelled
    return _without_gaps(source, dataset[text_column][:], values)


def _load(source: str, config: str | None, split: str) -> Any:
    """A split as a `datasets.Dataset`; raises a ValueError with the reason if its files cannot be read."""
    import datasets

    try:
        return load_split([source], config, split)
    except (datasets.exceptions.DatasetsError, pa.ArrowException, EOFError) as error:
        reason = " ".join(str(error.__cause__ or error).split())
        raise ValueError(
            f"'{source}' cannot be read ({reason}); set texts and labels in UTF-8 as CSV, TSV, JSON, JSONL or Parquet"
        ) from error


def split_rows(
    rows: LabelledRows,
    calibration: LabelledRows | None,
    test: LabelledRows | None,
    *,
    seed: int,
    share: float = SHARE,
) -> SplitRows:
    """Sets rows aside, the same share of each label, unless there are others for it.

    Args:
        rows: All rows.
        calibration: Rows to calibrate on; `None`: a share of `rows`.
        test: Rows to test on; `None`: a share of `rows`.
        seed: Which ones are drawn.
        share: The share that is set aside for each use.

    Returns:
        The rows by use. Rows to train on whose text is also in the others are left out, and counted in `num_skipped` as
        `held_out_elsewhere`; of a text with several labels all rows go the same way.

    Raises:
        ValueError: No row is left for a use.
    """
    taken = {_key(text) for others in (calibration, test) if others is not None for text in others.texts}
    label_of: dict[str, str] = {}
    for text, label in zip(rows.texts, rows.labels, strict=True):
        label_of.setdefault(_key(text), label)
    by_label: dict[str, list[str]] = {}
    for key, label in label_of.items():
        if key not in taken:
            by_label.setdefault(label, []).append(key)
    use_of = dict.fromkeys(taken, "elsewhere")
    for label, keys in by_label.items():
        order = [keys[index] for index in seeded_generator(seed, "held-out rows", label).permutation(len(keys))]
        num_test = 0 if test is not None else round(share * len(keys))
        num_calibration = 0 if calibration is not None else round(share * len(keys))
        use_of |= dict.fromkeys(order[:num_test], "test")
        use_of |= dict.fromkeys(order[num_test : num_test + num_calibration], "calibration")
    parts = {use: _part(rows, use_of, use) for use in ("train", "calibration", "test")}
    skipped = {**rows.num_skipped, "held_out_elsewhere": len(_part(rows, use_of, "elsewhere").texts)}
    train = parts["train"]._replace(num_skipped=skipped)
    done = SplitRows(train, calibration or parts["calibration"], test or parts["test"])
    for use in ("calibration", "test"):
        if not getattr(done, use).texts:
            most = max(map(len, by_label.values()), default=0)
            raise ValueError(
                f"no row is left for {use}: of {len(label_of):,} distinct texts with up to {most} of a label, a share "
                f"of {share:g} rounds to none; set --{use}_dataset, or more rows"
            )
    return done


def label_indices(rows: SplitRows, sources: Sequence[str]) -> tuple[list[str], list[np.ndarray]]:
    """The labels in alphabetical order, and for each part [rows] the index of its label.

    Args:
        rows: The rows by use.
        sources: What errors call each part.

    Raises:
        ValueError: There is one label, or a part has one that no row to train on has.
    """
    names = sorted(set(rows.train.labels))
    if len(names) < 2:
        raise ValueError(f"'{sources[0]}' has one label, '{names[0]}'; a classifier needs two or more")
    index_of = {name: index for index, name in enumerate(names)}
    for source, part in zip(sources, rows, strict=True):
        for label in part.labels:
            if label not in index_of:
                raise ValueError(f"'{source}' has the label '{label}', which no row to train on has; leave it out")
    return names, [np.array([index_of[label] for label in part.labels]) for part in rows]


def _part(rows: LabelledRows, use_of: dict[str, str], use: str) -> LabelledRows:
    kept = [row for row, text in enumerate(rows.texts) if use_of.get(_key(text), "train") == use]
    return LabelledRows([rows.texts[row] for row in kept], [rows.labels[row] for row in kept], {})


def _key(text: str) -> str:
    """What makes two texts the same: their words, in any case and with any white space."""
    return " ".join(text.casefold().split())


def _without_gaps(source: str, texts: Sequence[Any], labels: Sequence[Any]) -> LabelledRows:
    """The rows with a text and a label, each pair once."""
    skipped = Counter({"no_text": 0, "no_label": 0, "repeated": 0})
    kept: dict[tuple[str, str], None] = {}
    for row, (text, label) in enumerate(zip(texts, labels, strict=True)):
        if isinstance(label, float) and label.is_integer():
            label = int(label)  # JSON and CSV make these of whole numbers that others are missing beside
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
    return LabelledRows([text for text, _ in kept], [label for _, label in kept], dict(skipped))
