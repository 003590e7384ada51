from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hb_metrics.run.replies import (
    Replies,
    are_comparable,
    chosen_replies,
    later_replies,
    nonempty_replies,
    with_prompts,
)
from hb_metrics.run.run_folder import (
    OWN_PROMPTS_FILE,
    PERPLEXITIES,
    PROMPTS_FILE,
    REPLIES,
    RUN_FILE,
    SHARD_RUN,
    record_path,
    run_digest,
    turn_folder,
)
from hb_metrics.run.schema import PROBABILITIES, REPLY_SCHEMA, TYPE_OF, as_written, by_id

_PANDAS_INDEX = "__index_level_"  # pandas writes the index of a frame as columns with such names

PAIRS_REASON = "pairs of terms with a term in common are not independent"


class MissingTableError(ValueError):
    """A run's folder lacks a table, as a copy that contains only the results does."""


class Vectors(NamedTuple):
    """The probabilities that a classifier, such as the style classifier, assigns to replies: [replies, labels]."""

    ids: list[str]
    values: np.ndarray

    def of(self, ids: Sequence[str]) -> np.ndarray:
        """Returns the probabilities of some replies, in the order of `ids`."""
        row_of = {identifier: row for row, identifier in enumerate(self.ids)}
        return self.values[[row_of[identifier] for identifier in ids]]


class Tables:
    """The tables in a run's folder. All code that uses a run's tables reads them here.

    A table is a file, such as "prompts.parquet", or a folder of shards, such as "replies".

    Args:
        folder: The run's folder. Its files are read when a method needs them.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def has(self, name: str) -> bool:
        path = self.folder / name
        return path.is_file() or any(path.glob("*.parquet"))

    def read(self, name: str, needed: Sequence[str] = (), *, only_needed: bool = False) -> pa.Table:
        """Reads all columns of a table, or only those of `needed`.

        Raises:
            MissingTableError: The table does not exist.
            ValueError: The table is damaged, is part of another run, or lacks a column of `needed`.
        """
        table = self.read_if_any(name, needed, only_needed=only_needed)
        if table is None:
            raise MissingTableError(
                f"'{self.folder / name}' does not exist; to restore it, run the same `measure` command again"
            )
        return table

    def read_if_any(self, name: str, needed: Sequence[str] = (), *, only_needed: bool = False) -> pa.Table | None:
        path = self.folder / name
        files = [path] if path.is_file() else _shards(path)
        if not files:
            return None
        _check_run(files)
        tables = [_read_table(file, needed, only_needed=only_needed) for file in files]
        try:
            table = pa.concat_tables(tables, promote_options="default")
        except pa.ArrowException as error:
            raise ValueError(
                f"the files in '{path}' have different columns ({error}); measure again in a new folder"
            ) from error
        if path.is_dir() and not len(table):
            raise ValueError(f"'{path}' has no rows, so it was changed or damaged; measure again in a new folder")
        return table

    def vectors_of(self, name: str, ids: Sequence[str]) -> np.ndarray:
        """Reads the probabilities of these texts. Raises a ValueError if the table belongs to other texts."""
        of_texts, values = self.vectors(name)
        if of_texts != ids:
            raise ValueError(f"'{self.folder / name}' belongs to other texts; measure again in a new folder")
        return values

    def vectors(self, name: str) -> Vectors:
        """Reads the probabilities that a classifier assigned to texts."""
        table = self.read(name, ("id", PROBABILITIES))
        column = table[PROBABILITIES].combine_chunks()
        if not pa.types.is_fixed_size_list(column.type):
            raise ValueError(
                f"the files in '{self.folder / name}' have different numbers of '{PROBABILITIES}'; measure again in a "
                "new folder"
            )
        values = column.flatten().to_numpy(zero_copy_only=False)
        return Vectors(table["id"].to_pylist(), values.reshape(-1, column.type.list_size))

    def num_truncated(self, name: str) -> int:
        """Returns the number of texts that were cut for a classifier. Does not read the probabilities."""
        return sum(self.read(name, ("truncated",), only_needed=True)["truncated"].to_pylist())

    def inside(self, name: str) -> "Tables":
        """Returns the tables in a subfolder, such as that of a measurement."""
        return Tables(self.folder / name)

    def turn(self, turn: int) -> "Tables":
        """Returns the tables of a turn of conversations, counted from 1."""
        return Tables(turn_folder(self.folder, turn))

    def prompts(self, *more: str) -> pa.Table:
        """Reads the run's prompts, which must have the columns `more`."""
        columns = ("id", "text", "axis", "bucket", "descriptor", "noun", "template", *more)
        return self.read(PROMPTS_FILE, columns)

    def reply_table(self, *more: str) -> pa.Table:
        """Reads the replies. They or their prompts must have the columns `more`.

        Raises `MissingTableError` if there are no replies.

        The table has the columns of `schema.REPLY_SCHEMA` and all others of the prompts. The rows are in the order of
        the prompts, which is also the order of the style vectors.
        """
        if not self.has(REPLIES):
            raise MissingTableError(
                f"'{self.folder}' has no replies; pass the folder of a run with --measurements generation, or restore "
                "them by running its `measure` command again"
            )
        of_replies = [name for name in more if name in REPLY_SCHEMA.names]
        replies = self.read(REPLIES, ("id", "prompt_id", "text", "question", "reply", *of_replies))
        return with_prompts(replies, self.prompts(*(name for name in more if name not in of_replies)))

    def replies(self) -> Replies:
        """Reads the non-empty replies. Raises `MissingTableError` if there are none."""
        return nonempty_replies(self.reply_table())

    def styled_replies(self, table: pa.Table) -> Replies:
        """Selects the non-empty replies of `reply_table` whose style counts.

        If only some of the users' own prompts ask for a choice or a number, replies to these do not count, because they
        state decisions in few words.
        """
        replies = nonempty_replies(table)
        if "own_id" not in table.column_names:
            return replies
        outcomes = by_id(self.read(OWN_PROMPTS_FILE, ("id", "outcome")), "outcome")
        is_open = {row: outcomes[own_id] in (None, "text") for row, own_id in by_id(table, "own_id").items()}
        if not any(is_open.values()):
            return replies
        return chosen_replies(replies, np.array([is_open[identifier] for identifier in replies.ids], bool))

    def turns(self) -> list[Replies]:
        """Reads the non-empty replies of each turn that can be measured, all in the order of the first turn."""
        turns = [first] if self.has(REPLIES) and (first := self.replies()).ids else []
        while turns and (later := self.turn(len(turns) + 1)).has(REPLIES):
            replies = later_replies(turns[0], later.read(REPLIES))
            if not are_comparable(replies):
                break
            turns.append(replies)
        return turns

    def scores(self) -> pa.Table:
        """Reads the perplexities in the order of the prompts. Raises `MissingTableError` if there are none."""
        scores = self.read(PERPLEXITIES, ("id", "perplexity"))
        return scores.take(pc.sort_indices(pc.index_in(scores["id"], self.prompts()["id"])))


