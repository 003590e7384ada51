"""Reads a model's architecture, and finds the tokens that it reads before the first token of a text or a reply."""

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from hb_metrics.models.processes import input_device, input_embeddings


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
        raise ValueError(f"token id {largest} exceeds the model's {size} tokens; load the model's own tokenizer")


def has_changing_rope(model: PreTrainedModel) -> bool:
    """Returns whether a model's rotary position embeddings depend on the length of the text that it reads.

    transformers writes the frequencies for the latest text into the model, so only one thread at a time may run it.
    """
    types = [str(getattr(module, "rope_type", "")) for module in model.modules()]
    return any("dynamic" in rope or "longrope" in rope for rope in types)


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


_GREETING = "Hi"  # a prompt for which a decoder is asked how it begins its replies


def text_start(tokenizer: PreTrainedTokenizerBase, text: str) -> list[int]:
    """Returns the tokens that a causal model reads before texts, of which `text` is an example.

    They are the tokens that the tokenizer adds, such as `[gMASK]<sop>`. If it adds none, they are the BOS token, or
    nothing if there is no BOS token.
    """
    bos = [] if tokenizer.bos_token_id is None else [tokenizer.bos_token_id]
    return added_around(tokenizer, text)[0] or bos


def num_shared(sequences: Sequence[Sequence[Any]]) -> int:
    """Returns the length of the sequences' longest common prefix."""
    number = 0
    for items in zip(*sequences, strict=False):
        if len(set(items)) > 1:
            break
        number += 1
    return number


def decoder_start(model: PreTrainedModel) -> list[int]:
    """Returns the tokens with which transformers begins each reply of a decoder: its start and a forced first token."""
    config = model.generation_config
    known = [config.decoder_start_token_id, config.bos_token_id, getattr(model.config, "decoder_start_token_id", None)]
    # T5Gemma defines no other start, and the configs of T5 and Pegasus have no such attribute.
    known.append(getattr(model.config.get_text_config(decoder=True), "bos_token_id", None))
    start = _one_token(next((token for token in known if token is not None), None), "decoder_start_token_id")
    if not start:
        raise ValueError("generation_config.json has no decoder_start_token_id; set it to the decoder's start token")
    return start + _one_token(config.forced_bos_token_id, "forced_bos_token_id")


@torch.inference_mode()
def decoder_prefix(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """Returns the tokens that a decoder reads before the first word of a reply. Models without an encoder read none.

    Even if no token is forced, some models were trained to write a special token before the first word: LED writes a
    BOS token, and translation models write a language code. If the decoder is likely to begin with such tokens, they
    are included.
    """
    if not model.config.is_encoder_decoder:
        return []
    prefix = decoder_start(model)
    special = {token for token, added in tokenizer.added_tokens_decoder.items() if added.special}
    special |= set(tokenizer.all_special_ids)
    marks = special - {tokenizer.eos_token_id, tokenizer.pad_token_id, tokenizer.unk_token_id}
    given = tokenizer(_GREETING)["input_ids"]
    check_token_ids(model, [given])
    for _ in added_around(tokenizer, _GREETING)[0][len(prefix) - 1 :]:
        encoder, decoder = (torch.tensor([tokens], device=input_device(model)) for tokens in (given, prefix))
        logits = model(input_ids=encoder, decoder_input_ids=decoder, use_cache=False).logits[0, -1]
        probability, token = logits.float().softmax(-1).max(-1)
        if probability < 1 / 2 or int(token) not in marks:
            break
        prefix.append(int(token))
    return prefix


def added_around(tokenizer: PreTrainedTokenizerBase, text: str) -> tuple[list[int], list[int]]:
    """Returns the special tokens that the tokenizer adds before and after a text."""
    whole, inner = (list(tokenizer(text, add_special_tokens=special)["input_ids"]) for special in (True, False))
    start = next((start for start in range(len(whole)) if whole[start : start + len(inner)] == inner), 0)
    return whole[:start], whole[start + len(inner) :]


def _one_token(ids: int | list | None, name: str) -> list[int]:
    tokens = ids if isinstance(ids, list) else [] if ids is None else [ids]
    if len(tokens) > 1 or any(isinstance(token, list) for token in tokens):
        raise ValueError(f"{name} is {ids} in the model's generation_config.json; set it to a single token id")
    return [*tokens]
