from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hb_metrics.run.replies import Replies, later_replies, nonempty_replies, with_prompts
from hb_metrics.run.run_folder import (
    PERPLEXITIES,
    PROMPTS_FILE,
    REPLIES,
    SHARD_RUN,
    STYLE_MEANS_FILE,
    run_digest,
    turn_folder,
)
from hb_metrics.run.schema import PROBABILITIES, TYPE_OF, as_written, rows_of
from hb_metrics.stats.bias_values import DescriptorKey, RunStyles

_STYLE_PREFIX = "style: "
_PANDAS_INDEX = "__index_level_"  # pandas writes the index of a frame as columns with such names


class Vectors(NamedTuple):
    """The probabilities that a classifier, such as the style classifier, assigns to replies: [replies, labels]."""

    ids: list[str]
    values: np.ndarray


def read_vectors(folder: Path) -> Vectors:
    blocks: list[np.ndarray] = []
    ids: list[str] = []
    for file in _shards(folder):
        table = _read_table(file, needed=("id", PROBABILITIES))
        column = table[PROBABILITIES].combine_chunks()
        size, values = column.type.list_size, column.flatten().to_numpy(zero_copy_only=False)
        is_valid = size and not column.null_count and ((values >= 0) & (values <= 1)).all()
        if not is_valid or (blocks and size != blocks[0].shape[1]):
            raise ValueError(
                f"'{file}' was changed or damaged: all rows of the column '{PROBABILITIES}' must have the same "
                "number of probabilities from 0 to 1; measure again in a new folder"
            )
        blocks.append(values.reshape(-1, size))
        ids += table["id"].to_pylist()
    if not ids:
        raise ValueError(f"'{folder}' has no style vectors; run measure with --measurements generation first")
    return Vectors(ids, np.concatenate(blocks))


def read_prompts(folder: Path, more: Sequence[str] = ()) -> pa.Table:
    columns = ("id", "text", "axis", "bucket", "descriptor", "noun", "template", *more)
    return stored_table(folder / PROMPTS_FILE, columns)


PAIRS_REASON = "pairs of terms with a term in common are not independent"


def has_pairs_of_terms(prompts: pa.Table) -> bool:
    """Returns whether a descriptor combines two terms. A term occurs in several pairs, so pairs are not independent."""
    return "first_descriptor" in prompts.column_names


def stored_replies(folder: Path, prompts: pa.Table | None = None, more: Sequence[str] = ()) -> pa.Table:
    """Reads a run's replies, which must have the columns `more`. Raises a ValueError if there are none.

    The table has the columns of `schema.REPLY_SCHEMA` and all others of the prompts. The rows are in the order of the
    prompts, which is also the order of the style vectors.
    """
    replies = stored_shards(folder / REPLIES, needed=("id", "prompt_id", "text", "question", "reply", *more))
    return with_prompts(replies, read_prompts(folder) if prompts is None else prompts)


def read_reply_table(folder: Path, prompts: pa.Table | None = None) -> pa.Table | None:
    return stored_replies(folder, prompts) if any((folder / REPLIES).glob("*.parquet")) else None


def read_scores(folder: Path) -> pa.Table | None:
    """Reads a run's perplexities in the order of its prompts, or returns `None` if it has none."""
    scores = read_shards(folder / PERPLEXITIES, needed=("id", "perplexity"))
    if scores is None:
        return None
    return scores.take(pc.sort_indices(pc.index_in(scores["id"], read_prompts(folder)["id"])))


def read_stored_replies(folder: Path, prompts: pa.Table | None = None) -> Replies | None:
    table = read_reply_table(folder, prompts)
    return None if table is None else nonempty_replies(table)


def read_turns(folder: Path, prompts: pa.Table | None = None) -> list[Replies]:
    first = read_stored_replies(folder, prompts)
    turns = [] if first is None else [first]
    while first is not None and (table := read_shards(turn_folder(folder, len(turns) + 1) / REPLIES)) is not None:
        turns.append(later_replies(first, table))
    return turns


def stored_shards(folder: Path, columns: Sequence[str] | None = None, needed: Sequence[str] = ()) -> pa.Table:
    """Reads shards that a run of `measure` has written. Raises a ValueError if there are none."""
    table = read_shards(folder, columns, needed)
    if table is None:
        raise ValueError(f"'{folder}' has no tables; to restore them, run the same `measure` command again")
    return table


