"""One side of a row, in a process of its own: timed, its peak memory measured, its results kept to be compared.

python -m tests.benchmarks.run_side ROW SIDE FRACTION REPEATS OUTPUT.npz
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


def run_side(row: Row, side_name: str, fraction: float, repeats: int, output: Path) -> None:
    """Does the work so often, and writes the results of the last time, the seconds of each and the peak memory."""
    side = row.sides[side_name]
    inputs = row.inputs(fraction * side.share)
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
    parser.add_argument("fraction", type=float)
    parser.add_argument("repeats", type=int)
    parser.add_argument("output", type=Path)
    asked = parser.parse_args()
    run_side(load_row(asked.row), asked.side, asked.fraction, asked.repeats, asked.output)


if __name__ == "__main__":
    main()
