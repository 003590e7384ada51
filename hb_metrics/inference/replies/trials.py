"""Trials of what a model can do when it decodes: continue from a cache, and take padding.

Neither can be read off its class: some architectures raise, some silently compute something else.
"""

from collections.abc import Sequence
from itertools import cycle, islice

import torch
from transformers import PreTrainedModel

from hb_metrics.inference.models.architecture import attention_window, max_positions_of
from hb_metrics.inference.models.quantization import is_exact
from hb_metrics.inference.replies.decoding_settings import CLOSE
from hb_metrics.inference.replies.forward import Forward

# Tokens that are run one by one in a trial of the cache, and how far beyond an attention window it reaches.
_STEPS = 2
_BEYOND_WINDOW = 8
# How far (total variation, the mean of these tokens) next-token probabilities with a cache may be from those without
# one. In float32 their noise is far below; in half precision it reaches 0.3 in small random hybrids, and what is
# computed wrongly is off by 0.6.
_CACHE_TOLERANCE, _LOW_PRECISION_CACHE_TOLERANCE = 0.01, 0.4


def takes_cache(model: PreTrainedModel, contexts: Sequence[Sequence[int]], max_new_tokens: int) -> bool:
    """Whether the model computes the same with keys and values kept from token to token as without.

    Tried on the longest context; where replies get longer than an attention window, on tokens beyond it.

    Args:
        model: The model.
        contexts: Token ids.
        max_new_tokens: How many tokens may follow.
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
        """After the context, and after each token more: [1 + tokens, vocabulary]."""
        forward = Forward(model, [fed], cached=cached)
        steps = [forward.first()]
        steps += [forward.next(torch.tensor([token], device=steps[0].device)) for token in more]
        return torch.cat(steps).float().softmax(1)

    with torch.inference_mode():
        expected = probabilities(cached=False)
        try:
            difference = (probabilities(cached=True) - expected)[1:].abs().sum(1).mean() / 2
        except Exception:  # noqa: BLE001 - whatever it is, all tokens are then run each time
            return False
    return not difference > (_CACHE_TOLERANCE if is_exact(model) else _LOW_PRECISION_CACHE_TOLERANCE)


def takes_padding(model: PreTrainedModel, contexts: Sequence[Sequence[int]], *, cached: bool = True) -> bool:
    """Whether contexts of several lengths can be decoded together: tried on the shortest and the longest.

    In half precision replies depend on their batch, which is then kept as plain as can be.

    Args:
        model: The model.
        contexts: Token ids.
        cached: Whether it `takes_cache`.
    """
    ordered = sorted(contexts, key=len)
    if not ordered or len(ordered[0]) == len(ordered[-1]) or model.config.is_encoder_decoder or not is_exact(model):
        return False
    trial = [ordered[0], ordered[-1]]

    def log_probs(given: Sequence[Sequence[int]]) -> torch.Tensor:
        """After the context, and after one more token: [2, contexts, vocabulary]."""
        forward = Forward(model, given, cached=cached)
        first = forward.first()
        more = torch.tensor([context[-1] for context in given], device=first.device)
        return torch.stack([first, forward.next(more)]).float().log_softmax(2)

    try:
        with torch.inference_mode():
            together = log_probs(trial)
            alone = torch.cat([log_probs([context]) for context in trial], 1)
    except Exception:  # noqa: BLE001 - whatever it is, contexts of one length are then decoded together
        return False
    return bool((together - alone).abs().max() < CLOSE / 2)  # two candidates can move towards each other