def has_pairs_of_terms(prompts: pa.Table) -> bool:
    """Returns whether a descriptor combines two terms. A term occurs in several pairs, so pairs are not independent."""
    return "first_descriptor" in prompts.column_names


def _shards(folder: Path) -> list[Path]:
    files = sorted(folder.glob("*.parquet"))
    for index, file in enumerate(files):
        if file.name != f"{index:05d}-of-{len(files):05d}.parquet":
            raise ValueError(
                f"'{folder}' is incomplete, or contains files that are not part of the run ({len(files)} files, "
                f"including {file.name}); copy the run's folder again, or run the same `measure` command again"
            )
    return files


def _check_run(files: Sequence[Path]) -> None:
    run = run_digest(files[0].parent).encode()
    for path in files:
        try:
            metadata = pq.read_schema(path).metadata or {}
        except (OSError, pa.ArrowException, UnicodeDecodeError):
            continue  # `_read_table` reports the fault
        if metadata.get(SHARD_RUN, run) != run:
            if record_path(path.parent) is None:
                raise ValueError(f"the run of '{path}' has no {RUN_FILE}; copy the whole folder of the run again")
            raise ValueError(
                f"'{path}' does not belong to the run that run.json describes; run the same `measure` command "
                "again, which renames this file and writes a new one"
            )


def _read_table(path: Path, needed: Sequence[str], *, only_needed: bool) -> pa.Table:
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            for name in needed:
                if name not in file.schema_arrow.names:
                    raise ValueError(
                        f"'{path}' has no column '{name}', so another version or program wrote it; measure again in a "
                        "new folder"
                    )
            table = file.read(columns=list(needed) if only_needed else None)
    except PermissionError:  # the content may be valid
        raise
    except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
        reason = str(error).partition("\n")[0]
        raise ValueError(
            f"'{path}' is damaged ({reason}); to restore it, run the same `measure` command again"
        ) from error
    table = table.replace_schema_metadata(None)  # pandas would restore its index from it
    table = table.drop_columns([name for name in table.column_names if name.startswith(_PANDAS_INDEX)])
    for index, name in enumerate(table.column_names):
        column = as_written(name, table[name])
        if column is not None:
            table = table.set_column(index, name, column)
        elif name in needed:
            raise ValueError(
                f"'{path}' has the column '{name}' with the type {table[name].type}, whose values cannot be converted "
                f"to {TYPE_OF.get(name, 'lists of the same length')} without loss, so another version or program wrote "
                "it; measure again in a new folder"
            )
    if PROBABILITIES in needed:
        rows = table[PROBABILITIES]
        values = pc.list_flatten(rows).to_numpy()
        if rows.null_count or not ((values >= 0) & (values <= 1)).all():
            raise ValueError(
                f"'{path}' was changed or damaged: the column '{PROBABILITIES}' lacks a value, or contains a "
                "number outside the range from 0 to 1; measure again in a new folder"
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
