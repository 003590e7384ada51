from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from hb_metrics.stats.inputs import check_columns, is_whole, text_codes, without_scalars

SCORED = ("negative", "neutral", "positive")  # the labels that have a score: -1, 0, 1
REGARDS = (*SCORED, "other")
NEGATIVE, NEUTRAL, POSITIVE, OTHER = range(4)

ROUNDING = 1e-12  # values below this limit are rounding errors


class Column(NamedTuple):
    """A column of strings: the index of each row's name, and the distinct names in alphabetical order."""

    codes: np.ndarray
    names: list[str]


Pair = tuple[int, int]  # the advantaged group and the disadvantaged group


class RegardRows(NamedTuple):
    label: np.ndarray
    group: Column
    structure: Column | None
    prompt: Column | None
    seed: Column | None

    def where(self, chosen: np.ndarray) -> "RegardRows":
        columns = [column and Column(column.codes[chosen], column.names) for column in self[1:]]
        return RegardRows(self.label[chosen], *columns)  # type: ignore[arg-type]

    def counts(self) -> np.ndarray:
        """Counts rows: [groups, structures, labels of `SCORED`]. Without structures, all rows have the same structure.

        No row may have the label "other".
        """
        structure = self.structure or Column(np.zeros(len(self.label), dtype=np.int64), [""])
        shape = len(self.group.names), len(structure.names), len(SCORED)
        cells = np.ravel_multi_index((self.group.codes, structure.codes, self.label), shape)
        return np.bincount(cells, minlength=int(np.prod(shape))).reshape(shape)


def read_rows(
    predictions: Sequence[str],
    groups: Sequence[str],
    structures: Sequence[str] | None = None,
    prompts: Sequence[str] | None = None,
    seeds: Sequence[int | str] | None = None,
) -> RegardRows:
    required = {"predictions": predictions, "groups": groups}
    check_columns(required, structures=structures, prompts=prompts, seeds=seeds)
    if not len(predictions):
        raise ValueError("there are no rows; pass at least one row")
    codes = {label: code for code, label in enumerate(REGARDS)}
    predictions = without_scalars(predictions)
    for row, label in enumerate(predictions):
        if not isinstance(label, str) or label not in codes:
            raise ValueError(
                f"prediction {label!r} in row {row} is not a label; allowed: {', '.join(REGARDS)}. If you have "
                "probabilities, pass the label with the highest probability"
            )
    return RegardRows(
        np.array([codes[label] for label in predictions]),
        Column(*text_codes("groups", groups)),
        None if structures is None else Column(*text_codes("structures", structures)),
        None if prompts is None else Column(*text_codes("prompts", prompts)),
        None if seeds is None else Column(*text_codes("seeds", seed_names(seeds))),
    )


def cell_means(counts: np.ndarray) -> np.ndarray:
    """Computes mean regard (from -1 to 1) from counts [..., labels]. The mean is NaN where there are no rows."""
    numbers = counts.sum(axis=-1)
    sums = counts[..., POSITIVE] - counts[..., NEGATIVE]
    return np.divide(sums, numbers, out=np.full(numbers.shape, np.nan), where=numbers > 0)


def seed_names(seeds: Sequence[Any]) -> list[Any]:
    """Converts whole numbers to strings. `text_codes` rejects other values."""
    return [str(seed) if is_whole(seed) else seed for seed in without_scalars(seeds)]
