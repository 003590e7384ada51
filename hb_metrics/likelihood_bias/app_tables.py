"""The tables of a metric's page: the visitor's rows as inputs of the metric, and its results as tables.

For app.py, and like it one file for all metrics.
"""

import html
import json
import re
import warnings
from collections.abc import Mapping, Sequence
from inspect import Parameter, signature
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    import evaluate

PREDICTIONS = "predictions"
# Columns by the names they have in the dataset.
SINGULAR = {
    "axis": "axes",
    "descriptor": "descriptors",
    "template": "templates",
    "group": "groups",
    "structure": "structures",
    "prompt_id": "prompts",
    "seed_index": "seeds",
    "regard": PREDICTIONS,
}
FIGURES = ("figure",)
# Results of which one figure each stands above the tables, if there is no single one: by name of result, the figure's.
HEADLINES = {"gaps": "gap", "by_group": "mean"}
MAX_HEADLINES = 5
# Results that hold others once more, and what those are called: they stand in columns beside the first.
BESIDE = {"intervals": " interval", "no_intervals": " without interval", "fixed": " fixed"}

# Result → what its keys are, level by level; what lies below the last level are columns.
LEVELS: Mapping[str, tuple[str, ...]] = {
    "partial_gen_bias": ("cluster",),
    "summed_cluster_gen_bias": ("cluster",),
    "noise_floor": ("cluster",),
    "clusters": ("cluster",),
    "by_style": ("style",),
    "by_axis": ("axis",),
    "bh_by_axis": ("axis",),
    "effect_size_by_axis": ("axis",),
    "num_tests_by_axis": ("axis",),
    "num_pairs_by_axis": ("axis",),
    "lowest_descriptors": ("axis",),
    "highest_descriptors": ("axis",),
    "by_template": ("template",),
    "by_axis_and_template": ("axis", "template"),
    "median_perplexity": ("axis", "descriptor"),
    "by_descriptor": ("axis", "descriptor"),
    "by_descriptor_and_template": ("axis", "descriptor", "template"),
    "gaps": ("pair",),
    "verdicts": ("pair",),
    "pairs": ("pair",),
    "largest_gap": ("pair",),
    "smallest_gap": ("pair",),
    "by_group": ("group",),
    "num_other": ("group",),
    "by_structure": ("structure",),
    "kl_divergence": ("row group", "column group"),
    "verdict_over": FIGURES,
    "robustness": FIGURES,
}
# What a result's values are, where it is neither the metric, as for the other keys with "by_", nor what the key says.
VALUES = {"by_descriptor_and_template": "mean", "bh_by_axis": "bh_likelihood_bias", "clusters": "styles"}
# All tables there can be, in the order of the page; the last two are of offensiveness without axes.
TABLES = (("cluster",), ("pair",), FIGURES, *LEVELS.values(), ("descriptor",), ("descriptor", "template"))
TABLES = tuple(dict.fromkeys(TABLES))
DIGITS = 6
DECIMALS = 9  # below are traces of rounding: probabilities are kept in steps of 10⁻¹²

NO_ROWS_ERROR = "there are no rows; fill in the table, or choose a file"
FILE_ERROR = "'{name}' cannot be read ({error}); give a CSV file in UTF-8, or a Parquet file"
FILE_TYPE_ERROR = "'{name}' is neither .csv nor .parquet; give one of these"
MISSING_COLUMN_ERROR = "the column {name} is missing; there are: {columns}"
NO_STYLE_ERROR = "there is no column of numbers; give the probabilities of each style in a column named as the style"
MISSING_ERROR = "{name} is missing in row {row}; fill it in, or leave the row out"
NUMBER_ERROR = "{name} is {value!r} in row {row}; give a number in every row"
ROW_HINT = "rows are counted from 0, empty ones left out"
TWICE_ERROR = "there are two columns named {name}; give each a name of its own"
SETTING_ERROR = "{name} cannot be read ({error}); write it as JSON"
CLUSTERS_ERROR = 'the clusters cannot be read ({error}); write them as {{"Cluster": ["Style", "Style"]}}'


