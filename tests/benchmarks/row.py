"""A row of the benchmark: the same work by us and by what people would use instead."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

OURS = "ours"


@dataclass(frozen=True, kw_only=True)
class Side:
    """One way to do a row's work.

    Attributes:
        run: Does the work: `run(inputs, loaded)` → what it found, by name. This is what is timed.
        load: Makes `loaded` of the inputs, such as a model in memory; not timed.
        bar: How many times faster we want to be than this; `None`: not promised.
        repeats: How often the whole work is timed; the median counts.
        share: The share of the inputs it is given, where all of them would take too long; its time is divided by it.
    """

    run: Callable[[Any, Any], Mapping[str, np.ndarray]]
    load: Callable[[Any], Any] = lambda inputs: None
    bar: float | None = None
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
        relative_tolerance: How far a side's results may be from ours.
        notes: What our side did, from what it found: such as how many positions it computed.
    """

    title: str
    inputs: Callable[[float], Any]
    work: Callable[[Any], int]
    unit: str
    sides: Mapping[str, Side] = field(default_factory=dict)
    relative_tolerance: float = 1e-9
    notes: Callable[[Mapping[str, np.ndarray]], str] = lambda found: ""
