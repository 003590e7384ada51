"""A visitor's rows and settings as inputs of the metric: from the table of the page, or from a file."""

import json
from collections.abc import Mapping
from inspect import Parameter, signature
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    import evaluate

PREDICTIONS = "predictions"
# Column of the dataset, or of a run's files → input of a metric.
DATASET_COLUMNS = {
    "axis": "axes",
    "descriptor": "descriptors",
    "template": "templates",
    "group": "groups",
    "structure": "structures",
    "prompt_id": "prompts",
    "seed_index": "seeds",
    "regard": PREDICTIONS,
}

NO_ROWS_ERROR = "there are no rows; fill in the table, or choose a file"
FILE_ERROR = "'{name}' cannot be read ({error}); give a CSV file in UTF-8, or a Parquet file"
FILE_TYPE_ERROR = "'{name}' is neither .csv nor .parquet; give one of these"
MISSING_COLUMN_ERROR = "the column {name} is missing; there are: {columns}"
NO_STYLE_ERROR = "there is no column of numbers; give the probabilities of each style in a column named as the style"
MISSING_ERROR = "{name} is missing in row {row}; fill it in, or leave the row out"
NUMBER_ERROR = "{name} is {value!r} in row {row}; give a number in every row"
TWICE_ERROR = "there are two columns named {name}; give each column a name of its own"
SETTING_ERROR = "{name} cannot be read ({error}); write it as JSON"
CLUSTERS_ERROR = 'the clusters cannot be read ({error}); write them as {{"Cluster": ["Style", "Style"]}}'


class MetricInputs(NamedTuple):
    """The inputs that a metric expects.

    Attributes:
        texts: Names of its columns of text.
        optional: Those of them that may be left out.
        is_per_style: Whether predictions are rows of style probabilities: one column for each style.
        settings: The other arguments of `compute`, by name.
        numbers: Names of its columns of numbers, where there are no styles.
    """

    texts: tuple[str, ...]
    optional: frozenset[str]
    is_per_style: bool
    settings: dict[str, Parameter]
    numbers: tuple[str, ...] = (PREDICTIONS,)


def metric_inputs(metric: "evaluate.Metric") -> MetricInputs:
    """Reads the expected inputs from a metric's features and signatures."""
    import datasets

    parameters = {**signature(metric._compute).parameters, **signature(metric.compute).parameters}
    # Of a metric that takes its inputs in several ways, the page offers the first.
    features = metric.features[0] if isinstance(metric.features, list) else metric.features
    columns = {*features, "references", "labels"}
    if not getattr(metric, "NEEDS_CLUSTERS", True):
        columns.add("clusters")
    numbers = tuple(name for name, feature in features.items() if getattr(feature, "dtype", None) == "float64")
    texts = tuple(name for name in features if name not in (PREDICTIONS, *numbers))
    if getattr(features[PREDICTIONS], "dtype", None) == "string":
        texts += (PREDICTIONS,)
    batch = signature(metric.add_batch).parameters
    return MetricInputs(
        texts=texts,
        optional=frozenset(name for name in texts if name in batch and batch[name].default is None) - {PREDICTIONS},
        is_per_style=not isinstance(features[PREDICTIONS], datasets.Value),
        settings={
            name: parameter
            for name, parameter in parameters.items()
            if parameter.default is not Parameter.empty and name not in columns
        },
        numbers=numbers,
    )


def example_rows(case: Mapping[str, Any], expected: MetricInputs) -> pd.DataFrame:
    """A test case as the rows of the table: one column for each text and each style, the empty ones last."""
    texts = {name: case[name] for name in expected.texts if name in case}
    empty = {name: [""] * len(case[PREDICTIONS]) for name in expected.texts if name not in case}
    if expected.is_per_style:
        numbers = dict(zip(case["labels"], zip(*case[PREDICTIONS], strict=True), strict=True))
    else:
        numbers = {name: case[name] for name in expected.numbers}
    return pd.DataFrame({**texts, **numbers, **empty})


def other_names(expected: MetricInputs) -> str:
    """A sentence about the other names that columns may have; empty if there are none."""
    names = [f"`{column}`" for column, name in DATASET_COLUMNS.items() if name in expected.texts]
    return f" Columns may also be named {', '.join(names)}, as in the dataset and in a run's files." if names else ""


def read_file(path: str | Path, expected: MetricInputs) -> pd.DataFrame:
    """Reads the rows of a CSV or Parquet file.

    Raises:
        ValueError: It is neither, or cannot be read.
    """
    path = Path(path)
    try:
        if path.suffix.lower() == ".parquet":
            return pd.read_parquet(path)
        if path.suffix.lower() == ".csv":
            # "None" and "NA" are words like others; only an empty cell is a missing one.
            return pd.read_csv(
                path,
                dtype=dict.fromkeys([*expected.texts, *DATASET_COLUMNS], str),
                keep_default_na=False,
                na_values=[""],
                encoding="utf-8-sig",
            )
    except (ValueError, OSError) as error:
        raise ValueError(FILE_ERROR.format(name=path.name, error=error)) from error
    raise ValueError(FILE_TYPE_ERROR.format(name=path.name))


