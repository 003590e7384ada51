"""Measures us beside our peers: the same inputs, the same results, then time.

    make bench                        all rows
    make bench ROW=replies    one of them

Each side of a row runs in a process of its own. Where its results differ from ours, the row is
an error, and no number is printed. Writes a table (Markdown) into --output.
"""

import argparse
import os
import platform
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from tests.benchmarks.row import OURS, Measured, Row, load_row, measure_side

ROWS = sorted(path.stem for path in (Path(__file__).parent / "rows").glob("*.py") if path.stem != "__init__")
PACKAGES = ("torch", "transformers", "datasets", "evaluate", "lm_eval", "numpy")


def main(argv: Sequence[str] | None = None) -> None:
    """Measures the rows asked for and writes the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--row", nargs="+", choices=ROWS, default=ROWS, metavar="ROW", help="The rows. Default: all.")
    parser.add_argument("--output", type=Path, default=Path("runs/bench"), help="Default: runs/bench.")
    asked = parser.parse_args(argv)
    asked.output.mkdir(parents=True, exist_ok=True)
    packages = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    lines = [
        f"{os.cpu_count()} cores of {platform.machine()}, Python {platform.python_version()}, {packages}.",
        "A side marked † was given a part of the work, and its time scaled up.",
        "",
        "| work | side | median s (lowest–highest) | times ours |",
        "| --- | --- | ---: | ---: |",
    ]
    for name in asked.row:
        print(f"{name} …", flush=True)
        row = load_row(name)
        of_row = table_lines(row, measure_row(name, row))
        print("\n".join(of_row), flush=True)
        lines += of_row
    (asked.output / "table.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def measure_row(name: str, row: Row) -> dict[str, Measured]:
    """Runs all sides of a row, and ours also at the sizes of sides that run a part of the work.

    Raises:
        ValueError: A side's results are not ours.
    """
    parts = {side.share: 1 for side in row.sides.values()}  # to compare with what a side finds in its part
    ours = _measure(name, OURS, parts | {1.0: row.sides[OURS].repeats})
    sides = {OURS: ours[1.0]}
    for side_name, side in row.sides.items():
        if side_name != OURS:
            sides[side_name] = _measure(name, side_name, {side.share: side.repeats})[side.share]
            check_equal(name, row, side_name, ours[side.share].found, sides[side_name].found)
    return sides


def _measure(row: str, side: str, repeats: Mapping[float, int]) -> dict[float, Measured]:
    """Runs a side at these sizes, each so often, in a process of its own."""
    os.environ |= {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "true"}
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(measure_side, row, side, dict(sorted(repeats.items()))).result()


def check_equal(name: str, row: Row, side: str, ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> None:
    """Raises ValueError if a result that both have differs, or if they have none in common."""
    if not set(ours) & set(theirs):
        raise ValueError(f"{name}: '{side}' returns no result that ours returns; name the compared results alike")
    for key in set(ours) & set(theirs):
        try:
            if ours[key].dtype.kind in "fc":
                np.testing.assert_allclose(theirs[key], ours[key], rtol=row.relative_tolerance)
            else:
                np.testing.assert_array_equal(theirs[key], ours[key])
        except AssertionError as error:
            raise ValueError(f"{name}: '{side}' finds another {key} than ours: {error}") from None


def table_lines(row: Row, sides: Mapping[str, Measured]) -> list[str]:
    """The lines of one row."""
    ours = sides[OURS]
    lines, title = [], f"{row.title} ({ours.work:,} {row.unit}; {ours.notes})"
    for name, measured in sides.items():
        share = row.sides[name].share
        seconds = [each / share for each in measured.seconds]
        spread = f"{median(seconds):.3g} ({min(seconds):.3g}–{max(seconds):.3g})"
        times = f"{median(seconds) / median(ours.seconds):.1f}"
        lines.append(f"| {title} | {name}{'†' if share < 1 else ''} | {spread} | {times} |")
        title = ""
    return lines


if __name__ == "__main__":
    main()
