"""Writes a model's outputs to shards (Parquet files), and resumes the work of a killed run.

Several processes can share the work. The assignment of rows to shards depends only on the data and the settings, so a
run can resume with a different number of processes. A shard's metadata contain the digests of its run and of its
inputs. If a shard is damaged, or if a digest does not match, the shard is renamed and computed again.

The processes of a run may be on several machines. They must have the same settings and see the same folder. On a
network file system, it may take a minute until a machine sees another machine's file, because each machine caches the
contents of folders. (The NFS option `acdirmax` sets the maximum duration.)
"""

import hashlib
import json
import secrets
import socket
import sys
import time
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from accelerate.utils import broadcast_object_list, gather_object
from tqdm.auto import tqdm

from hb_dataset.whole_files import write_atomically
from hb_metrics.models.processes import process_state
from hb_metrics.run.replies import LeftOutError
from hb_metrics.run.run_folder import SHARD_RUN, run_differences, run_digest, set_aside

LATEST = 90  # the maximum number of seconds to wait for a file from another machine
_SECONDS_BETWEEN_CHECKS = 0.2


def check_same_run(run: Mapping[str, object]) -> None:
    """Raises `ValueError` if the settings in `run` differ between processes. Call it on all processes."""
    (main_host, main_run), *others = gather_object([(socket.gethostname(), dict(run))])
    for host, other in others:
        if different := run_differences(main_run, other, f"on {main_host}", f"on {host}"):
            raise ValueError(
                "the processes of this run have different settings or files:\n" + "\n".join(different) + "\nrun the "
                "same command on all machines, with the same releases of all packages and the same files"
            )


def check_same_folder(folder: Path) -> None:
    """Raises `ValueError` if a process does not see the main process's folder. Call it on all processes."""
    state = process_state()
    (name,) = broadcast_object_list([f".machines.{secrets.token_hex(8)}.tmp"])
    mark = folder / name  # if the run is killed here, the next run removes this file
    if state.is_main_process:
        mark.touch()
    seen = gather_object([(socket.gethostname(), await_files([mark]) is None)])
    if state.is_main_process:
        mark.unlink(missing_ok=True)
    for host, sees in seen:
        if not sees:
            raise ValueError(
                f"output_dir '{folder}' on {host} is not the same folder as on {seen[0][0]}; pass the full path of a "
                "folder that all machines share"
            )


def await_files(paths: Collection[Path]) -> Path | None:
    """Waits until this machine sees all files, which this or another machine has already written.

    Returns `None` or, after `LATEST` seconds, one of the files that are still not visible.
    """
    deadline = time.monotonic() + LATEST
    awaited = list(paths)
    while awaited := [path for path in awaited if not path.exists()]:
        if time.monotonic() > deadline:
            return awaited[0]
        time.sleep(_SECONDS_BETWEEN_CHECKS)
        # An NFS client asks the server for a folder's content only if the folder is listed.
        for folder in {folder for path in awaited for folder in path.parents[:3]}:
            with suppress(OSError):  # the folder itself may not be visible yet
                list(folder.iterdir())
    return None


_INPUTS = b"holistic_bias.inputs"  # the key of the inputs' digest in a shard's metadata
_LOG_SECONDS = 60  # the time between lines of progress in a log


class Shard(NamedTuple):
    rows: np.ndarray
    path: Path


# A function that takes the indices of shards and yields their columns in the same order, without the column `id`. It
# reports progress by calling its second argument with the number of finished rows (see `_progress`).
ComputeShards = Callable[[Sequence[int], Callable[..., object]], Iterator[Mapping[str, object]]]


def fill_shards(
    shards: Sequence[Shard],
    ids: Sequence[str],
    schema: pa.Schema,
    compute: ComputeShards,
    *,
    label: str,
    unit: str,
    inputs: Sequence[Any] | None = None,
) -> None:
    """Computes the shards that are not on disk yet. The processes share the work.

    Args:
        shards: The planned shards. Each row belongs to exactly one shard.
        ids: [rows] The distinct keys of the rows, which become the column `id`.
        schema: The columns of a shard.
        compute: Computes the columns of this process's shards.
        label: The title of the progress bar.
        unit: The noun for a row in the progress bar.
        inputs: [rows] The inputs of the rows. A shard is computed again if its inputs have changed. `None` means that
            the inputs depend only on the ids.

    Raises:
        FileNotFoundError: The main process does not see a shard that another process wrote.
        LeftOutError: `compute` raised this error on any process. It is raised on all of them.
    """
    state = process_state()
    run = run_digest(shards[0].path.parent) if shards and state.is_main_process else ""
    # The main process lists the missing shards before any process writes one, so that all processes use the same list.
    missing = _missing(shards, run, ids, schema, inputs) if state.is_main_process else []
    missing, run = broadcast_object_list([missing, run])  # the record may not be visible on other machines yet
    mine = missing[state.process_index :: state.num_processes]
    total = sum(len(shards[index].rows) for index in mine)
    fault: LeftOutError | None = None
    with _progress(total, label, unit, shown=state.is_main_process) as advance:
        computed = compute(mine, advance)
        try:
            for index, columns in zip(mine, computed, strict=True):
                shard = shards[index]
                table = pa.table({**columns, "id": [ids[row] for row in shard.rows]}, schema=schema)
                _write(shard.path, table.replace_schema_metadata(_marks(shard, run, ids, inputs)))
        except LeftOutError as error:  # the other processes finish their shards first
            fault = error
        finally:  # if a write fails, stop the generator, whose threads may still be computing further tables
            if isinstance(computed, Generator):
                computed.close()
    for of_process in gather_object([fault]):  # waits for all processes
        if of_process is not None:
            raise of_process
    if state.is_main_process:  # later steps read the folder, and would not notice that a shard is missing
        _await_shards(shards)


