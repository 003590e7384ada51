"""Computes the logits of next tokens, and tests how a model can do so without changing the replies.

The reference is each context alone, without a cache and without padding. Only a trial can show whether a faster method
computes the same probabilities. Some architectures raise an error, and others silently compute wrong numbers. A fault
may appear only beyond some length, such as an attention window. A trial therefore runs a plan's own contexts, including
the shortest and the longest, and the last tokens of the longest replies.
"""

import inspect
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from itertools import cycle, islice
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence
from transformers import DynamicCache, EncoderDecoderCache, PreTrainedModel

from hb_metrics.collect.replies.decoding_settings import CLOSE
from hb_metrics.collect.units import distinct
from hb_metrics.models.architecture import (
    decoder_start,
    first_position,
    has_changing_rope,
    max_positions_of,
    num_shared,
)
from hb_metrics.models.float32 import is_exact, measured
from hb_metrics.models.processes import input_device

_PAD = 0  # may be any token, because nothing attends to padding
# The types of cache layers that store either nothing, or keys and values for each position. Some recurrent layers could
# also be read and restored, but the program cannot know which ones.
_ATTENTION_LAYERS = {"DynamicLayer", "DynamicSlidingWindowLayer", "DummyLayer"}


_ROWS = 4  # the number of contexts that are decoded together in a trial of padding
# The maximum number of tokens that a trial decodes one by one. A longer reply is tried at its beginning and at its end.
_STEPS = 64
# The largest accepted total variation distance between the probabilities of the next token with and without a cache. In
# float32, rounding errors are far smaller. The second number applies to models that do not run in float32. Their
# rounding errors reach 0.3 if their weights are random, and wrong computations differ by about 0.6.
_TOLERANCE, _LOW_PRECISION_TOLERANCE = 1e-3, 0.4


class States(NamedTuple):
    """The keys and values of a text.

    Attributes:
        tokens: The tokens of the text.
        layers: The keys and values of each layer, by the layer's index: [tokens, heads, width].
    """

    tokens: list[int]
    layers: dict[int, tuple[torch.Tensor, torch.Tensor]]


