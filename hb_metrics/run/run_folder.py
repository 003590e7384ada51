"""Creates and locks the folder of a run, and reads and writes its files.

The file run.json is the run's record: all settings on which the results depend.
"""

import errno
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from filelock import FileLock, Timeout

from hb_dataset.table_files import parse_json
from hb_dataset.whole_files import remove_leftovers, write_atomically, write_text

RUN_FILE = "run.json"
RESULTS_FILE = "results.json"
REPORT_FILE = "report.html"
SECONDS_FILE = "seconds.json"  # how long each measurement took, over all starts of the run
LOCK_FILE = ".lock"  # hidden, because it is not part of the results
PROMPTS_FILE = "prompts.parquet"
OWN_PROMPTS_FILE = "own_prompts.parquet"  # the rows of --prompts
BIAS_VALUES_FILE = "bias_values.parquet"
REFUSALS_FILE = "refusals.parquet"
PEOPLE_FILE = "people.parquet"  # the terms for which identity leakage is measured
MENTIONS_FILE = "mentions.parquet"  # the terms that replies mention although the prompt's term is masked
FREQUENCIES_FILE = "frequencies.parquet"
COSTS_FILE = "judge_costs.parquet"  # a served judge's answers and tokens
LEAKAGE = "leakage"  # contains a table of leakage per classifier
REPLIES, STYLES = "replies", "style_probabilities"  # subfolders of shards that several measurements read
HIDDEN_STYLES = "hidden_style_probabilities"  # shards: the styles of replies in which all terms are masked
PERPLEXITIES, DIALOGUE_FOLDER = "perplexities", "dialogue"  # shards of one measurement
OFFENSIVE_PROMPTS, OFFENSIVE_REPLIES = "offensiveness/prompts", "offensiveness/replies"
TURNS_FOLDER = "turns"  # contains a folder for each later turn of conversations
JUDGE_FOLDER = "judge"  # contains a folder for each rubric
LAYOUT = 3  # the version of the folder's layout: since version 3, all results are computed from tables
SHARD_RUN = b"holistic_bias.run"  # the key of the run's digest in the metadata of a Parquet file
# The packages whose releases may change a result.
VERSIONED = ("holistic-bias", "torch", "transformers", "tokenizers", "numpy", "scipy", "scikit-learn")

_NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP)


def turn_folder(folder: Path, turn: int) -> Path:
    return folder if turn == 1 else folder / TURNS_FOLDER / str(turn)


