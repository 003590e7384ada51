"""Runs as their files: what tests of runs that were killed, and of runs on several machines, compare."""

import re

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hb_metrics.run.run_folder import LOCK_FILE, REPORT_FILE, SECONDS_FILE


def contents(folder):
    """Every file of a run, by its path in it; not what the system locks, nor how long the run took."""
    files = {str(path.relative_to(folder)): path for path in folder.rglob("*") if path.is_file()}
    files = {name: path for name, path in files.items() if name not in (LOCK_FILE, SECONDS_FILE)}
    return {name: re.sub(rb"about \d+ minutes?", b"", path.read_bytes()) for name, path in files.items()}


def rows_of(folder, ids):
    """All rows of a folder of shards, in the order of their ids."""
    table = pq.read_table(folder)
    assert len(table) == len(ids)
    return table.take(pc.index_in(pa.array(ids), table["id"]))


def identities(folder):
    """What tells whether a shard was written again."""
    files = {path: path.stat() for path in folder.rglob("[!.]*.parquet") if path.parent != folder}
    return {path: (stat.st_ino, stat.st_mtime_ns) for path, stat in files.items()}


def check_part_of(whole, killed):
    """All that has its name is whole: the same bytes as in the run that nobody killed, or a report of a part of it."""
    expected, files = contents(whole), contents(killed)
    for name, content in files.items():
        if name == REPORT_FILE and b"Not complete yet" in content:
            assert content.rstrip().endswith(b"</html>")
        elif not name.endswith(".tmp"):
            assert content == expected[name], name


def check_same(whole, killed, there):
    """The run ended in the same bytes, file by file, and wrote no shard again that was there."""
    assert contents(killed) == contents(whole)
    now = identities(killed)
    assert {path: now[path] for path in there} == there