class Forward:
    """Computes the logits of the next token for a batch of rows.

    Call `first` once, and then `next` for each further token. `select` keeps only some of the rows. If `cached` is
    false, the model reads all tokens again at each step.

    Equal contexts are computed once, and so are the states of the contexts' common prefix, unless `known` contains the
    states of a text with this prefix. The model then reads only the end of each context. It reads the same number of
    tokens from each context, so shorter contexts are padded at the left.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        contexts: Sequence[Sequence[int]],
        *,
        cached: bool = True,
        known: States | None = None,
    ) -> None:
        self.model, self.cached = model, cached
        options = inspect.signature(model.forward).parameters
        self.keeps_logits = "logits_to_keep" in options
        self.takes_positions = "position_ids" in options
        self.cache_name = "cache" if "cache" in options else "past_key_values"  # for transformers before 5.24
        self.first_position = first_position(model)
        self.cache: Any = None
        self.num_cached = 0  # the number of positions in the cache
        self.encoded: Any = None  # the encoder's output, and its states for each row
        self.states: torch.Tensor | None = None

        contexts, which = distinct([tuple(context) for context in contexts])
        device = input_device(model)
        self.which = torch.tensor(which, device=device)  # for each row, the index of its distinct context
        starts = [context[:-1] for context in contexts]  # the model must read the last token
        self.known = known or self._common(starts)
        self.num_known = 0 if self.known is None else num_shared([*starts, self.known.tokens])  # including padding
        longest = max(map(len, contexts))
        pads = [longest - len(context) for context in contexts]
        rows = [[*[_PAD] * pad, *context] for context, pad in zip(contexts, pads, strict=True)]
        self.contexts = torch.tensor(rows, device=device)
        self.tokens = self.contexts  # the tokens that the model (or its decoder) has read
        self.mask: torch.Tensor | None = None  # 0 for padding, and 1 for other tokens; `None` without padding
        if any(pads):
            self.mask = (torch.arange(longest, device=device) >= torch.tensor(pads, device=device)[:, None]).long()

    def first(self) -> torch.Tensor:
        """Returns the logits of the first token after each context: [contexts, vocabulary]."""
        if self.model.config.is_encoder_decoder:
            self.encoded = self.model.get_encoder()(
                input_ids=self.contexts, attention_mask=torch.ones_like(self.contexts)
            )
            # The encoder's last layer may be on another device.
            self.states = self.encoded.last_hidden_state.to(self.contexts.device)
            start = decoder_start(self.model)
            self.tokens = torch.tensor([start], device=self.contexts.device).expand(len(self.contexts), -1)
            logits = self._run(self.tokens)
        else:
            if self.known is not None and self.num_known:
                self._restore(self.known)
            logits = self._run(self.contexts[:, self.num_known :], self.mask)
        if len(self.which) == len(logits):
            return logits
        self.select(self.which)
        return logits[self.which]

    def next(self, tokens: torch.Tensor) -> torch.Tensor:
        """Appends a token to each row. Returns the logits of the following token: [rows, vocabulary]."""
        self.tokens = torch.cat([self.tokens, tokens[:, None]], 1)
        if self.mask is not None:
            self.mask = torch.cat([self.mask, torch.ones_like(self.mask[:, :1])], 1)
        return self._run(self.tokens if self.cache is None else tokens[:, None], self.mask)

    def after(self, tokens: Sequence[int]) -> torch.Tensor:
        """Returns the logits after additional tokens, for a batch with a single row and without a cache: [vocabulary].

        The object does not change.
        """
        return copy(self)._run(torch.tensor([[*self.tokens[0].tolist(), *tokens]], device=self.contexts.device))[0]

    def select(self, rows: torch.Tensor) -> None:
        """Keeps only these rows. A row may occur several times."""
        self.tokens = self.tokens[rows]
        if self.mask is not None:
            self.mask = self.mask[rows]
        if self.states is not None:
            self.states, self.contexts = self.states[rows], self.contexts[rows]
        if self.cache is not None:
            self.cache.reorder_cache(rows)

    def _common(self, starts: Sequence[Sequence[int]]) -> States | None:
        shared = num_shared(starts)
        if len(starts) == 1 or not shared or not self.cached or self.model.config.is_encoder_decoder:
            return None
        return None if has_changing_rope(self.model) else states_of(self.model, starts[0][:shared])

    def _restore(self, known: States) -> None:
        self.cache, self.num_cached = DynamicCache(config=self.model.config), self.num_known
        pads = [0] * len(self.contexts) if self.mask is None else (self.mask == 0).sum(1).tolist()
        for index, layer in known.layers.items():
            keys, values = (
                pad_sequence(
                    [part[: max(0, self.num_known - pad)] for pad in pads], batch_first=True, padding_side="left"
                ).movedim(1, -2)
                for part in layer
            )
            self.cache.update(keys, values, index)
        self.known = None

    def _run(self, tokens: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        inputs: dict[str, object] = {"input_ids": tokens}
        start = 0 if self.cache is None else self.num_cached
        self.num_cached = start + tokens.shape[1]
        if mask is not None:
            positions = (mask.cumsum(1) - 1).clamp(min=0)[:, start:]
            inputs |= {"attention_mask": mask, "position_ids": positions + self.first_position}
        elif self.takes_positions:  # some models would compute wrong positions from the cache
            positions = torch.arange(start, self.num_cached, device=tokens.device).expand(len(tokens), -1)
            inputs["position_ids"] = positions + self.first_position
        if self.states is not None:
            inputs = {
                "decoder_input_ids": tokens,
                "encoder_outputs": type(self.encoded)(**(dict(self.encoded) | {"last_hidden_state": self.states})),
                "attention_mask": torch.ones(self.states.shape[:2], dtype=torch.int64, device=tokens.device),
            }
            if not self.cached:  # without `input_ids`, FSMT does not mask later tokens
                inputs["input_ids"] = self.contexts
        if self.cache is not None:
            inputs[self.cache_name] = self.cache
        if self.keeps_logits:
            inputs["logits_to_keep"] = 1
        output = self.model(**inputs, use_cache=self.cached)
        # Other types of cache, such as those of some recurrent models, may not allow the selection of rows. They are
        # not used, so such models read all tokens again at each step.
        cache = output.get(self.cache_name) if self.cached else None
        self.cache = cache if type(cache) in (DynamicCache, EncoderDecoderCache) else None
        return output.logits[:, -1]


def states_of(model: PreTrainedModel, text: Sequence[int]) -> States | None:
    """Returns the states of a text, or `None` if the cache does not contain them for all tokens.

    A cache may lack tokens outside of the attention window. It may also contain other states, such as recurrent ones.
    """
    forward = Forward(model, [text])
    forward.first()
    if type(forward.cache) is not DynamicCache:
        return None
    layers = {}
    for index, layer in enumerate(forward.cache.layers):
        if type(layer).__name__ not in _ATTENTION_LAYERS:
            return None
        if layer.keys is None:  # the layer stores nothing
            continue
        if layer.keys.shape[-2] < len(text):
            return None
        layers[index] = layer.keys[0].movedim(-2, 0), layer.values[0].movedim(-2, 0)
    return States(list(text), layers)


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
        half = _first_half(ordered[0])
        rows = [ordered[row] for row in np.linspace(0, len(ordered) - 1, _ROWS).astype(int)]
        alike = [[*half, *row[len(half) :]] for row in rows]
        padded = _agrees(model, alike, steps, _log_ratio, CLOSE / 2)  # half, because both candidates can change
    half = _first_half(longest)
    pair = [longest, [*half, *reversed(longest[len(half) :])]]
    cached = _agrees(model, pair, 1 if padded else steps, _distance, _TOLERANCE)
    return Paths(cached, cached and padded)


def _first_half(context: list[int]) -> list[int]:
    """Returns a common beginning for the contexts of a trial, because such a beginning is computed only once."""
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
) -> bool:
    try:
        largest, in_float32 = measured(
            model, lambda: max(float(difference(*logits)) for logits in _logits(model, contexts, steps))
        )
    except Exception:  # noqa: BLE001 - any error means that the model does not support the method
        return False
    return largest <= (tolerance if in_float32 else _LOW_PRECISION_TOLERANCE)


def _logits(
    model: PreTrainedModel, contexts: list[list[int]], steps: int
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yields the logits of some steps, for all contexts together and for each alone: [contexts, vocabulary] twice."""
    tokens = [list(islice(cycle(reversed(context)), steps)) for context in contexts]
    if steps > _STEPS:
        late = [[*context, *row[:-_STEPS]] for context, row in zip(contexts, tokens, strict=True)]
        yield from _logits(model, late, _STEPS)
        steps = _STEPS
    compared = {0, steps // 2, steps - 1}
    together = Forward(model, contexts)
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
