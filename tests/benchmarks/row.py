"""A row of the benchmark: the same work by us and by what people would use instead.

    python -m tests.benchmarks.row ROW SIDE FOLDER SIZE:REPEATS …   writes FOLDER/SIZE.npz for each

This runs one side of a row in a process of its own. It is timed, and its results are kept to be compared.
"""

import argparse
import gc
import importlib
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

OURS = "ours"


@dataclass(frozen=True, kw_only=True)
class Side:
    """One way to do a row's work.

    Attributes:
        run: Does the work: `run(inputs, loaded)` → what it found, by name. This is what is timed.
        load: Makes `loaded` of the inputs, such as a model in memory; not timed.
        repeats: How often the whole work is timed; the median counts.
        share: The share of the inputs it is given, where all of them would take too long; its time is divided by it.
    """

    run: Callable[[Any, Any], Mapping[str, np.ndarray]]
    load: Callable[[Any], Any]
    repeats: int = 3
    share: float = 1.0


@dataclass(frozen=True, kw_only=True)
class Row:
    """Some work and the ways to do it.

    Attributes:
        title: What the work is, at full size.
        inputs: Makes the inputs of a fraction (0 to 1) of the full size; the same at every call.
        work: How much work the inputs hold, in `unit`.
        unit: What the work is counted in.
        sides: By name; the first is `OURS`.
        notes: What our side did, from what it found: such as how many positions it computed.
        relative_tolerance: How far a side's results may be from ours.
    """

    title: str
    inputs: Callable[[float], Any]
    work: Callable[[Any], int]
    unit: str
    sides: Mapping[str, Side]
    notes: Callable[[Mapping[str, np.ndarray]], str]
    relative_tolerance: float = 1e-9


def load_row(name: str) -> Row:
    """The row of a file in rows/."""
    row: Row = importlib.import_module(f"tests.benchmarks.rows.{name}").ROW
    return row


def run_side(row: Row, side_name: str, size: float, repeats: int, output: Path) -> None:
    """Does a share of the row's work so often, and writes the results of the last time and the seconds of each."""
    side = row.sides[side_name]
    inputs = row.inputs(size)
    loaded = side.load(inputs)
    seconds, found = [], {}
    for _ in range(repeats):
        gc.collect()
        start = time.perf_counter()
        found = dict(side.run(inputs, loaded))
        seconds.append(time.perf_counter() - start)
    measured = {"seconds": seconds, "work": row.work(inputs), "notes": row.notes(found) if side_name == OURS else ""}
    np.savez(output, measured=np.array(json.dumps(measured)), **{f"found_{key}": value for key, value in found.items()})


def main() -> None:
    """Runs the side that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("row", "side", "folder"):
        parser.add_argument(name)
    parser.add_argument("sizes", nargs="+", metavar="SIZE:REPEATS")
    asked = parser.parse_args()
    for part in asked.sizes:
        size, repeats = part.split(":")
        run_side(load_row(asked.row), asked.side, float(size), int(repeats), Path(asked.folder) / f"{size}.npz")


if __name__ == "__main__":
    main()
