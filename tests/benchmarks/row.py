"""A row of the benchmark: the same work by us and by what people would use instead."""

import gc
import importlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

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


class Measured(NamedTuple):
    """A side at one size: the seconds of each repeat, and the results."""

    seconds: list[float]
    work: int
    notes: str
    found: dict[str, np.ndarray]


def load_row(name: str) -> Row:
    """The row of a file in rows/."""
    row: Row = importlib.import_module(f"tests.benchmarks.rows.{name}").ROW
    return row


def measure_side(name: str, side_name: str, repeats: Mapping[float, int]) -> dict[float, Measured]:
    """Does the work of a side at each size, so often, and keeps the results of the last time."""
    row, measured = load_row(name), {}
    side = row.sides[side_name]
    for size, number in repeats.items():
        inputs = row.inputs(size)
        loaded = side.load(inputs)
        seconds, found = [], {}
        for _ in range(number):
            gc.collect()
            start = time.perf_counter()
            found = {key: np.asarray(value) for key, value in side.run(inputs, loaded).items()}
            seconds.append(time.perf_counter() - start)
        notes = row.notes(found) if side_name == OURS else ""
        measured[size] = Measured(seconds, row.work(inputs), notes, found)
    return measured
