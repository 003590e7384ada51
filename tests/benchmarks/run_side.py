"""One side of a row, in a process of its own: timed, its peak memory measured, its results kept to be compared.

python -m tests.benchmarks.run_side ROW SIDE FOLDER SIZE:REPEATS …   writes FOLDER/SIZE.npz for each
"""

import argparse
import ctypes
import gc
import importlib
import json
import re
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

from tests.benchmarks.row import OURS, Row


def load_row(name: str) -> Row:
    """The row of a file in rows/."""
    row: Row = importlib.import_module(f"tests.benchmarks.rows.{name}").ROW
    return row


def run_side(row: Row, side_name: str, size: float, repeats: int, output: Path) -> None:
    """Does the work so often, and writes the results of the last time, the seconds of each and the peak memory.

    Args:
        row: The row.
        side_name: Which side of it.
        size: The share of the row's work that it is given.
        repeats: How often.
        output: The file written.
    """
    side = row.sides[side_name]
    inputs = row.inputs(size)
    loaded = side.load(inputs)
    seconds, memory = [], []
    found = {}
    for _ in range(repeats):
        found = {}
        _give_back()
        before = _reset_peak()
        start = time.perf_counter()
        found = dict(side.run(inputs, loaded))
        seconds.append(time.perf_counter() - start)
        memory.append(None if before is None else _status("VmHWM") - before)
    notes = row.notes(found) if side_name == OURS else ""
    measured = {"seconds": seconds, "memory": memory, "work": row.work(inputs), "notes": notes}
    np.savez(output, measured=np.array(json.dumps(measured)), **{f"found_{key}": value for key, value in found.items()})


def _give_back() -> None:
    """Gives the system what is free: else a run that takes what an earlier one left would seem to take nothing."""
    gc.collect()
    pa.default_memory_pool().release_unused()
    if hasattr(libc := ctypes.CDLL(None), "malloc_trim"):  # glibc
        libc.malloc_trim(0)


def _reset_peak() -> int | None:
    """Forgets the peak memory so far (Linux); the memory in use in bytes, `None` elsewhere."""
    peak = Path("/proc/self/clear_refs")
    if not peak.exists():
        return None
    peak.write_text("5")
    return _status("VmRSS")


def _status(name: str) -> int:
    (kilobytes,) = re.findall(rf"^{name}:\s+(\d+) kB$", Path("/proc/self/status").read_text(), re.MULTILINE)
    return int(kilobytes) * 1024


def main() -> None:
    """Runs the side that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("row")
    parser.add_argument("side")
    parser.add_argument("folder", type=Path)
    parser.add_argument("sizes", nargs="+", metavar="SIZE:REPEATS")
    asked = parser.parse_args()
    row = load_row(asked.row)
    for each in asked.sizes:
        size, repeats = each.split(":")
        run_side(row, asked.side, float(size), int(repeats), asked.folder / f"{size}.npz")


if __name__ == "__main__":
    main()
