"""Reads what a finished run left in its folder: results, replies, style vectors, mean styles."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hb_dataset.prompts import load_table
from hb_metrics.bias_values import DescriptorKey
from hb_metrics.generation_results import Replies, said_replies
from hb_metrics.reply_checks.style_change import RunStyles
from hb_metrics.run_folder import REPLIES, RESULTS_FILE, SHARD_RUN, STYLE_MEANS_FILE, read_json, run_digest

_STYLE_PREFIX = "style: "
_STYLES_COLUMN = "style_probabilities"

NO_RESULTS_ERROR = "'{folder}' has no {file}; give the folder of a finished run"
NO_STYLES_ERROR = "'{folder}' has no style vectors; measure with --measurements generation first"
STEP_ERROR = "style vectors are read in whole slices; a step of {step} is not possible"
OTHER_RUN_ERROR = (
    "'{path}' is of another run than the one that is recorded beside it; give the command of the run again, which "
    "makes it anew and keeps this one under another name"
)
NOT_RESULTS_ERROR = "'{path}' does not hold the results of a run; give the folder of a finished run"


class StyleShards:
    """A run's style vectors, read from its shards in slices of rows; never all of them are in memory.

    Attributes:
        ids: [replies] what each is keyed by.
        shape: Replies and styles.
    """

    def __init__(self, folder: Path) -> None:
        self._files = sorted(folder.glob("*.parquet"))
        if not self._files:
            raise ValueError(NO_STYLES_ERROR.format(folder=folder))
        _check_run(self._files)
        self.ids: list[str] = []
        starts = [0]
        for file in self._files:
            self.ids += pq.read_table(file, columns=["id"])["id"].to_pylist()
            starts.append(len(self.ids))
        self._starts = starts
        self._last: tuple[int, np.ndarray] | None = None
        self.shape = (len(self.ids), pq.read_schema(self._files[0]).field(_STYLES_COLUMN).type.list_size)

    def __len__(self) -> int:
        """How many replies."""
        return len(self.ids)

    def __getitem__(self, rows: slice) -> np.ndarray:
        """[rows, styles] the style vectors of these replies."""
        first, last, step = rows.indices(len(self.ids))
        if step != 1:
            raise ValueError(STEP_ERROR.format(step=step))
        parts = [
            self._shard(index)[max(first - start, 0) : last - start]
            for index, (start, end) in enumerate(pairwise(self._starts))
            if start < last and first < end
        ]
        return np.concatenate(parts) if parts else np.empty((0, self.shape[1]), np.float32)

    def _shard(self, index: int) -> np.ndarray:
        if self._last is None or self._last[0] != index:
            column = pq.read_table(self._files[index], columns=[_STYLES_COLUMN])[_STYLES_COLUMN].combine_chunks()
            self._last = index, column.flatten().to_numpy(zero_copy_only=False).reshape(-1, self.shape[1])
        return self._last[1]


class Run(NamedTuple):
    """A finished run.

    Attributes:
        folder: Where it is.
        results: The content of its results.json.
    """

    folder: Path
    results: dict[str, Any]


def read_run(folder: Path) -> Run:
    """Reads the results of a finished run.

    Raises:
        ValueError: There are none, or they are something else.
    """
    path = folder / RESULTS_FILE
    if not path.is_file():
        raise ValueError(NO_RESULTS_ERROR.format(folder=folder, file=RESULTS_FILE))
    results = read_json(path)
    if not isinstance(results, dict) or not isinstance(results.get("run"), dict):
        raise ValueError(NOT_RESULTS_ERROR.format(path=path))
    return Run(folder, results)


def read_reply_table(run: Run) -> pa.Table | None:
    """A run's replies: the columns of `replies.REPLY_SCHEMA`, with `axis`, `descriptor`, … of their prompts.

    Returns:
        The table in the order of the shards; `None`: they are not there, or not to known prompts.
    """
    files = sorted((run.folder / REPLIES).glob("*.parquet"))
    if not files:
        return None
    _check_run(files)
    replies = pa.concat_tables([pq.read_table(file) for file in files])
    settings = run.results["run"]["settings"]
    prompts = load_table(settings["dataset_config"], settings["vocabulary_dir"])
    places = pc.index_in(replies["id"], prompts["id"])
    if places.null_count:
        return None
    about = prompts.drop_columns(["id", "text"]).take(places)
    return pa.table({**_columns(replies), **_columns(about)})


def read_replies(run: Run) -> Replies | None:
    """A run's replies with what their prompts are about; `None`: they are not there, or not to known prompts."""
    table = read_reply_table(run)
    return None if table is None else said_replies(table, table)


def read_styles(run: Run) -> RunStyles | None:
    """A run's mean style of each descriptor; `None`: it is not there."""
    path = run.folder / STYLE_MEANS_FILE
    if not path.is_file():
        return None
    table = pq.read_table(path)
    columns = [name for name in table.column_names if name.startswith(_STYLE_PREFIX)]
    pairs = zip(table["axis"].to_pylist(), table["descriptor"].to_pylist(), strict=True)
    return RunStyles(
        [DescriptorKey(axis, descriptor) for axis, descriptor in pairs],
        np.stack([table[name].to_numpy() for name in columns], axis=1),
        [name.removeprefix(_STYLE_PREFIX) for name in columns],
    )


def _check_run(files: Sequence[Path]) -> None:
    """Refuses shards that say that they are of another run; those of earlier releases say nothing."""
    run = run_digest(files[0].parent).encode()
    for path in files:
        if (pq.read_schema(path).metadata or {}).get(SHARD_RUN, run) != run:
            raise ValueError(OTHER_RUN_ERROR.format(path=path))


def _columns(table: pa.Table) -> dict[str, pa.ChunkedArray]:
    return dict(zip(table.column_names, table.columns, strict=True))