@contextmanager
def _progress(total: int, label: str, unit: str, *, shown: bool) -> Iterator[Callable[..., None]]:
    """Yields a function that takes the number of newly finished rows and, optionally, words to show beside it."""
    in_log = shown and not sys.stderr.isatty()  # a bar would fill a log with lines
    computed, last = 0, time.monotonic()
    with tqdm(total=total, unit=f" {unit}", desc=label, disable=not shown or in_log) as bar:

        def advance(rows: int, words: str = "") -> None:
            nonlocal computed, last
            computed += rows
            bar.set_postfix_str(words, refresh=False)
            bar.update(rows)
            if in_log and time.monotonic() - last > _LOG_SECONDS:
                print(f"{label}: {computed:,} of {total:,}", flush=True)
                last = time.monotonic()

        yield advance


def _missing(
    shards: Sequence[Shard], run: str, ids: Sequence[str], schema: pa.Schema, inputs: Sequence[Any] | None
) -> list[int]:
    for folder in {shard.path.parent for shard in shards}:
        folder.mkdir(parents=True, exist_ok=True)
        # A later step reads every Parquet file, so other files get other names.
        for path in sorted(set(folder.glob("*.parquet")) - {shard.path for shard in shards}):
            print(f"{path} does not belong to this run; the file is kept as {set_aside(path).name}")
    missing = []
    for index, shard in enumerate(shards):
        if fault := _fault(shard, ids, schema, _marks(shard, run, ids, inputs)):
            missing.append(index)
            if shard.path.exists():
                kept = set_aside(shard.path)
                print(f"{shard.path} {fault}; its rows are computed again, and the file is kept as {kept.name}")
    if done := len(ids) - sum(len(shards[index].rows) for index in missing):
        print(f"{done:,} of {len(ids):,} rows were already in {shards[0].path.parent}")
    return missing


def copy_into_shards(table: pa.Table, folder: Path, rows_per_shard: int) -> None:
    def compute(mine: Sequence[int], advance: Callable[..., object]) -> Iterator[Mapping[str, object]]:
        for index in mine:
            rows = table.take(pa.array(shards[index].rows))
            yield dict(zip(rows.column_names, rows.columns, strict=True))

    shards = plan_row_shards(len(table), rows_per_shard, folder)
    schema = table.schema.remove_metadata()
    fill_shards(shards, table["id"].to_pylist(), schema, compute, label="answers", unit="row")


def _await_shards(shards: Sequence[Shard]) -> None:
    if late := await_files([shard.path for shard in shards]):
        raise FileNotFoundError(
            f"'{late}', which a process of this run wrote, is not visible on {socket.gethostname()} after {LATEST} "
            "seconds; set --output_dir to a folder that all machines share, and run the same command again to resume"
        )


def read_shards(shards: Sequence[Shard], schema: pa.Schema) -> pa.Table:
    """Reads the shards, and sorts all rows by row number."""
    if not shards:
        return schema.empty_table()
    _await_shards(shards)
    table = pa.concat_tables([_read(shard.path) for shard in shards]).replace_schema_metadata(None)
    order = np.argsort(np.concatenate([shard.rows for shard in shards]), kind="stable")
    return table.take(pa.array(order))


def plan_row_shards(num_rows: int, rows_per_shard: int, folder: Path, order: np.ndarray | None = None) -> list[Shard]:
    order = np.arange(num_rows) if order is None else order
    firsts = range(0, num_rows, rows_per_shard)
    return [
        Shard(order[first : first + rows_per_shard], shard_path(folder, index, len(firsts)))
        for index, first in enumerate(firsts)
    ]


def shard_path(folder: Path, index: int, number: int) -> Path:
    return folder / f"{index:05d}-of-{number:05d}.parquet"


def _write(path: Path, table: pa.Table) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)  # a folder created on another machine may not be visible yet
    write_atomically(path, lambda scratch: pq.write_table(table, scratch, compression="zstd", write_page_checksum=True))


def _marks(shard: Shard, run: str, ids: Sequence[str], inputs: Sequence[Any] | None) -> dict[bytes, bytes]:
    rows = [[ids[row], None if inputs is None else inputs[row]] for row in shard.rows]
    digest = hashlib.sha256(json.dumps(rows, default=int).encode()).hexdigest()
    return {SHARD_RUN: run.encode(), _INPUTS: digest.encode()}


def _fault(shard: Shard, ids: Sequence[str], schema: pa.Schema, marks: Mapping[bytes, bytes]) -> str | None:
    """Returns why a shard must be computed, or `None` if the file contains it."""
    if not shard.path.exists():
        return "is missing"
    try:
        stored = _read(shard.path)
    except PermissionError:  # the file may be valid, so it must not be renamed
        raise
    except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
        return f"is damaged ({str(error).partition(chr(10))[0]})"
    if not stored.schema.equals(schema):
        return "has unexpected columns"
    stored_marks = stored.schema.metadata or {}
    faults = {
        "has unexpected rows": stored["id"].to_pylist() != [ids[row] for row in shard.rows],
        "belongs to another run": stored_marks.get(SHARD_RUN) != marks[SHARD_RUN],
        "was computed from texts that have changed since then": stored_marks.get(_INPUTS) != marks[_INPUTS],
    }
    return next((fault for fault, is_so in faults.items() if is_so), None)


def _read(path: Path) -> pa.Table:
    with pq.ParquetFile(path, page_checksum_verification=True) as file:
        return file.read()
