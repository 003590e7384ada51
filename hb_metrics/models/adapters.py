import warnings
from collections.abc import Mapping
from pickle import UnpicklingError
from typing import Any

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from hb_metrics.models.memory import first_line, is_out_of_memory
from hb_metrics.models.processes import input_device, is_offloaded
from hb_metrics.models.sources import Adapter, file_of

_TRIAL_TOKENS = 8
_SHOWN = 3  # the maximum number of weights that an error names
_WHOLE_LAYER = ".modules_to_save."


def with_adapter(
    model: PreTrainedModel, adapter: Adapter, name: str, tokenizer: PreTrainedTokenizerBase, num_known: int
) -> PreTrainedModel:
    """Returns a model with its adapter. `num_known` is the number of tokens that the model knows without it."""
    from peft import PeftConfig, PeftModel, load_peft_weights
    from peft.utils import SAFETENSORS_WEIGHTS_NAME, WEIGHTS_NAME

    if is_offloaded(model):
        raise ValueError(f"the adapter '{adapter.name}' needs a model that is not offloaded; use more devices")
    if not any(file_of(adapter.name, file, adapter.revision) for file in (SAFETENSORS_WEIGHTS_NAME, WEIGHTS_NAME)):
        raise FileNotFoundError(
            f"the adapter '{adapter.name}' has no {SAFETENSORS_WEIGHTS_NAME}; download it again, or save it again"
        )
    config = PeftConfig.from_pretrained(adapter.name, revision=adapter.revision)
    if config.is_prompt_learning:
        raise _beyond_layers(adapter)
    config.inference_mode = True
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the checks below raise errors instead
        try:
            weights = load_peft_weights(adapter.name, device="cpu", revision=adapter.revision)
            _resize_embeddings(model, tokenizer, weights, config, num_known)
            wrapped = PeftModel(model, config)
            result = wrapped.load_adapter(adapter.name, "default", revision=adapter.revision, is_trainable=False)
        except UnpicklingError as error:
            raise unsafe_weights(f"the adapter '{adapter.name}'") from error
        except (RuntimeError, ValueError, KeyError, TypeError, AttributeError) as error:
            if is_out_of_memory(error):
                raise MemoryError(
                    f"there is not enough memory to load the adapter '{adapter.name}' ({first_line(error)}); use a "
                    "machine or device with more memory, or start fewer processes per machine"
                ) from error
            lines = [line.strip() for line in str(error).splitlines()]
            fault = next((line for line in lines if "size mismatch" in line), first_line(error))
            raise _unfit(adapter, name, fault) from error
    unfit = [*result.missing_keys, *(key for key in result.unexpected_keys if not _is_stored_twice(key, weights))]
    if unfit:
        raise _unfit(adapter, name, f"only one of them has the weights {', '.join(sorted(unfit)[:_SHOWN])}")
    wrapped.eval()
    base: PreTrainedModel = wrapped.get_base_model()
    if not _changes_only_layers(wrapped, base):
        raise _beyond_layers(adapter)
    keep_slices_whole(base)
    return base


def keep_slices_whole(model: PreTrainedModel) -> None:
    """Makes torch multiply all rows of a slice of states by the output layer's weights at once.

    The weights below an adapter are frozen. If a slice is not contiguous, torch multiplies each of its rows by its own
    copy of frozen weights, which on CPUs takes up to a thousand times as long.
    """
    output = model.get_output_embeddings()
    if output is not None:
        output.register_forward_pre_hook(lambda _, inputs: tuple(states.contiguous() for states in inputs))


def unsafe_weights(what: str) -> OSError:
    """Returns an error to raise in place of torch's error, whose message recommends unsafe unpickling."""
    return OSError(f"the weights of {what} are a pickle that could run any code; download them as safetensors")


def _beyond_layers(adapter: Adapter) -> ValueError:
    return ValueError(f"the adapter '{adapter.name}' changes more than layers; pass one such as LoRA")


def _unfit(adapter: Adapter, name: str, fault: str) -> ValueError:
    return ValueError(
        f"the adapter '{adapter.name}', trained on '{adapter.trained_on}', does not fit model '{name}': {fault}"
    )


def _is_stored_twice(key: str, weights: Mapping[str, torch.Tensor]) -> bool:
    """Returns whether the file stores the same weights under a second key, as peft does for trained embeddings."""
    other = weights.get(key.replace(_WHOLE_LAYER, "."))
    return _WHOLE_LAYER in key and other is not None and torch.equal(weights[key], other)


def _resize_embeddings(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    weights: Mapping[str, torch.Tensor],
    config: Any,
    num_known: int,
) -> None:
    """Gives the model as many embeddings as the adapter contains or trains, if it does so for any."""
    embeddings = (model.get_input_embeddings(), model.get_output_embeddings())
    rows = embeddings[0].weight.shape[0]
    names = tuple(f"{path}.weight" for path, module in model.named_modules() if module in embeddings)
    saved = {len(tensor) for key, tensor in weights.items() if "lora_" not in key and key.endswith(names)}
    indices = getattr(config, "trainable_token_indices", None) or []
    lists = indices.values() if isinstance(indices, dict) else [indices]
    trained = {index for each in lists for index in each}
    needed = saved.pop() if len(saved) == 1 else max({rows - 1} | trained) + 1
    if needed != rows:
        model.resize_token_embeddings(needed, mean_resizing=False)
    untrained = set(range(num_known, len(tokenizer))) - trained
    if len(tokenizer) > max(needed, num_known) or (untrained and max(trained, default=0) >= rows):
        raise ValueError(
            f"its tokenizer has {len(tokenizer):,} tokens, but the model has embeddings for only {rows:,}, and the "
            "adapter does not contain the missing embeddings; save the adapter again with save_embedding_layers=True"
        )


def _changes_only_layers(wrapped: Any, base: PreTrainedModel) -> bool:
    """Tests whether the adapter changes only layers. If so, its wrapper does not affect the outputs."""
    tokens = torch.arange(_TRIAL_TOKENS, device=input_device(base))[None] % base.get_input_embeddings().weight.shape[0]
    inputs = {"input_ids": tokens, **({"decoder_input_ids": tokens} if base.config.is_encoder_decoder else {})}
    with torch.inference_mode():
        return torch.equal(wrapped(**inputs).logits, base(**inputs).logits)