def stored_table(path: Path, needed: Sequence[str] = ()) -> pa.Table:
    """Reads a table that a run of `measure` has written.

    Raises a ValueError if it does not exist, or lacks a column of `needed`.
    """
    if not path.is_file():
        raise ValueError(f"'{path}' does not exist; to restore it, run the same `measure` command again")
    _check_run([path])
    return _read_table(path, needed=needed)


def read_shards(folder: Path, columns: Sequence[str] | None = None, needed: Sequence[str] = ()) -> pa.Table | None:
    """Reads all columns of shards, or some, or returns `None` if there are none. Columns in `needed` must exist."""
    files = _shards(folder)
    tables = [_read_table(file, columns, needed) for file in files]
    try:
        table = pa.concat_tables(tables, promote_options="default") if tables else None
    except pa.ArrowException as error:
        raise ValueError(
            f"the files in '{folder}' have different columns ({error}); measure again in a new folder"
        ) from error
    if table is not None and not len(table):
        raise ValueError(f"'{folder}' has no rows, so it was changed or damaged; measure again in a new folder")
    return table


def read_styles(folder: Path) -> RunStyles | None:
    table = read_run_table(folder / STYLE_MEANS_FILE, ("axis", "descriptor"))
    if table is None:
        return None
    columns = [name for name in table.column_names if name.startswith(_STYLE_PREFIX)]
    return RunStyles(
        rows_of(table, DescriptorKey),
        np.stack([table[name].to_numpy() for name in columns], axis=1),
        [name.removeprefix(_STYLE_PREFIX) for name in columns],
    )


def read_run_table(path: Path, needed: Sequence[str] = ()) -> pa.Table | None:
    return stored_table(path, needed) if path.is_file() else None


def _shards(folder: Path) -> list[Path]:
    files = sorted(folder.glob("*.parquet"))
    for index, file in enumerate(files):
        if file.name != f"{index:05d}-of-{len(files):05d}.parquet":
            raise ValueError(
                f"'{folder}' is incomplete, or contains files that are not part of the run ({len(files)} files, "
                f"including {file.name}); copy the run's folder again, or run the same command again to complete it"
            )
    if files:
        _check_run(files)
    return files


def _check_run(files: Sequence[Path]) -> None:
    run = run_digest(files[0].parent).encode()
    for path in files:
        try:
            metadata = pq.read_schema(path).metadata or {}
        except pa.ArrowInvalid:
            continue  # the file is damaged, which `_read_table` reports
        if metadata.get(SHARD_RUN, run) != run:
            raise ValueError(
                f"'{path}' does not belong to the run that run.json describes; run the same command again, which "
                "renames this file and writes a new one"
            )


def _read_table(path: Path, columns: Sequence[str] | None = None, needed: Sequence[str] = ()) -> pa.Table:
    try:
        known = pq.read_schema(path).names
        for name in columns or needed:
            if name not in known:
                raise ValueError(
                    f"'{path}' has no column '{name}', so another version or program wrote it; measure again in a "
                    "new folder"
                )
        table = pq.read_table(path, columns=None if columns is None else list(columns), page_checksum_verification=True)
    except PermissionError:  # the content may be valid
        raise
    except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
        reason = str(error).partition("\n")[0]
        raise ValueError(f"'{path}' is damaged ({reason}); to restore it, run the same command again") from error
    table = table.replace_schema_metadata(None)  # pandas would restore its index from it
    table = table.drop_columns([name for name in table.column_names if name.startswith(_PANDAS_INDEX)])
    for index, name in enumerate(table.column_names):
        column = as_written(name, table[name])
        if column is not None:
            table = table.set_column(index, name, column)
        elif name in (columns or needed):
            raise ValueError(
                f"'{path}' has the column '{name}' with the type {table[name].type}, whose values cannot be converted "
                f"to {TYPE_OF.get(name, 'lists of the same length')} without loss, so another version or program wrote "
                "it; measure again in a new folder"
            )
    for name in table.column_names:
        numbers = pc.list_flatten(table[name]) if pa.types.is_fixed_size_list(table[name].type) else table[name]
        if pa.types.is_floating(numbers.type) and not pc.all(pc.is_finite(numbers), min_count=0).as_py():
            value = numbers.filter(pc.invert(pc.is_finite(numbers)))[0].as_py()
            raise ValueError(
                f"column '{name}' of '{path}' contains {value}, a value that no run writes, so the file was changed or "
                "damaged; measure again in a new folder"
            )
    return table
