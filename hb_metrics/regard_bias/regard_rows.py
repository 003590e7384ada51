"""Rows of regard: checks, codes and counts."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from hb_metrics.stats.inputs import as_numbers, check_column, check_lengths, text_codes

REGARDS = ("negative", "neutral", "positive", "other")
SCORED = REGARDS[:3]  # the labels with a score: -1, 0, 1
NEGATIVE, NEUTRAL, POSITIVE, OTHER = range(4)
OTHERS = ("drop", "neutral", "keep")
# How far a row of probabilities may be from summing to 1.
TOLERANCE = 1e-3

EMPTY_ERROR = "there are no rows; give the regard of at least one text"
NAME_ERROR = (
    "{name} is {value!r} in row {row}; give a string for every row (seeds: or a whole number); structures, prompts and "
    "seeds may be left out altogether"
)
UNKNOWN_LABEL_ERROR = "prediction {value!r} in row {row} is not a label; allowed: {labels} ({count} rows have others)"
LABELS_ERROR = "labels are {labels!r}; give each of negative, neutral and positive once, and other if there is one"
SHAPE_ERROR = (
    "predictions have the shape {shape}; give one label for each row, or [rows, labels] probabilities of {labels}"
)
NOT_NUMBERS_ERROR = "predictions cannot be read as probabilities ({error}); give the same number of numbers in each row"
PROBABILITY_ERROR = (
    "probability {value} in row {row}, of {label}; probabilities are numbers from 0 to 1 ({count} rows have others)"
)
ROW_SUM_ERROR = (
    "probabilities of row {row} sum to {total:.6g}, not to 1 ({count} rows do not); "
    "give the classifier's probabilities, after softmax"
)
OTHER_ERROR = "other is {other!r}; allowed: drop (left out), neutral (counted as neutral), keep (a class of its own)"


class Column(NamedTuple):
    """A column of names as codes.

    Attributes:
        names: The distinct names, in alphabetical order.
        codes: [rows] index of each row's name.
    """

    names: list[str]
    codes: np.ndarray


class RegardRows(NamedTuple):
    """The rows; every column is [rows].

    Attributes:
        label: Indices into `REGARDS`.
        group: The group that the prompt is about.
        structure: Syntactic structure of the prompt; `None`: not given.
        prompt: Identifier of the prompt; `None`: not given.
        seed: Seed that the text was drawn with; `None`: not given.
    """

    label: np.ndarray
    group: Column
    structure: Column | None
    prompt: Column | None
    seed: Column | None

    def where(self, chosen: np.ndarray) -> "RegardRows":
        """Some of the rows; `chosen` is [rows] of bool. Names that no row has any more are kept."""
        columns = [column and Column(column.names, column.codes[chosen]) for column in self[1:]]
        return RegardRows(self.label[chosen], *columns)  # type: ignore[arg-type]

    def counts(self) -> np.ndarray:
        """[groups, structures, labels] number of rows, with a single structure if none are given."""
        structure = self.structure or Column([""], np.zeros(len(self.label), dtype=np.int64))
        shape = len(self.group.names), len(structure.names), len(REGARDS)
        cells = np.ravel_multi_index((self.group.codes, structure.codes, self.label), shape)
        return np.bincount(cells, minlength=int(np.prod(shape))).reshape(shape)


def read_rows(
    predictions: Any,
    groups: Sequence[str],
    structures: Sequence[str] | None,
    prompts: Sequence[str] | None,
    seeds: Sequence[int | str] | None,
    labels: Sequence[str],
) -> RegardRows:
    """Checks the inputs of `regard_bias`.

    Raises:
        ValueError: As for `regard_bias`.
    """
    optional = {"structures": structures, "prompts": prompts, "seeds": seeds}
    columns = {"predictions": predictions, "groups": groups}
    columns |= {name: column for name, column in optional.items() if column is not None}
    for name, column in columns.items():
        check_column(name, column)
    check_lengths(**columns)
    if not len(predictions):
        raise ValueError(EMPTY_ERROR)
    return RegardRows(
        _label_codes(predictions, labels),
        _column("groups", groups),
        None if structures is None else _column("structures", structures),
        None if prompts is None else _column("prompts", prompts),
        None if seeds is None else _column("seeds", seeds),
    )


def check_predictions(predictions: Any) -> None:
    """Checks predictions before `evaluate` converts them: it would read text as numbers.

    Raises:
        ValueError: They are not a column of labels, or of rows of numbers.
    """
    check_column("predictions", predictions)
    if len(predictions) and not isinstance(next(iter(predictions)), str):
        _as_matrix(predictions)


def without_other(rows: RegardRows, other: str) -> tuple[RegardRows, Mapping[str, int]]:
    """Handles rows labelled other.

    Args:
        rows: The rows.
        other: drop: rows labelled other are left out; neutral: they become neutral; keep: they are kept.

    Returns:
        The rows, and the number of rows labelled other in each group.

    Raises:
        ValueError: `other` is not one of these.
    """
    if other not in OTHERS:
        raise ValueError(OTHER_ERROR.format(other=other))
    is_other = rows.label == OTHER
    counts = np.bincount(rows.group.codes[is_other], minlength=len(rows.group.names))
    num_other = dict(zip(rows.group.names, counts.tolist(), strict=True))
    if other == "neutral":
        return rows._replace(label=np.where(is_other, NEUTRAL, rows.label)), num_other
    if other == "drop":
        return rows.where(~is_other), num_other
    return rows, num_other


def check_names(name: str, values: Sequence[Any]) -> None:
    """Raises a `ValueError` if a value is empty or not a string; seeds may also be whole numbers."""
    for row, value in enumerate(values):
        is_whole = name == "seeds" and isinstance(value, (int, np.integer)) and not isinstance(value, bool)
        if not (is_whole or (isinstance(value, str) and value)):
            raise ValueError(NAME_ERROR.format(name=name, value=value, row=row))


def _column(name: str, values: Sequence[Any]) -> Column:
    """The column, its names in alphabetical order."""
    check_names(name, values)
    codes, names = text_codes(name, [str(value) for value in values])
    return Column(names, codes)


def _label_codes(predictions: Any, labels: Sequence[str]) -> np.ndarray:
    """[rows] indices into `REGARDS`."""
    is_list = isinstance(labels, (Sequence, np.ndarray)) and not isinstance(labels, str)  # a set has no order
    allowed = is_list and sorted(map(str, labels)) in (sorted(SCORED), sorted(REGARDS))
    if not allowed:
        raise ValueError(LABELS_ERROR.format(labels=labels))
    if isinstance(next(iter(predictions)), str):
        codes = {label: REGARDS.index(label) for label in labels}
        label = np.array([codes.get(value, -1) if isinstance(value, str) else -1 for value in predictions])
        bad = np.flatnonzero(label < 0)
        if len(bad):
            value = list(predictions)[bad[0]]
            names = ", ".join(labels)
            raise ValueError(UNKNOWN_LABEL_ERROR.format(value=value, row=bad[0], labels=names, count=len(bad)))
        return label
    return np.array([REGARDS.index(label) for label in labels])[_probabilities(predictions, labels).argmax(axis=1)]


def _as_matrix(predictions: Any) -> np.ndarray:
    try:
        return as_numbers(np.asarray(predictions)).astype(float)
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise ValueError(NOT_NUMBERS_ERROR.format(error=error)) from error


def _probabilities(predictions: Any, labels: Sequence[str]) -> np.ndarray:
    """[rows, labels] probabilities."""
    values = _as_matrix(predictions)
    if values.ndim != 2 or values.shape[1] != len(labels):
        raise ValueError(SHAPE_ERROR.format(shape=values.shape, labels=", ".join(labels)))
    is_bad = ~((values >= 0) & (values <= 1))
    if is_bad.any():
        row, column = np.argwhere(is_bad)[0]
        count = is_bad.any(axis=1).sum()
        raise ValueError(
            PROBABILITY_ERROR.format(value=values[row, column], row=row, label=labels[column], count=count)
        )
    totals = values.sum(axis=1)
    bad = np.flatnonzero(np.abs(totals - 1) > TOLERANCE)
    if len(bad):
        raise ValueError(ROW_SUM_ERROR.format(row=bad[0], total=totals[bad[0]], count=len(bad)))
    return values
