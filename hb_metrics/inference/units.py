"""Units of work. A unit has the inputs of one model run, and is the same on every process.

The units are determined only by the texts, the tokenizer and the settings. Processes and threads take units in any
order. On CPU, one thread computes each unit, and as many units run at a time as there are cores. This is faster than
several threads for one unit, and the results of a unit are the same, bit for bit, everywhere.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from transformers import PreTrainedModel

from hb_metrics.inference.devices import input_device, is_offloaded
from hb_metrics.inference.memory import Memory, halved
from hb_metrics.inference.processes import num_workers


class Unit(NamedTuple):
    """The indices of some of the distinct sequences, and the argument of `ScoringPlan.score` for them."""

    sequences: np.ndarray
    payload: Any


@dataclass(frozen=True, kw_only=True)
class ScoringPlan:
    """The work that is needed to score texts, and the method of scoring.

    Attributes:
        scoring: `"tree"`, `"padded"`, `"encoder-decoder"` or `"pseudo-log-likelihood"`.
        start_token: The token that the model reads before each sentence, or `None`.
        sequence_of_text: [texts] The index of each text's distinct sequence.
        num_tokens: [sequences] The number of predicted tokens.
        positions: The number of tokens that the model reads in all units.
        score: Computes each sequence's summed negative log-likelihood (natural logarithm) from a unit's payload.
        halve: Cuts a payload in two, in the same order. Returns `None` if there is only one sequence.
    """

    scoring: str
    scoring_reason: str
    start_token: str | None
    sequence_of_text: np.ndarray
    num_tokens: np.ndarray
    positions: int
    units: Sequence[Unit]
    score: Callable[[Any], np.ndarray]
    halve: Callable[[Any], tuple[Any, Any] | None] = halved


def run_units(
    plan: ScoringPlan, units: Sequence[Unit], model: PreTrainedModel
) -> Generator[tuple[Unit, np.ndarray], None, None]:
    """Scores units. Yields each unit with its sequences' summed negative log-likelihoods: [sequences] float64."""
    memory = Memory(plan.halve, "one text")

    def score(unit: Unit) -> np.ndarray:
        return np.concatenate(memory.run(plan.score, unit.payload))

    with one_thread_per_unit(model) as workers, ThreadPoolExecutor(workers) as pool:
        try:
            yield from zip(units, pool.map(score, units), strict=True)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)  # on Ctrl-C, do not start the units that are still waiting
            memory.report("units of work")


@contextmanager
def one_thread_per_unit(model: PreTrainedModel) -> Iterator[int]:
    """Makes torch compute a model on CPU with one thread. Yields the number of units to compute at the same time."""
    if input_device(model).type != "cpu":
        yield 1
        return
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield 1 if is_offloaded(model) else num_workers()
    finally:
        torch.set_num_threads(threads)


def distinct(texts: Sequence[Any]) -> tuple[list[Any], np.ndarray]:
    indices: dict[Any, int] = {}
    which = np.array([indices.setdefault(text, len(indices)) for text in texts], dtype=np.int64)
    return list(indices), which


def length_sorted_batches(lengths: Sequence[int], max_positions: int) -> list[np.ndarray]:
    """Cuts rows into batches of similar length that have at most `max_positions` positions each when padded.

    A longer row forms a batch by itself. Returns the row indices of each batch.
    """
    batches: list[list[int]] = []
    for row in sorted(range(len(lengths)), key=lambda row: (lengths[row], row)):
        if not batches or (len(batches[-1]) + 1) * lengths[row] > max_positions:
            batches.append([])
        batches[-1].append(row)
    return [np.array(batch) for batch in batches]
