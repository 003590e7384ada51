"""What a model computes for one text alone, in one plain call: the reference for batches, trees and caches."""

import torch


@torch.inference_mode()
def log_probabilities(model, context, tokens, start=None):
    """[tokens, vocabulary] where a model writes these tokens after a context; all are token ids.

    An encoder reads the context, and its decoder begins with `start`, by default the model's own start token.
    """
    if model.config.is_encoder_decoder:
        start = start or [getattr(model.config, "decoder_start_token_id", 0)]  # T5Gemma has none
        fed = {"input_ids": torch.tensor([context]), "decoder_input_ids": torch.tensor([[*start, *tokens[:-1]]])}
    else:
        start, fed = context, {"input_ids": torch.tensor([[*context, *tokens[:-1]]])}
    return model(**fed, use_cache=False).logits[0, len(start) - 1 :].double().log_softmax(-1)


def log_likelihood(model, context, tokens, start=None):
    rows = log_probabilities(model, context, tokens, start)
    return sum(row[token].item() for row, token in zip(rows, tokens, strict=True))
