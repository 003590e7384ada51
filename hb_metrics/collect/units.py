"""Scores texts in units of work. A unit is a batch of inputs that a model reads together.

Only the texts, the tokenizer and the settings determine the units, so the results do not depend on the number of
processes and threads. On CPU, one thread computes each unit, and several units are computed at the same time. One
thread per unit is faster than several. It also makes the results of a unit exactly the same on every process.
"""

from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import torch
from transformers import PreTrainedModel

from hb_metrics.models.architecture import has_changing_rope
from hb_metrics.models.memory import run_batch
from hb_metrics.models.processes import input_device, is_offloaded, num_workers

# The maximum number of tokens that the model reads at once. On two CPU cores, the embedded model was as fast with 256
# tokens as with 512. It was about a fifth slower with 128 tokens, and also with 1,024. A larger maximum uses a GPU
# better, but needs more memory for the logits. With a vocabulary of 49,152 tokens in float32, 512 tokens need 100 MB
# per core.
MAX_POSITIONS = 512


class ScoringUnit(NamedTuple):
    """A batch of distinct token sequences.

    Attributes:
        payload: [sequences] The argument with which to call `ScoringPlan.score`.
    """

    sequences: np.ndarray
    payload: list[Any]


@dataclass(frozen=True, kw_only=True)
class ScoringPlan:
    """The units of work for scoring texts, and the function that scores a unit.

    Equal texts have the same token sequence, which is scored only once.

    Attributes:
        scoring: The method: `"tree"`, `"batches"`, `"encoder-decoder"` or `"pseudo-log-likelihood"`.
        scoring_reason: The reason for this method.
        start_token: The tokens that the model reads before each sentence, separated by spaces, or `None`.
        sequence_of_text: [texts] The index of each text's sequence.
        num_tokens: [sequences] The number of tokens that the model predicts.
        positions: The number of tokens that the model reads for all texts.
        score: Takes a unit's payload or a part of it. Returns the summed negative log-likelihood (natural logarithm) of
            each sequence.
    """

    scoring: str
    scoring_reason: str
    start_token: str | None
    sequence_of_text: np.ndarray
    num_tokens: np.ndarray
    positions: int
    units: Sequence[ScoringUnit]
    score: Callable[[Any], np.ndarray]


def run_units(
    plan: ScoringPlan, units: Sequence[ScoringUnit], model: PreTrainedModel
) -> Generator[tuple[ScoringUnit, np.ndarray], None, None]:
    """Yields each unit, and the summed negative log-likelihood of each of its sequences: [sequences] float64."""
    return map_units(lambda unit: np.concatenate(run_batch(plan.score, unit.payload)), units, model)


def map_units(
    run: Callable[[Any], Any], units: Sequence[Any], model: PreTrainedModel
) -> Generator[tuple[Any, Any], None, None]:
    """Yields each unit, and what `run` returns for it. Several units are computed at the same time on CPU."""
    threads = torch.get_num_threads()
    with ThreadPoolExecutor(units_at_once(model)) as pool:
        try:
            if input_device(model).type == "cpu":
                torch.set_num_threads(1)  # one thread per unit
            yield from zip(units, pool.map(run, units), strict=True)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)  # on Ctrl-C, do not start the units that are still waiting
            torch.set_num_threads(threads)


def units_at_once(model: PreTrainedModel) -> int:
    """Returns the number of units to compute at the same time.

    The number is 1 on an accelerator, and also for a model that changes when it is used (see `has_changing_rope`,
    `is_offloaded`).
    """
    is_on_cpu = input_device(model).type == "cpu"
    return num_workers() if is_on_cpu and not is_offloaded(model) and not has_changing_rope(model) else 1


def check_texts(texts: Sequence[str], *, blank: bool = True) -> None:
    """Raises `ValueError` if a text is not a string, is empty, or contains an unpaired surrogate.

    Errors state a text's row, but never quote the text. If `blank` is false, as for classifiers, texts that consist of
    white space are also invalid.
    """
    if isinstance(texts, str):
        raise ValueError("texts is a single string; pass a list of texts")
    for row, text in enumerate(texts):
        if not isinstance(text, str) or not (text if blank else text.strip()):
            fault = f"of type {type(text).__name__}" if not isinstance(text, str) else "blank" if text else "empty"
            raise ValueError(
                f"text {row} is {fault}; pass only strings that contain words, and count the texts that you omit"
            )
        try:
            text.isascii() or text.encode()
        except UnicodeEncodeError as error:
            raise ValueError(
                f"text {row} contains an unpaired surrogate (U+{ord(text[error.start]):04X}) at position "
                f"{error.start + 1}; decode the text with the encoding in which it was written, or omit the text"
            ) from None  # the original error message contains the text


def distinct(texts: Sequence[Any]) -> tuple[list[Any], np.ndarray]:
    indices: dict[Any, int] = {}
    which = np.array([indices.setdefault(text, len(indices)) for text in texts], dtype=np.int64)
    return list(indices), which


def alike_units(
    rows: Sequence[Any], shapes: Sequence[tuple[int, ...]], max_positions: int | None = None
) -> list[ScoringUnit]:
    """Groups rows of equal shape into batches, which need no padding.

    A row's shape contains the lengths of its parts, such as a context and a reply. The batches are sorted by the total
    lengths of their rows. A batch has at most `max_positions` tokens (by default `MAX_POSITIONS`). A longer row gets
    its own batch.
    """
    order = sorted(range(len(rows)), key=lambda row: (sum(shapes[row]), shapes[row], row))
    batches = []
    for shape, alike in groupby(order, key=shapes.__getitem__):
        group, size = list(alike), max(1, (max_positions or MAX_POSITIONS) // sum(shape))
        batches += [group[start : start + size] for start in range(0, len(group), size)]
    return [ScoringUnit(np.array(batch), [rows[row] for row in batch]) for batch in batches]