class Takes(NamedTuple):
    """What a metric takes.

    Attributes:
        texts: Its columns of text.
        optional: Those of them that may be left out.
        is_per_style: Whether predictions are rows of style probabilities: one column for each style.
        settings: The other arguments of `compute`.
        numbers: Its columns of numbers, where there are no styles.
    """

    texts: tuple[str, ...]
    optional: frozenset[str]
    is_per_style: bool
    settings: dict[str, Parameter]
    numbers: tuple[str, ...] = (PREDICTIONS,)


class Table(NamedTuple):
    """A table of results."""

    headers: list[str]
    rows: list[list[Any]]


def takes(metric: "evaluate.Metric") -> Takes:
    """Reads off a metric what it takes."""
    import datasets

    parameters = {**signature(metric._compute).parameters, **signature(metric.compute).parameters}
    # Of the ways in which a metric takes its inputs, the page has the first.
    features = metric.features[0] if isinstance(metric.features, list) else metric.features
    inputs = {*features, "references", "labels"}
    if not getattr(metric, "NEEDS_CLUSTERS", True):
        inputs.add("clusters")
    numbers = tuple(name for name, feature in features.items() if getattr(feature, "dtype", None) == "float64")
    texts = tuple(name for name in features if name not in (PREDICTIONS, *numbers))
    if getattr(features[PREDICTIONS], "dtype", None) == "string":
        texts += (PREDICTIONS,)
    batch = signature(metric.add_batch).parameters
    return Takes(
        texts=texts,
        optional=frozenset(name for name in texts if name in batch and batch[name].default is None) - {PREDICTIONS},
        is_per_style=not isinstance(features[PREDICTIONS], datasets.Value),
        settings={
            name: parameter
            for name, parameter in parameters.items()
            if parameter.default is not Parameter.empty and name not in inputs
        },
        numbers=numbers,
    )


def example_rows(case: Mapping[str, Any], taken: Takes) -> pd.DataFrame:
    """A test case as the rows of the table: one column for each text and each style, the empty ones last."""
    texts = {name: case[name] for name in taken.texts if name in case}
    empty = {name: [""] * len(case[PREDICTIONS]) for name in taken.texts if name not in case}
    if taken.is_per_style:
        numbers = dict(zip(case["labels"], zip(*case[PREDICTIONS], strict=True), strict=True))
    else:
        numbers = {name: case[name] for name in taken.numbers}
    return pd.DataFrame({**texts, **numbers, **empty})


def read_file(path: str | Path, taken: Takes) -> pd.DataFrame:
    """Reads the rows of a CSV or Parquet file.

    Raises:
        ValueError: It is neither, or cannot be read.
    """
    path = Path(path)
    texts = [*taken.texts, *SINGULAR]
    try:
        if path.suffix.lower() == ".parquet":
            return pd.read_parquet(path)
        if path.suffix.lower() == ".csv":
            # "None" and "NA" are words like others; only an empty cell is a missing one.
            return pd.read_csv(
                path,
                dtype=dict.fromkeys(texts, str),
                keep_default_na=False,
                na_values=[""],
                encoding="utf-8-sig",
            )
    except (ValueError, OSError) as error:
        raise ValueError(FILE_ERROR.format(name=path.name, error=error)) from error
    raise ValueError(FILE_TYPE_ERROR.format(name=path.name))


def inputs_of(rows: pd.DataFrame, taken: Takes) -> tuple[dict[str, Any], list[str]]:
    """What `compute` is given.

    Args:
        rows: The visitor's, with a column for each input, or for each style; cells may be text.
        taken: What the metric takes.

    Returns:
        The inputs, and what to tell the visitor of how the rows were read.

    Raises:
        ValueError: There are no rows, a column is missing or there twice, or a number is none.
    """
    names = [str(name).strip() for name in rows.columns]
    names = [SINGULAR.get(name, name) if SINGULAR.get(name, name) in taken.texts else name for name in names]
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
    for name in taken.texts:
        if name not in rows and name not in taken.optional:
            raise ValueError(MISSING_COLUMN_ERROR.format(name=name, columns=", ".join(names)))
        if name not in rows or (name in taken.optional and rows[name].isna().all()):
            notes.append(f"no {name}")
        else:
            inputs[name] = _texts(name, rows[name])
    others = [name for name in names if name not in taken.texts]
    if taken.is_per_style:
        numbers = [name for name in others if name and _holds_numbers(rows[name])]
        if not numbers:
            raise ValueError(NO_STYLE_ERROR)
        inputs[PREDICTIONS] = np.stack([_numbers(name, rows[name]) for name in numbers], axis=1)
        inputs["labels"] = numbers
        notes.append(f"{len(numbers)} styles")
    else:
        numbers = list(taken.numbers)
        for name in numbers:
            if name not in rows:
                raise ValueError(MISSING_COLUMN_ERROR.format(name=name, columns=", ".join(names)))
            inputs[name] = _numbers(name, rows[name]).tolist()
    if unused := [name for name in others if name not in numbers]:
        notes.append(f"columns not used: {', '.join(unused)}")
    return inputs, notes


