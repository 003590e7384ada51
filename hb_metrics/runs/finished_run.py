"""Reads the files of a finished run: results, replies, style vectors, mean styles."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hb_metrics.reply_checks.style_change import RunStyles
from hb_metrics.runs.replies import Replies, nonempty_replies, prompt_ids
from hb_metrics.runs.run_folder import (
    PROMPTS_FILE,
    REFUSALS_FILE,
    REPLIES,
    RESULTS_FILE,
    SHARD_RUN,
    STYLE_MEANS_FILE,
    check_layout,
    read_json,
    run_digest,
)
from hb_metrics.stats.bias_values import DescriptorKey

_STYLE_PREFIX = "style: "
_STYLES_COLUMN = "probabilities"

NO_RESULTS_ERROR = "'{folder}' has no {file}; give the folder of a finished run"
OTHER_PROMPTS_ERROR = (
    "{number:,} of the replies in '{folder}' are to none of its prompts; measure again in a new folder"
)
TWICE_ERROR = (
    "'{folder}' has the same replies in several files, of which some are not the run's; give the command of the run "
    "again, which moves those aside"
)
OTHER_RUN_ERROR = (
    "'{path}' is of another run than the one that is recorded beside it; give the command of the run again, which "
    "writes it again and keeps this one under another name"
)
DAMAGED_ERROR = "'{path}' is damaged ({error}); give the command of the run again, which writes it again"
NOT_PROBABILITIES_ERROR = (
    "'{path}' lacks probabilities from 0 to 1, as many in each row and file, in column '{column}': it was changed or "
    "damaged; measure again in a new folder"
)


class StyleShards:
    """A run's style vectors, read from its shards in slices of rows; never all of them are in memory.

    Attributes:
        ids: [replies] ids of the prompts.
        shape: Number of replies and number of styles.
    """

    def __init__(self, folder: Path) -> None:
        self._files = sorted(folder.glob("*.parquet"))
        if not self._files:
            raise ValueError(f"'{folder}' has no style vectors; measure with --measurements generation first")
        _check_run(self._files)
        self.ids: list[str] = []
        starts = [0]
        for file in self._files:
            self.ids += _read_table(file, ["id"])["id"].to_pylist()
            starts.append(len(self.ids))
        if len(set(self.ids)) < len(self.ids):
            raise ValueError(TWICE_ERROR.format(folder=folder))
        self._starts = starts
        self._last: tuple[int, np.ndarray] | None = None
        widths = [_list_size(file) for file in self._files]
        for file, width in zip(self._files, widths, strict=True):
            if width is None or width != widths[0]:
                raise ValueError(NOT_PROBABILITIES_ERROR.format(path=file, column=_STYLES_COLUMN))
        self.shape = (len(self.ids), widths[0] or 0)

    def __len__(self) -> int:
        """How many replies."""
        return len(self.ids)

    def __getitem__(self, rows: slice) -> np.ndarray:
        """[rows, styles] the style vectors of these replies."""
        first, last, step = rows.indices(len(self.ids))
        if step != 1:
            raise ValueError(f"style vectors are read in slices of step 1, not {step}")
        parts = [
            self._shard(index)[max(first - start, 0) : last - start]
            for index, (start, end) in enumerate(pairwise(self._starts))
            if start < last and first < end
        ]
        return np.concatenate(parts) if parts else np.empty((0, self.shape[1]), np.float32)

    def _shard(self, index: int) -> np.ndarray:
        if self._last is None or self._last[0] != index:
            column = _read_table(self._files[index], [_STYLES_COLUMN])[_STYLES_COLUMN].combine_chunks()
            values = column.flatten().to_numpy(zero_copy_only=False)
            if column.null_count or not ((values >= 0) & (values <= 1)).all():
                raise ValueError(NOT_PROBABILITIES_ERROR.format(path=self._files[index], column=_STYLES_COLUMN))
            self._last = index, values.reshape(-1, self.shape[1])
        return self._last[1]


class Run(NamedTuple):
    """A finished run.

    Attributes:
        folder: Its folder.
        results: The content of its results.json.
    """

    folder: Path
    results: dict[str, Any]


def read_run(folder: Path) -> Run:
    """Reads the results of a finished run.

    Raises:
        ValueError: There are none, they are not the results of a run, or the run has another layout.
    """
    path = folder / RESULTS_FILE
    if not path.is_file():
        raise ValueError(NO_RESULTS_ERROR.format(folder=folder, file=RESULTS_FILE))
    results = read_json(path)
    if not isinstance(results, dict) or "run" not in results or not all(map(_is_object, results.values())):
        raise ValueError(f"'{path}' does not hold the results of a run; give the folder of a finished run")
    check_layout(folder, results["run"])
    return Run(folder, results)


def read_prompts(folder: Path) -> pa.Table:
    """The prompts that a run measured, with `descriptor_plural`.

    Raises:
        ValueError: The file does not exist, or is of another run.
    """
    path = folder / PROMPTS_FILE
    if not path.is_file():
        raise ValueError(f"'{folder}' has no {PROMPTS_FILE}; give the folder of a run")
    _check_run([path])
    return _read_table(path)


def read_reply_table(folder: Path, prompts: pa.Table | None = None) -> pa.Table | None:
    """A run's replies: the columns of `requests.REPLY_SCHEMA`, with `axis`, `descriptor`, … of their prompts.

    Args:
        folder: The run folder.
        prompts: Its prompts; `None`: those in the folder.

    Returns:
        The table in the order of the prompts, which is that of the style vectors; `None`: there are none.

    Raises:
        ValueError: They are of another run, or some are not replies to its prompts.
    """
    files = sorted((folder / REPLIES).glob("*.parquet"))
    if not files:
        return None
    _check_run(files)
    replies = pa.concat_tables([_read_table(file) for file in files])
    if pc.count_distinct(replies["id"]).as_py() < len(replies):
        raise ValueError(TWICE_ERROR.format(folder=folder / REPLIES))
    prompts = read_prompts(folder) if prompts is None else prompts
    rows = pc.index_in(prompt_ids(replies["id"]), prompts["id"])
    if rows.null_count:
        raise ValueError(OTHER_PROMPTS_ERROR.format(folder=folder, number=rows.null_count))
    order = pc.sort_indices(rows)  # shards have them by length
    about = prompts.drop_columns(["id", "text"]).take(rows.take(order))
    return pa.table({**_columns(replies.take(order)), **_columns(about)})


def read_stored_replies(folder: Path, prompts: pa.Table | None = None) -> Replies | None:
    """A run's replies that are not empty, with what their prompts are about; as `read_reply_table`."""
    table = read_reply_table(folder, prompts)
    return None if table is None else nonempty_replies(table, table)