def write_json(path: Path, content: Any) -> None:
    """Writes indented JSON. Raises `ValueError` for NaN and infinity."""
    write_text(path, json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def read_json(path: Path) -> dict[str, Any]:
    """Reads an object. Raises `ValueError` if the file does not contain one."""
    try:
        content = parse_json(path.read_text(encoding="utf-8"))
        if not isinstance(content, dict):
            raise ValueError("it contains no JSON object")
        return content
    except ValueError as error:
        raise ValueError(
            f"'{path}' cannot be read ({error}); move it away, or measure again in a new folder"
        ) from error


def read_seconds(folder: Path) -> dict[str, float]:
    path = folder / SECONDS_FILE
    seconds: dict[str, float] = read_json(path) if path.is_file() else {}
    return seconds


def write_table(path: Path, table: pa.Table) -> None:
    marked = table.replace_schema_metadata({SHARD_RUN: run_digest(path.parent).encode()})
    write_atomically(
        path, lambda scratch: pq.write_table(marked, scratch, compression="zstd", write_page_checksum=True)
    )


def write_once(path: Path, make: Callable[[], pa.Table]) -> None:
    """Makes and writes a table that takes long to compute, unless an earlier start of this run has written it."""
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            made_for = (file.read().schema.metadata or {}).get(SHARD_RUN)
    except PermissionError:  # the file may be valid
        raise
    except (OSError, pa.ArrowException, UnicodeDecodeError):  # the file is missing, or damaged and written again
        made_for = None
    if made_for != run_digest(path.parent).encode():
        path.parent.mkdir(exist_ok=True)
        write_table(path, make())


def set_aside(path: Path) -> Path:
    names = (path.with_name(f".{path.name}.{number}.aside") for number in count(1))
    return path.rename(next(name for name in names if not name.exists()))


def check_layout(folder: Path, run: Mapping[str, Any]) -> None:
    layout = run.get("layout")
    version = layout.get("version") if isinstance(layout, dict) else 1
    if version != LAYOUT:
        release = (run.get("versions") or {}).get("holistic-bias") or "not recorded"
        raise ValueError(
            f"the run in '{folder}' has the folder layout {version}, but this release reads only the layout {LAYOUT}; "
            f"measure again in a new folder, or install the release with which the run was made: {release}"
        )


def read_record(folder: Path) -> dict[str, Any]:
    """Reads the record of a run of `measure`. Raises a ValueError if there is none."""
    if not (folder / RUN_FILE).is_file():
        raise ValueError(f"'{folder}' has no {RUN_FILE}; pass the folder of a run")
    record = read_json(folder / RUN_FILE)
    check_layout(folder, record)
    return record


def package_versions(*more: str) -> dict[str, str | None]:
    versions: dict[str, str | None] = {}
    for package in (*VERSIONED, *more):
        try:
            versions[package] = version(package)
        except PackageNotFoundError:  # run from a checkout that is not installed
            versions[package] = None
    return versions


def record_path(folder: Path) -> Path | None:
    """Returns the path of the run's record. `folder` is the run's folder or one of its subfolders."""
    return next((parent / RUN_FILE for parent in (folder, *folder.parents) if (parent / RUN_FILE).is_file()), None)


def run_digest(folder: Path) -> str:
    """Returns a SHA-256 digest of the run's record, or of an empty string if there is no record.

    `folder` is the run's folder or one of its subfolders.
    """
    path = record_path(folder)
    record = "" if path is None else json.dumps(read_json(path), sort_keys=True)
    return hashlib.sha256(record.encode()).hexdigest()


def open_run(folder: Path, run: dict[str, object]) -> None:
    """Writes the run's record into an empty folder, or compares it with the record in the folder.

    Raises:
        ValueError: The folder contains a run with other settings.
    """
    check_run_or_empty(folder)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / RUN_FILE
    if not path.exists():
        write_json(path, run)
        return
    recorded = read_json(path)
    if "layout" in run:  # only runs of `measure` record a layout
        check_layout(folder, recorded)
    _check_equal(folder, recorded, run)


def check_settings(folder: Path, settings: Mapping[str, object]) -> None:
    """Compares settings with those of the run in the folder, if there is one, before the rest of its record is known.

    Raises:
        ValueError: The folder contains a run with other settings.
    """
    if (folder / RUN_FILE).exists():
        recorded = read_record(folder)
        _check_equal(folder, recorded, {**recorded, "settings": dict(settings)})


def _check_equal(folder: Path, recorded: Mapping[str, object], run: Mapping[str, object]) -> None:
    if different := "\n".join(run_differences(recorded, run, "there", "here")):
        raise ValueError(
            f"output_dir '{folder}' contains a run with other settings:\n{different}\n"
            "set --output_dir to a new folder, or set the same options as for that run"
        )


def run_differences(first: Mapping[str, object], second: Mapping[str, object], where: str, elsewhere: str) -> list[str]:
    """Returns a line for each difference between two run records.

    `where` and `elsewhere` are the words that these lines use for the two records, such as "there" and "here".
    """
    one, other = flat_record(first), flat_record(second)
    lines = []
    for name in {**one, **other}:
        if name not in one or name not in other or one[name] != other[name]:
            values = [repr(record[name]) if name in record else "not recorded" for record in (one, other)]
            lines.append(f"  {name} is {values[0]} {where} and {values[1]} {elsewhere}")
    return lines


@contextmanager
def hold_folder(folder: Path) -> Iterator[None]:
    """Locks a run's folder, so that no other run can write to it. Removes incomplete files of killed runs.

    The operating system releases the lock even if the process is killed. On Lustre without `flock`, the lock works only
    within one machine. On NFS without a lock service, the folder is not locked, and a note is printed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / LOCK_FILE)
    try:
        lock.acquire(timeout=0)
    except Timeout as error:
        raise ValueError(
            f"output_dir '{folder}' is in use by a run that has not ended; wait until it ends, or set --output_dir to "
            "a new folder"
        ) from error
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
        print(f"the file system of '{folder}' does not support locks, so make sure that no other run uses this folder")
    try:
        remove_leftovers(folder)
        yield
    finally:
        lock.release()


def check_run_or_empty(folder: Path) -> None:
    """Raises `ValueError` unless a run can be written to the folder, which need not exist. Creates nothing."""
    existing = next(path for path in (folder, *folder.parents) if path.exists() or path.is_symlink())
    if not existing.is_dir() or not os.access(existing, os.W_OK):
        raise ValueError(
            f"output_dir is '{folder}', but '{existing}' is not a folder to which you can write; set --output_dir to a "
            "new or empty folder"
        )
    is_run = existing != folder or (folder / RUN_FILE).exists()
    if not is_run and any(not child.name.startswith(".") for child in folder.iterdir()):
        raise ValueError(
            f"output_dir '{folder}' contains files but no {RUN_FILE}; set --output_dir to a new or empty folder"
        )


def flat_record(run: Mapping[str, object]) -> dict[str, object]:
    flat: dict[str, object] = {}
    for section, content in run.items():
        if isinstance(content, dict):
            flat |= {f"{section}.{name}": value for name, value in content.items()}
        else:
            flat[section] = content
    return flat