def rows_to_inputs(rows: pd.DataFrame, expected: MetricInputs) -> tuple[dict[str, Any], list[str]]:
    """Turns rows into the columns that `compute` is given.

    Args:
        rows: The visitor's, with a column for each input, or for each style; cells may be text.
        expected: The metric's inputs.

    Returns:
        The inputs by name, and notes for the visitor on how the rows were read.

    Raises:
        ValueError: There are no rows, a column is missing or occurs twice, or a cell of a column of numbers holds
            something else.
    """
    names = [str(name).strip() for name in rows.columns]
    names = [DATASET_COLUMNS[name] if DATASET_COLUMNS.get(name) in expected.texts else name for name in names]
    for name in names:
        if name and names.count(name) > 1:
            raise ValueError(TWICE_ERROR.format(name=name))
    rows = rows.set_axis(names, axis=1).apply(_without_empty_texts)
    is_empty = rows.isna().all(axis=1)
    rows = rows[~is_empty].reset_index(drop=True)
    if rows.empty:
        raise ValueError(NO_ROWS_ERROR)
    notes = [f"{len(rows)} rows"] + ([f"{is_empty.sum()} empty rows left out"] if is_empty.any() else [])

    inputs: dict[str, Any] = {}
    for name in expected.texts:
        if name not in rows and name not in expected.optional:
            raise ValueError(MISSING_COLUMN_ERROR.format(name=name, columns=", ".join(names)))
        if name not in rows or (name in expected.optional and rows[name].isna().all()):
            notes.append(f"no {name}")
        else:
            inputs[name] = _texts(name, rows[name])
    others = [name for name in names if name not in expected.texts]
    if expected.is_per_style:
        numbers = [name for name in others if name and _holds_numbers(rows[name])]
        if not numbers:
            raise ValueError(NO_STYLE_ERROR)
        inputs[PREDICTIONS] = np.stack([_numbers(name, rows[name]) for name in numbers], axis=1)
        inputs["labels"] = numbers
        notes.append(f"{len(numbers)} styles")
    else:
        numbers = list(expected.numbers)
        for name in numbers:
            if name not in rows:
                raise ValueError(MISSING_COLUMN_ERROR.format(name=name, columns=", ".join(names)))
            inputs[name] = _numbers(name, rows[name]).tolist()
    if unused := [name for name in others if name not in numbers]:
        notes.append(f"columns not used: {', '.join(unused)}")
    return inputs, notes


def read_settings(values: Mapping[str, Any], expected: MetricInputs) -> dict[str, Any]:
    """The settings for `compute` from those of the page; empty ones keep their defaults.

    Raises:
        ValueError: A setting without a default is not JSON, or the clusters are not lists with a name each.
    """
    settings: dict[str, Any] = {}
    for name, value in values.items():
        if value is None or value == "":
            continue
        if isinstance(expected.settings[name].default, frozenset):
            settings[name] = [line.strip() for line in value.splitlines() if line.strip()]
        elif name == "clusters":
            settings[name] = _clusters(value)
        elif expected.settings[name].default is None:
            settings[name] = _from_json(name, value)
        else:
            settings[name] = value
    return settings


def _clusters(text: str) -> dict[str, list[str]]:
    try:
        clusters = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(CLUSTERS_ERROR.format(error=error)) from error
    if not isinstance(clusters, dict) or not all(isinstance(styles, list) for styles in clusters.values()):
        raise ValueError(CLUSTERS_ERROR.format(error="they are not lists with a name each"))
    return clusters


def _from_json(name: str, text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(SETTING_ERROR.format(name=name, error=error)) from error


def _without_empty_texts(column: pd.Series) -> pd.Series:
    """The column with `None` for texts of nothing but white space."""
    if pd.api.types.is_numeric_dtype(column):
        return column
    return column.map(lambda value: None if isinstance(value, str) and not value.strip() else value).astype(object)


def _texts(name: str, column: pd.Series) -> list[str]:
    missing = np.flatnonzero(column.isna())
    if len(missing):
        raise ValueError(MISSING_ERROR.format(name=name, row=missing[0]))
    return [str(value) for value in column]


def _holds_numbers(column: pd.Series) -> bool:
    """Whether any value is a number: other values are then mistakes, and the column is not one of something else."""
    return bool(_parsed(column).notna().any())


def _numbers(name: str, column: pd.Series) -> np.ndarray:
    values = _parsed(column)
    if values.isna().any():
        row = int(np.flatnonzero(values.isna())[0])
        value = None if pd.isna(column[row]) else column[row]
        raise ValueError(NUMBER_ERROR.format(name=name, value=value, row=row))
    return values.to_numpy(dtype=float)


def _parsed(column: pd.Series) -> pd.Series:
    """The numbers of a column; missing where there is something else."""
    if not pd.api.types.is_numeric_dtype(column):
        column = column.map(lambda value: value if isinstance(value, (str, Real)) else None)
    elif pd.api.types.is_bool_dtype(column):
        column = column.map(lambda value: None)
    return pd.to_numeric(column, errors="coerce")