def read_shards(run: Run, subfolder: str, columns: Sequence[str]) -> pa.Table | None:
    """Columns of a measurement's shards, in the order of the shards; `None`: there are none.

    Raises:
        ValueError: They are of another run.
    """
    files = sorted((run.folder / subfolder).glob("*.parquet"))
    if not files:
        return None
    _check_run(files)
    return pa.concat_tables([_read_table(file, columns) for file in files])


def read_refusals(run: Run) -> pa.Table:
    """Whether each of a run's replies is a refusal and a disclaimer: `id`, `refusal`, `disclaimer`, in their order.

    Raises:
        ValueError: The file does not exist, or is of another run.
    """
    path = run.folder / REFUSALS_FILE
    if not path.is_file():
        raise ValueError(
            f"'{run.folder}' has no {REFUSALS_FILE}, being of an earlier release or without replies; "
            "measure again in a new folder"
        )
    _check_run([path])
    return _read_table(path)


def read_styles(run: Run) -> RunStyles | None:
    """A run's mean style of each descriptor; `None`: the run has none.

    Raises:
        ValueError: The file is of another run.
    """
    path = run.folder / STYLE_MEANS_FILE
    if not path.is_file():
        return None
    _check_run([path])
    return read_style_means(path)


def read_style_means(path: Path) -> RunStyles:
    """The mean style of each descriptor, from a file of a run or a copy of it.

    Raises:
        ValueError: It is not such a file.
    """
    table = _read_table(path)
    columns = [name for name in table.column_names if name.startswith(_STYLE_PREFIX)]
    if not columns or not {"axis", "descriptor"} <= set(table.column_names):
        raise ValueError(
            f"'{path}' lacks the columns axis, descriptor and '{_STYLE_PREFIX}…' of mean styles: it was "
            "changed or damaged; measure again in a new folder"
        )
    pairs = zip(table["axis"].to_pylist(), table["descriptor"].to_pylist(), strict=True)
    return RunStyles(
        [DescriptorKey(axis, descriptor) for axis, descriptor in pairs],
        np.stack([table[name].to_numpy() for name in columns], axis=1),
        [name.removeprefix(_STYLE_PREFIX) for name in columns],
    )


def recorded_run(path: Path) -> str | None:
    """The digest of the run that a Parquet file is of; `None`: not recorded."""
    mark = (pq.read_schema(path).metadata or {}).get(SHARD_RUN)
    return None if mark is None else mark.decode()


def _check_run(files: Sequence[Path]) -> None:
    """Raises a ValueError if a file is damaged or its metadata name another run; one that names none is accepted."""
    run = run_digest(files[0].parent).encode()
    for path in files:
        try:
            metadata = pq.read_schema(path).metadata or {}
        except pa.ArrowInvalid as error:
            raise ValueError(DAMAGED_ERROR.format(path=path, error=error)) from error
        if metadata.get(SHARD_RUN, run) != run:
            raise ValueError(OTHER_RUN_ERROR.format(path=path))


def _read_table(path: Path, columns: Sequence[str] | None = None) -> pa.Table:
    """Reads a Parquet file, by its checksums where it has any.

    Raises:
        ValueError: It is damaged, or a number in it is NaN or infinite; the message has its path.
    """
    try:
        table = pq.read_table(path, columns=None if columns is None else list(columns), page_checksum_verification=True)
    except PermissionError:  # nothing is known of what is in it
        raise
    except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
        raise ValueError(DAMAGED_ERROR.format(path=path, error=str(error).partition("\n")[0])) from error
    for name in table.column_names:
        numbers = pc.list_flatten(table[name]) if pa.types.is_fixed_size_list(table[name].type) else table[name]
        if pa.types.is_floating(numbers.type) and not pc.all(pc.is_finite(numbers), min_count=0).as_py():
            value = numbers.filter(pc.invert(pc.is_finite(numbers)))[0].as_py()
            raise ValueError(
                f"'{path}' has {value} in column '{name}', which no run writes: it was changed or damaged; "
                "measure again in a new folder"
            )
    return table


def _list_size(path: Path) -> int | None:
    """How many probabilities each row has; `None`: it has no such column."""
    schema = pq.read_schema(path)
    index = schema.get_field_index(_STYLES_COLUMN)
    return None if index < 0 else getattr(schema.field(index).type, "list_size", None)


def _is_object(content: Any) -> bool:
    """Whether it is an object of JSON, as the record of a run and the results of each measurement are."""
    return isinstance(content, dict)


def _columns(table: pa.Table) -> dict[str, pa.ChunkedArray]:
    return dict(zip(table.column_names, table.columns, strict=True))
