from collections.abc import Callable, Sequence
from copy import copy

import torch
from transformers import GenerationConfig, LogitsProcessorList, PreTrainedModel, StoppingCriteriaList

from hb_metrics.collect.replies.decoding_settings import Decoded, Decoding
from hb_metrics.collect.replies.sampling import allowed, not_finite, table_of
from hb_metrics.models.architecture import decoder_start, first_position
from hb_metrics.models.contexts import EndTokens
from hb_metrics.models.processes import input_device


def beam_search(
    model: PreTrainedModel, context: Sequence[int], decoding: Decoding, ends: EndTokens, *, cached: bool
) -> Decoded:
    """Decodes the reply to one context by the beam search of transformers, with `early_stopping=False`."""
    device = input_device(model)
    inputs = torch.tensor([context], device=device)
    start = decoder_start(model) if model.config.is_encoder_decoder else []
    if start:
        read = {"decoder_input_ids": torch.tensor([start], device=device)}
    elif first := first_position(model):  # `generate` would count from 0
        read = {"position_ids": torch.arange(first, first + len(context), device=device)[None]}
    else:
        read = {}
    num_read = len(start or context)
    restrict, has_ended = _rules(decoding, ends, num_read, model.get_output_embeddings().weight.shape[0], device)
    # `generate` would add settings from the model's own generation_config.
    writer = copy(model)
    writer.generation_config = GenerationConfig()
    output = writer.generate(
        inputs,
        attention_mask=torch.ones_like(inputs),
        generation_config=GenerationConfig(
            num_beams=decoding.num_beams,
            do_sample=False,
            max_new_tokens=decoding.max_new_tokens,
            length_penalty=decoding.length_penalty,
            decoder_start_token_id=start[0] if start else None,
            use_cache=cached and not model._is_stateful,
        ),
        logits_processor=LogitsProcessorList([restrict]),
        stopping_criteria=StoppingCriteriaList([has_ended]),
        **read,
    )
    reply = output[0, num_read:].tolist()
    over = bool(has_ended(output, None))
    is_dropped = over and reply[-1] in {*ends.dropped, *ends.marks}
    return Decoded(reply[:-1] if is_dropped else reply, truncated=not over)


def _rules(
    decoding: Decoding, ends: EndTokens, num_read: int, size: int, device: torch.device
) -> tuple[Callable[..., torch.Tensor], Callable[..., torch.Tensor]]:
    """Returns the functions that exclude next tokens and that find ended replies.

    The options of `generate` would end a reply at a line break before its first word, and block n-grams of the context.
    """
    dropped, marks, kept = (table_of(ids, size, device) for ids in (ends.dropped, ends.marks, ends.kept))
    passed = table_of([*ends.marks, *ends.blank], size, device)

    def ending(replies: torch.Tensor) -> torch.Tensor:  # [rows, vocabulary]
        begun = ~passed[replies].all(1, keepdim=True)
        return dropped | ((marks | kept) & (begun | ~passed))

    def restrict(tokens: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        highest, replies = scores.amax(1), tokens[:, num_read:]
        if not highest.isfinite().all():
            raise not_finite(highest)
        short = torch.full((1, 1), replies.shape[1] < decoding.min_new_tokens, device=device)
        return allowed(scores, replies, decoding.no_repeat_ngram_size, None, ending(replies), short)

    def has_ended(tokens: torch.Tensor, scores: object) -> torch.Tensor:  # [rows]
        replies = tokens[:, num_read:]
        return ending(replies[:, :-1]).gather(1, replies[:, -1:])[:, 0]

    return restrict, has_ended
