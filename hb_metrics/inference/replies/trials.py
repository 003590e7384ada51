"""Tests whether a model computes correct logits with a cache, and with padding.

Only a trial can show whether the logits are correct. Some architectures raise an error, and others silently compute
wrong numbers.
"""

from collections.abc import Sequence
from itertools import cycle, islice

import torch
from transformers import PreTrainedModel

from hb_metrics.inference.models.architecture import attention_window, max_positions_of
from hb_metrics.inference.models.quantization import is_exact
from hb_metrics.inference.replies.decoding_settings import CLOSE
from hb_metrics.inference.replies.forward import Forward

_STEPS = 2  # the number of tokens that a trial of the cache runs one by one
_BEYOND_WINDOW = 8  # the number of tokens by which a trial of the cache exceeds the attention window
# The largest accepted distance between next-token probabilities with and without a cache. The distance is the total
# variation, averaged over the tokens that are run one by one. Wrong computations differ by about 0.6. In float32,
# rounding errors are far smaller. In half precision, they reach 0.3 in small models with random weights that combine
# recurrence and attention.
_CACHE_TOLERANCE, _LOW_PRECISION_CACHE_TOLERANCE = 0.01, 0.4


def takes_cache(model: PreTrainedModel, contexts: Sequence[Sequence[int]], max_new_tokens: int) -> bool:
    """Returns whether a cache of keys and values leaves the model's outputs unchanged.

    The trial runs the longest context. If replies can exceed the model's attention window, the context is repeated
    until it also exceeds the window.
    """
    if not contexts:
        return True
    longest = max(contexts, key=len)
    fed, more = list(longest), list(longest[-_STEPS:])
    window = attention_window(model)
    if window is not None and not model.config.is_encoder_decoder:
        most = min(len(longest) + max_new_tokens, max_positions_of(model) or len(longest) + max_new_tokens)
        tokens = list(islice(cycle(longest), max(len(longest), min(most, window + _BEYOND_WINDOW))))
        if len(tokens) > len(longest):
            fed, more = tokens[:-_STEPS], tokens[-_STEPS:]

    def probabilities(cached: bool) -> torch.Tensor:
        forward = Forward(model, [fed], cached=cached)
        steps = [forward.first()]
        steps += [forward.next(torch.tensor([token], device=steps[0].device)) for token in more]
        return torch.cat(steps).float().softmax(1)

    with torch.inference_mode():
        expected = probabilities(cached=False)
        try:
            difference = (probabilities(cached=True) - expected)[1:].abs().sum(1).mean() / 2
        except Exception:  # noqa: BLE001 - any error means that the model cannot use a cache
            return False
    return not difference > (_CACHE_TOLERANCE if is_exact(model) else _LOW_PRECISION_CACHE_TOLERANCE)


def takes_padding(model: PreTrainedModel, contexts: Sequence[Sequence[int]], *, cached: bool = True) -> bool:
    """Returns whether contexts of different lengths can be decoded together.

    The trial runs the shortest and the longest context together and separately. In half precision, the result is always
    false, because padding would change the replies.
    """
    ordered = sorted(contexts, key=len)
    if not ordered or len(ordered[0]) == len(ordered[-1]) or model.config.is_encoder_decoder or not is_exact(model):
        return False
    trial = [ordered[0], ordered[-1]]

    def log_probs(given: Sequence[Sequence[int]]) -> torch.Tensor:
        forward = Forward(model, given, cached=cached)
        first = forward.first()
        more = torch.tensor([context[-1] for context in given], device=first.device)
        return torch.stack([first, forward.next(more)]).float().log_softmax(2)

    try:
        with torch.inference_mode():
            together = log_probs(trial)
            alone = torch.cat([log_probs([context]) for context in trial], 1)
    except Exception:  # noqa: BLE001 - any error means that the model does not support padding
        return False
    return bool((together - alone).abs().max() < CLOSE / 2)  # half, because the logits of both candidates can change
