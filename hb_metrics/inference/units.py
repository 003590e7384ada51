"""Units of work: the inputs of one model run, the same on every process.

The texts, the tokenizer and the settings alone determine the units. Processes and threads take units in any order. On
CPU one thread computes each unit, and as many units run at a time as there are cores. This is faster than many threads
on one unit, and gives a unit the same bits everywhere.
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
    """Some of the distinct sequences, as indices, and the argument of `ScoringPlan.score` for them."""

    sequences: np.ndarray
    payload: Any


@dataclass(frozen=True, kw_only=True)
class ScoringPlan:
    """The work that scores texts, and its method.

    Attributes:
        scoring: `"tree"`, `"padded"`, `"encoder-decoder"` or `"pseudo-log-likelihood"`.
        start_token: The token fed before each sentence, or `None`.
        sequence_of_text: [texts] the distinct sequence of each text.
        num_tokens: [sequences] the number of predicted tokens.
        positions: The number of tokens that the model reads in all units.
        score: Computes each sequence's summed negative log-likelihood (natural log) from a unit's payload.
        halve: Cuts a payload in two, in the same order; `None` for one sequence.
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
    """Scores units; yields each with the summed negative log-likelihoods of its sequences, [sequences] float64."""
    memory = Memory(plan.halve, "one text")

    def score(unit: Unit) -> np.ndarray:
        return np.concatenate(memory.run(plan.score, unit.payload))

    with one_thread_per_unit(model) as workers, ThreadPoolExecutor(workers) as pool:
        try:
            yield from zip(units, pool.map(score, units), strict=True)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)  # on Ctrl-C do not start the units still waiting
            memory.report("units of work")


@contextmanager
def one_thread_per_unit(model: PreTrainedModel) -> Iterator[int]:
    """Makes torch compute a model on CPU with one thread; yields the number of units to compute at the same time."""
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
    """Cuts rows into batches of similar length, each of at most `max_positions` positions when padded.

    A longer row forms a batch alone. Returns the row indices of each batch.
    """
    batches: list[list[int]] = []
    for row in sorted(range(len(lengths)), key=lambda row: (lengths[row], row)):
        if not batches or (len(batches[-1]) + 1) * lengths[row] > max_positions:
            batches.append([])
        batches[-1].append(row)
    return [np.array(batch) for batch in batches]
