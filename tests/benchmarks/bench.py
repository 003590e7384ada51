"""Measures us beside our peers: the same inputs, the same results, then time.

    make bench                        all rows
    make bench ROW=replies    one of them

Each side of a row runs in a process of its own. Where its results differ from ours, the row is
an error, and no number is printed. Writes a table (Markdown) and the raw numbers into --output.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from tests.benchmarks.row import OURS, Row
from tests.benchmarks.run_side import load_row

ROWS = sorted(path.stem for path in (Path(__file__).parent / "rows").glob("*.py") if path.stem != "__init__")
PACKAGES = ("torch", "transformers", "datasets", "evaluate", "lm_eval", "numpy")


class Measured(NamedTuple):
    """A side at one size: the seconds of each repeat, and the results."""

    seconds: list[float]
    work: int
    notes: str
    found: dict[str, np.ndarray]


def main(argv: Sequence[str] | None = None) -> None:
    """Measures the rows asked for and writes the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--row", nargs="+", choices=ROWS, default=ROWS, metavar="ROW", help="The rows. Default: all.")
    parser.add_argument("--output", type=Path, default=Path("runs/bench"), help="Default: runs/bench.")
    asked = parser.parse_args(argv)
    asked.output.mkdir(parents=True, exist_ok=True)
    start = time.monotonic()
    for name in asked.row:
        print(f"{name} …", flush=True)
        result = measure_row(name, load_row(name))
        (asked.output / f"{name}.json").write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
        print("\n".join(table_lines(result)), flush=True)
    results = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(asked.output.glob("*.json"))]
    (asked.output / "table.md").write_text(markdown(results), encoding="utf-8")
    print(f"{(time.monotonic() - start) / 60:.1f} minutes; {asked.output / 'table.md'}")


def measure_row(name: str, row: Row) -> dict[str, Any]:
    """Runs all sides of a row, and ours also at the sizes of sides that run a part of the work.

    Raises:
        ValueError: A side's results are not ours.
    """
    repeats = {side_name: {side.share: side.repeats} for side_name, side in row.sides.items()}
    for parts in list(repeats.values()):
        for part in parts:
            repeats[OURS].setdefault(part, 1)  # to compare with what a side finds in it
    found = {side_name: _measure(name, side_name, sizes) for side_name, sizes in repeats.items()}
    for side_name, sizes in found.items():
        for part, measured in sizes.items():
            if side_name != OURS:
                _check_equal(name, row, side_name, found[OURS][part].found, measured.found)
    sides = {side_name: _scaled(found[side_name][side.share], side.share) for side_name, side in row.sides.items()}
    return {
        "row": name,
        "title": row.title,
        "unit": row.unit,
        "work": sides[OURS].work,
        "notes": sides[OURS].notes,
        "sides": {
            side: {"seconds": measured.seconds, "share": row.sides[side].share, "bar": row.sides[side].bar}
            for side, measured in sides.items()
        },
        "machine": machine(),
    }


def machine() -> dict[str, Any]:
    """The processor, its cores, and the releases of what ran on it."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return {
        "cpu": names[0] if names else platform.processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "python": platform.python_version(),
        "packages": {package: _release(package) for package in PACKAGES},
    }


def _release(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:  # a peer that is not installed
        return None


def _measure(row: str, side: str, repeats: Mapping[float, int]) -> dict[float, Measured]:
    """Runs a side at these sizes, each so often, in a process of its own."""
    with tempfile.TemporaryDirectory() as scratch:
        asked = [f"{size!r}:{number}" for size, number in sorted(repeats.items())]
        command = [sys.executable, "-m", "tests.benchmarks.run_side", row, side, scratch, *asked]
        subprocess.run(command, check=True, env={**os.environ, "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "true"})
        return {size: _read(Path(scratch) / f"{size!r}.npz") for size in repeats}


def _read(path: Path) -> Measured:
    with np.load(path) as kept:
        measured = json.loads(str(kept["measured"]))
        found = {key.removeprefix("found_"): kept[key] for key in kept.files if key != "measured"}
    return Measured(measured["seconds"], measured["work"], measured["notes"], found)


def _scaled(measured: Measured, share: float) -> Measured:
    """With the seconds that all of the work would take."""
    return measured._replace(seconds=[each / share for each in measured.seconds])


def _check_equal(
    name: str, row: Row, side: str, ours: Mapping[str, np.ndarray], theirs: Mapping[str, np.ndarray]
) -> None:
    if not set(ours) & set(theirs):
        raise ValueError(f"{name}: '{side}' returns no result that ours returns; name the compared results alike")
    for key, expected in ours.items():
        if key not in theirs:
            continue  # what only we have, such as how many positions were computed
        try:
            if expected.dtype.kind in "fc":
                np.testing.assert_allclose(theirs[key], expected, rtol=row.relative_tolerance)
            else:
                np.testing.assert_array_equal(theirs[key], expected)
        except AssertionError as error:
            detail = " ".join(str(error).split())[:300]
            raise ValueError(f"{name}: '{side}' finds another {key} than ours: {detail}") from None


def markdown(results: Sequence[Mapping[str, Any]]) -> str:
    """The table of all rows, with what it was measured on."""
    lines = ["| work | side | median s (lowest–highest) | times ours | bar |", "| --- | --- | ---: | ---: | ---: |"]
    for result in results:
        lines += table_lines(result)
    told = [f"* {result['title']}: {result['notes']}." for result in results if result["notes"]]
    here = results[-1]["machine"]
    packages = ", ".join(f"{name} {release}" for name, release in here["packages"].items())
    on = f"Measured on {here['cores']} cores of {here['cpu']}, Python {here['python']}, {packages}."
    shares = any(side["share"] < 1 for result in results for side in result["sides"].values())
    parts = ["A side marked † was given a part of the work, and its time scaled up."] if shares else []
    return "\n".join([*lines, "", *told, "", *parts, on]) + "\n"


def table_lines(result: Mapping[str, Any]) -> list[str]:
    """The lines of one row."""
    ours = result["sides"][OURS]
    lines = []
    for number, (name, side) in enumerate(result["sides"].items()):
        seconds = side["seconds"]
        spread = f"{_seconds(median(seconds))} ({_seconds(min(seconds))}–{_seconds(max(seconds))})"
        ratio, bar = "", ""
        if name != OURS:
            times = median(seconds) / median(ours["seconds"])
            ratio, bar = _times(times, side["bar"]), "" if side["bar"] is None else f"≥ {side['bar']:g}"
        mark = "†" if side["share"] < 1 else ""
        title = f"{result['title']} ({result['work']:,} {result['unit']})" if number == 0 else ""
        lines.append(f"| {title} | {name}{mark} | {spread} | {ratio} | {bar} |")
    return lines


def _times(ratio: float, bar: float | None) -> str:
    told = f"{ratio:,.0f}×" if ratio >= 100 else f"{ratio:.1f}×"
    return told if bar is None or ratio >= bar else f"**{told}**, missed"


def _seconds(seconds: float) -> str:
    return f"{seconds:.0f}" if seconds >= 100 else f"{seconds:.1f}" if seconds >= 10 else f"{seconds:.2f}"


if __name__ == "__main__":
    main()
