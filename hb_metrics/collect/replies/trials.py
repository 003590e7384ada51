"""Tests how a model can decode contexts without changing the replies.

The reference is each context alone, without a cache and without padding. Only a trial can show whether a faster method
computes the same probabilities. Some architectures raise an error, and others silently compute wrong numbers. A fault
may appear only beyond some length, such as an attention window. A trial therefore runs a plan's own contexts, including
the shortest and the longest, and the last tokens of the longest replies.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import cycle, islice
from typing import NamedTuple

import numpy as np
import torch
from transformers import PreTrainedModel

from hb_metrics.collect.replies.decoding_settings import CLOSE
from hb_metrics.collect.replies.forward import Forward, states_of
from hb_metrics.models.architecture import max_positions_of
from hb_metrics.models.float32 import is_exact, measured

_ROWS = 4  # the number of contexts that are decoded together in a trial of padding
# The maximum number of tokens that a trial decodes one by one. A longer reply is tried at its beginning and at its end.
_STEPS = 64
# The largest accepted total variation distance between the probabilities of the next token with and without a cache. In
# float32, rounding errors are far smaller. The second number applies to models that do not run in float32. Their
# rounding errors reach 0.3 if their weights are random, and wrong computations differ by about 0.6.
_TOLERANCE, _LOW_PRECISION_TOLERANCE = 1e-3, 0.4


class Paths(NamedTuple):
    """How a model decodes contexts.

    Attributes:
        cached: Whether the model keeps keys and values from token to token. Otherwise, it reads all tokens each time.
        padded: Whether contexts of different lengths are decoded together. If so, the model also keeps keys and values.
    """

    cached: bool
    padded: bool


def decoding_paths(model: PreTrainedModel, contexts: Sequence[Sequence[int]], max_new_tokens: int) -> Paths:
    """Returns the fastest method that does not change the replies.

    In half precision, contexts are not padded, because padding would change the replies.

    Args:
        model: A causal model, or a model with an encoder and a decoder.
        contexts: All contexts to decode.
        max_new_tokens: The maximum number of tokens in a reply, including its thought.
    """
    if not contexts:
        return Paths(cached=True, padded=False)
    ordered = sorted(map(list, contexts), key=len)
    longest, with_encoder = ordered[-1], model.config.is_encoder_decoder
    limit = None if with_encoder else max_positions_of(model)
    steps = max_new_tokens if limit is None else max(1, min(max_new_tokens, limit - len(longest)))
    # In a padded batch, each context gets as many further positions as the shortest context.
    padded = len(ordered[0]) < len(longest) and not with_encoder and steps == max_new_tokens and is_exact(model)
    if padded:
        rows = [ordered[row] for row in np.linspace(0, len(ordered) - 1, _ROWS).astype(int)]
        known = [None, *map(_first_half, rows[1:])]
        padded = _agrees(model, rows, steps, _log_ratio, CLOSE / 2, known)  # half, because both candidates can change
    # Contexts of equal length often have a common beginning, which is computed only once.
    half = _first_half(longest)
    pair = [longest, [*half, *reversed(longest[len(half) :])]]
    cached = _agrees(model, pair, 1 if padded else steps, _distance, _TOLERANCE)
    return Paths(cached, cached and padded)


def _first_half(context: list[int]) -> list[int]:
    return context[: -(-len(context) // 2)]


def _distance(together: torch.Tensor, alone: torch.Tensor) -> torch.Tensor:
    return (together.softmax(1) - alone.softmax(1)).abs().sum(1).max() / 2


def _log_ratio(together: torch.Tensor, alone: torch.Tensor) -> torch.Tensor:
    return (together.log_softmax(1) - alone.log_softmax(1)).abs().max()


def _agrees(
    model: PreTrainedModel,
    contexts: list[list[int]],
    steps: int,
    difference: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    tolerance: float,
    known: Sequence[list[int] | None] = (),
) -> bool:
    try:
        largest, in_float32 = measured(
            model, lambda: max(float(difference(*logits)) for logits in _logits(model, contexts, steps, known))
        )
    except Exception:  # noqa: BLE001 - any error means that the model does not support the method
        return False
    return largest <= (tolerance if in_float32 else _LOW_PRECISION_TOLERANCE)


def _logits(
    model: PreTrainedModel, contexts: list[list[int]], steps: int, known: Sequence[list[int] | None]
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yields the logits of some steps, for all contexts together and for each alone: [contexts, vocabulary] twice.

    `known` contains the texts whose states are known.
    """
    tokens = [list(islice(cycle(reversed(context)), steps)) for context in contexts]
    if steps > _STEPS:
        late = [[*context, *row[:-_STEPS]] for context, row in zip(contexts, tokens, strict=True)]
        yield from _logits(model, late, _STEPS, ())
        steps = _STEPS
    compared = {0, steps // 2, steps - 1}
    states = [None if text is None else states_of(model, text) for text in known]
    together = Forward(model, contexts, states=states)
    alone = [Forward(model, [context], cached=False) for context in contexts]
    for forward in alone:
        forward.first()
    logits = together.first()
    for step in range(steps):
        if step:
            logits = together.next(torch.tensor([row[step - 1] for row in tokens], device=logits.device))
        if step in compared:
            expected = [forward.after(row[:step]) for forward, row in zip(alone, tokens, strict=True)]
            yield logits.float(), torch.stack(expected).float()
