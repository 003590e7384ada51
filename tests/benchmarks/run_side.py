"""One side of a row, in a process of its own: timed, its results kept to be compared.

python -m tests.benchmarks.run_side ROW SIDE FOLDER SIZE:REPEATS …   writes FOLDER/SIZE.npz for each
"""

import argparse
import gc
import importlib
import json
import time
from pathlib import Path

import numpy as np

from tests.benchmarks.row import OURS, Row


def load_row(name: str) -> Row:
    """The row of a file in rows/."""
    row: Row = importlib.import_module(f"tests.benchmarks.rows.{name}").ROW
    return row


def run_side(row: Row, side_name: str, size: float, repeats: int, output: Path) -> None:
    """Does the work so often, and writes the results of the last time and the seconds of each.

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
    seconds = []
    found = {}
    for _ in range(repeats):
        found = {}
        gc.collect()
        start = time.perf_counter()
        found = dict(side.run(inputs, loaded))
        seconds.append(time.perf_counter() - start)
    notes = row.notes(found) if side_name == OURS else ""
    measured = {"seconds": seconds, "work": row.work(inputs), "notes": notes}
    np.savez(output, measured=np.array(json.dumps(measured)), **{f"found_{key}": value for key, value in found.items()})


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
