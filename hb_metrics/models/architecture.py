from collections.abc import Iterable

import torch
from transformers import PreTrainedModel
from transformers.utils import ModelOutput

from hb_metrics.models.devices import input_embeddings


def max_positions_of(model: PreTrainedModel) -> int | None:
    positions = getattr(model.config.get_text_config(decoder=True), "max_position_embeddings", None)
    if positions is None or positions <= 0:
        return None
    return positions - first_position(model)


def num_known_tokens(model: PreTrainedModel) -> int:
    """Returns the number of token embeddings. All token ids are smaller than this number."""
    embeddings = input_embeddings(model)
    if embeddings is None:
        return model.config.vocab_size
    return getattr(embeddings, "num_embeddings", len(embeddings.weight))  # I-BERT's layer has no `num_embeddings`


def check_token_ids(model: PreTrainedModel, texts: Iterable[Iterable[int]]) -> None:
    size = num_known_tokens(model)
    largest = max((token for tokens in texts for token in tokens), default=0)
    if largest >= size:
        raise ValueError(
            f"the tokenizer produced the token id {largest}, but the model has only {size} tokens; load the model's "
            "own tokenizer"
        )


def has_changing_rope(model: PreTrainedModel) -> bool:
    """Returns whether a model's rotary position embeddings depend on the length of the text that it reads.

    transformers writes the frequencies for the latest text into the model, so only one thread at a time may run it.
    """
    types = [str(getattr(module, "rope_type", "")) for module in model.modules()]
    return any("dynamic" in rope or "longrope" in rope for rope in types)


def with_states(encoded: ModelOutput, states: torch.Tensor) -> ModelOutput:
    """Returns a copy of an encoder's output whose states are replaced with `states` [rows, length, width]."""
    return type(encoded)(**(dict(encoded) | {"last_hidden_state": states}))


def first_position(model: PreTrainedModel) -> int:
    """Returns the position id of a text's first token.

    It is 0 in most models. In RoBERTa and similar models, it is one more than the id of the padding token.
    """
    taken = [
        module.padding_idx + 1
        for name, module in model.named_modules()
        if (name.endswith("position_embeddings") or hasattr(module, "create_position_ids_from_input_ids"))
        and getattr(module, "padding_idx", None) is not None
    ]
    return max(taken, default=0)