def settings_of(values: Mapping[str, Any], taken: Takes) -> dict[str, Any]:
    """The settings for `compute` from those of the page; empty ones keep their defaults.

    Raises:
        ValueError: A setting without a default is not JSON, or the clusters are not lists with a name each.
    """
    found: dict[str, Any] = {}
    for name, value in values.items():
        if value is None or value == "":
            continue
        if isinstance(taken.settings[name].default, frozenset):
            found[name] = [line.strip() for line in value.splitlines() if line.strip()]
        elif name == "clusters":
            found[name] = _clusters(value)
        elif taken.settings[name].default is None:
            found[name] = _from_json(name, value)
        else:
            found[name] = value
    return found


def _clusters(text: str) -> dict[str, list[str]]:
    try:
        clusters = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(CLUSTERS_ERROR.format(error=error)) from error
    if not isinstance(clusters, dict) or not all(isinstance(styles, list) for styles in clusters.values()):
        raise ValueError(CLUSTERS_ERROR.format(error="they are no lists with a name each"))
    return clusters


def _from_json(name: str, text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(SETTING_ERROR.format(name=name, error=error)) from error


def _without_empty_texts(column: pd.Series) -> pd.Series:
    if pd.api.types.is_numeric_dtype(column):
        return column
    return column.map(lambda value: None if isinstance(value, str) and not value.strip() else value).astype(object)


def _texts(name: str, column: pd.Series) -> list[str]:
    missing = np.flatnonzero(column.isna())
    if len(missing):
        raise ValueError(MISSING_ERROR.format(name=name, row=missing[0]))
    return [str(value) for value in column]


def _holds_numbers(column: pd.Series) -> bool:
    """Whether some value is a number: one that is not is then a mistake, and not a column of something else."""
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


# --- the results -----------------------------------------------------------------------------------------------------


def compute(
    metric: "evaluate.Metric", rows: pd.DataFrame, settings: Mapping[str, Any], taken: Takes
) -> tuple[list[str], dict[str, Any]]:
    """Computes the metric.

    Returns:
        What to tell the visitor, and the results.

    Raises:
        ValueError: The rows or settings are not as the metric needs them.
    """
    inputs, notes = inputs_of(rows, taken)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", UserWarning)
        results = metric.compute(**inputs, **settings_of(settings, taken))
    return [", ".join(notes), *(str(warning.message) for warning in caught)], results


def tables_of(results: Mapping[str, Any]) -> dict[tuple[str, ...], Table]:
    """The results as tables: single figures, and one table for all that is told of the same things.

    Returns:
        What the rows of a table are, such as ("axis", "descriptor") → the table. Numbers are rounded.
    """
    metric = next(iter(results))
    has_axes = results.get("by_axis") is not None
    told: list[tuple[str, Any, str]] = []
    for key, value in results.items():
        if key in BESIDE:
            told += [(of, beside, BESIDE[key]) for of, beside in (value or {}).items()]
        elif LEVELS.get(key) == FIGURES and isinstance(value, Mapping):
            told += [(name, cell, "") for name, cell in _flat({key: value}).items()]
        else:
            told.append((key, value, ""))
    cells: dict[tuple[str, ...], dict[tuple[str, ...], dict[str, Any]]] = {}
    for key, value, suffix in told:
        name = VALUES.get(key, metric if key.startswith("by_") else key) + suffix
        if value is None and key.startswith("by_"):
            continue  # there were no axes, or no labels
        if isinstance(value, Mapping):
            levels = tuple(level for level in LEVELS[key] if has_axes or level != "axis")
            name = name.removesuffix("_by_axis").replace("_", " ")  # a narrow column's heading breaks at spaces
        else:
            levels, value, name = FIGURES, {name: value}, "value"
        for names, under in _rows(value, len(levels)):
            row = cells.setdefault(levels, {}).setdefault(names, {})
            if isinstance(under, Mapping):
                row.update({f"{column}{suffix}": cell for column, cell in _flat(under).items()})
            elif under is not None:
                row[name] = under
    return {levels: _table(levels, cells[levels]) for levels in TABLES if levels in cells}


def message(results: Mapping[str, Any], notes: Sequence[str], source: str) -> str:
    """What stands above the tables: the metric's figures, what they were computed from, and warnings."""
    told = [f"From {source}: {notes[0]}.", *(f"⚠️ {note}" for note in notes[1:])]
    return "\n\n".join(html.escape(text, quote=False) for text in [f"## {headline(results)}", *told])


def headline(results: Mapping[str, Any]) -> str:
    """The figure that counts, or those of each pair, group or cluster; the largest, if they are many."""
    name, value = next(iter(results.items()))
    if name in HEADLINES:
        of = next((key for key in HEADLINES if results.get(key)), name)
        name, value = HEADLINES[of], {key: figures[HEADLINES[of]] for key, figures in (results[of] or {}).items()}
    if not isinstance(value, Mapping):
        return f"{name.replace('_', ' ')}: {_cell(value)}"
    known = sorted((key for key in value if value[key] is not None), key=lambda key: -abs(value[key]))
    shown = [f"{' '.join(key.split())} {_cell(value[key])}" for key in known[:MAX_HEADLINES]]
    more = [f"{len(value) - len(shown)} more below"] if len(value) > len(shown) else []
    return f"{name.replace('_', ' ')}: {', '.join([*shown, *more]) or '–'}"


def other_names(taken: Takes) -> str:
    """What to say of the other names that columns may have; nothing if there are none."""
    names = [f"`{other}`" for other, name in SINGULAR.items() if name in taken.texts]
    return f" Columns may also be named {', '.join(names)}, as in the dataset and in a run's files." if names else ""


def refusal(error: ValueError) -> str:
    """What stands there if nothing was computed."""
    text = str(error) + (f" ({ROW_HINT})" if re.search(r"\brow \d", str(error)) else "")
    return f"## Not computed\n\n{html.escape(text, quote=False)}"


def _rows(value: Any, depth: int) -> list[tuple[tuple[str, ...], Any]]:
    """The keys down to a depth, and what lies below."""
    if depth == 0:
        return [((), value)]
    return [((name, *names), under) for name, inner in value.items() for names, under in _rows(inner, depth - 1)]


def _flat(values: Mapping[str, Any]) -> dict[str, Any]:
    """Without levels: what lies below a key has the key's name before its own."""
    found: dict[str, Any] = {}
    for key, value in values.items():
        inner = _flat(value) if isinstance(value, Mapping) else None
        found.update({key: value} if inner is None else {f"{key} {name}": cell for name, cell in inner.items()})
    return found


def _table(levels: tuple[str, ...], rows: Mapping[tuple[str, ...], Mapping[str, Any]]) -> Table:
    columns = list(dict.fromkeys(name for row in rows.values() for name in row))
    cells = [[*names, *(_cell(row.get(name)) for name in columns)] for names, row in rows.items()]
    return Table([*levels, *columns], cells)


def _cell(value: Any) -> Any:
    if value is None or (isinstance(value, Sequence) and len(value) == 0):
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return round(float(f"{value:.{DIGITS}g}"), DECIMALS)
    if isinstance(value, Sequence) and not isinstance(value, str):
        are_bounds = len(value) == 2 and all(isinstance(bound, float) for bound in value)
        return (" to " if are_bounds else ", ").join(str(_cell(part)) for part in value)
    return value
