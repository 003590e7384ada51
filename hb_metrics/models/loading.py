import json
import re
from dataclasses import dataclass
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, Literal

import torch
from huggingface_hub import constants
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForImageTextToText,
    AutoModelForMaskedLM,
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    GenerationConfig,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES,
    MODEL_FOR_MASKED_LM_MAPPING_NAMES,
    MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES,
)
from transformers.tokenization_utils_base import TOKENIZER_CONFIG_FILE

from hb_metrics.models.adapters import unsafe_weights, with_adapter
from hb_metrics.models.chats import without_tag
from hb_metrics.models.float32 import quantization_of
from hb_metrics.models.memory import first_line, is_out_of_memory
from hb_metrics.models.sources import EMBEDDED, Adapter, file_of, find_source, identify

# These patterns recognise checkpoints that were trained for another task, such as classification. They can be loaded
# without missing weights if the language-modelling head has the same weights as the embeddings. However, such a model
# is no longer a language model, so its likelihoods are meaningless.
_LANGUAGE_HEAD = re.compile(r"For[A-Z]\w*(LM|Generation|PreTraining|Seq2Seq)|LMHead|MTModel$")
_OTHER_HEAD = re.compile(r"For[A-Z]|Reward|Classif|Regress|Scor(e|ing)|Critic|Rank")
_OTHER_WEIGHTS = re.compile(r"(^|\.)(score|classifier|classification_head|qa_outputs|(reward|value|regression)_head)\.")

ModelKind = Literal["causal", "masked", "encoder-decoder"]


@dataclass(frozen=True, kw_only=True)
class LoadedTokenizer:
    """A model's tokenizer and config, without the weights.

    `digest` is the commit on the Hub, or a SHA-256 digest of the folder's files.
    """

    tokenizer: PreTrainedTokenizerBase
    config: PreTrainedConfig
    kind: ModelKind
    name: str
    source: str
    revision: str | None
    digest: str
    adapter: Adapter | None = None


@dataclass(frozen=True, kw_only=True)
class LoadedModel(LoadedTokenizer):
    """A model in evaluation mode, on its device. Its layers include the adapter, if there is one."""

    model: PreTrainedModel
    dtype: str


def load_tokenizer(
    name: str, *, revision: str | None = None, adapter: str | None = None, trust_remote_code: bool = False
) -> LoadedTokenizer:
    """Loads a model's config and tokenizer (see `load_model`). An adapter's own tokenizer takes precedence."""
    source = find_source(name, revision, adapter)
    config, digest, revision = read_config(
        source.name, source.model, source.revision, sought="model", trust_remote_code=trust_remote_code
    )
    kind, added = model_kind(config), source.adapter
    own = (source.model, source.name, revision)
    if added is not None and file_of(added.name, TOKENIZER_CONFIG_FILE, added.revision):
        own = (added.name, added.name, added.revision)
    return LoadedTokenizer(
        tokenizer=tokenizer_from(*own, trust_remote_code),
        config=config,
        kind=kind,
        name=source.name,
        source=source.model,
        revision=revision,
        digest=digest,
        adapter=added,
    )


def auto_class_of(loaded: LoadedTokenizer) -> Any:
    classes = {"causal": AutoModelForCausalLM, "masked": AutoModelForMaskedLM, "encoder-decoder": AutoModelForSeq2SeqLM}
    return AutoModelForImageTextToText if _reads_images(loaded.config) else classes[loaded.kind]


def load_model(
    name: str,
    *,
    revision: str | None = None,
    adapter: str | None = None,
    dtype: str = "auto",
    device: str | torch.device = "cpu",
    device_map: str | dict[str, object] | None = None,
    trust_remote_code: bool = False,
    quantization_config: Any = None,
) -> LoadedModel:
    """Loads a model and its tokenizer.

    Args:
        name: `"embedded"`, a Hub id or a folder. If the id or the folder is an adapter, its base model is loaded with
            the adapter.
        revision: The branch, tag or commit of a Hub id.
        adapter: The folder or the Hub id of an adapter. An id may have a revision: `id@revision`.
        dtype: `"float32"`, `"bfloat16"`, `"float16"` or `"auto"`. On CPU, `"auto"` means float32, because bfloat16
            changes perplexities by several percent there. On other devices, and for quantised checkpoints, `"auto"`
            means the checkpoint's own type.
        device: The device for the model.
        device_map: Spreads the model over all devices of the machine: "auto", "balanced", "sequential",
            "balanced_low_0", or a mapping from modules to devices. `None` loads the whole model onto `device`.
        trust_remote_code: Whether code that comes with the model may run on this machine.
        quantization_config: How to quantise the weights while they are loaded, for QLoRA.

    Raises:
        ValueError: The model is not a causal, masked or encoder–decoder language model.
        OSError: The model or its tokenizer does not exist or cannot be loaded.
        ImportError: A package that a quantised checkpoint or an adapter needs is not installed.
        MemoryError: There is not enough memory for the weights.
    """
    device = torch.device(device)
    loaded = load_tokenizer(name, revision=revision, adapter=adapter, trust_remote_code=trust_remote_code)
    name = loaded.name
    auto_class = auto_class_of(loaded)
    if dtype == "auto" and device.type == "cpu" and quantization_of(loaded.config) is None:
        dtype = "float32"
    hub: dict[str, object] = {"revision": loaded.revision, "trust_remote_code": trust_remote_code}
    if quantization_config is not None:
        hub["quantization_config"] = quantization_config
    # Weights are loaded directly onto the device. Otherwise, every process would first hold them in host memory.
    model, unexpected = model_from(
        auto_class, loaded.source, name, dtype=dtype, device_map=device_map or {"": device}, **hub
    )
    others = sorted(filter(_OTHER_WEIGHTS.search, unexpected))
    if others and not _has_language_head(loaded.config):
        raise _other_head(f"'{name}' ({', '.join(others[:3])})")
    model.eval()
    if loaded.adapter is not None:
        num_known = model.get_input_embeddings().weight.shape[0]
        if len(loaded.tokenizer) > num_known:  # some tokenizers have more tokens than their own model has embeddings
            base = tokenizer_from(loaded.source, name, loaded.revision, trust_remote_code)
            num_known = max(num_known, len(base))
        model = with_adapter(model, loaded.adapter, name, loaded.tokenizer, num_known)
    return LoadedModel(**vars(loaded), model=model, dtype=str(model.dtype).removeprefix("torch."))


def read_config(
    name: str, source: str, revision: str | None, *, sought: str, trust_remote_code: bool
) -> tuple[PreTrainedConfig, str, str | None]:
    """Reads the config of a model or classifier.

    `name` and the noun `sought` ("model" or "sequence classifier") are for error messages.

    Returns:
        The config, the digest of the model's files, and the commit on the Hub (`None` for a folder).
    """
    try:
        digest, revision = identify(source, revision)
        config = AutoConfig.from_pretrained(source, revision=revision, trust_remote_code=trust_remote_code)
    except ImportError:
        raise
    except Exception as error:  # a damaged file may raise any error
        if "trust_remote_code" in str(error):
            raise _contains_code(f"{sought} '{name}'") from error
        raise OSError(
            f"{sought} '{name}' does not exist, or its config.json is damaged; pass '{EMBEDDED}', a local folder with "
            f"a config.json, or the id of a {sought} on the Hub (which needs a connection, or an earlier download). "
            f"{_reason(error)}"
        ) from error
    if not trust_remote_code:
        _reject_hub_code(config, f"{sought} '{name}'")
    return config, digest, revision


def _contains_code(what: str) -> OSError:
    return OSError(f"{what} contains code; if you trust it, set --trust_remote_code true")


def _reject_hub_code(config: PreTrainedConfig, what: str) -> None:
    for implementation in (config._attn_implementation, getattr(config, "_experts_implementation", None)):
        if implementation is not None and "/" in implementation:
            raise OSError(
                f"the config.json of {what} runs code from '{implementation}' on the Hub as its implementation; remove "
                "attn_implementation and experts_implementation from the config, or read the code and pass "
                "--trust_remote_code true"
            )
    for part in config.sub_configs:
        inner = getattr(config, part, None)
        if isinstance(inner, PreTrainedConfig):
            _reject_hub_code(inner, what)


def tokenizer_from(
    source: str, name: str, revision: str | None = None, trust_remote_code: bool = False
) -> PreTrainedTokenizerBase:
    try:
        tokenizer = AutoTokenizer.from_pretrained(source, revision=revision, trust_remote_code=trust_remote_code)
        # For some types of models, transformers creates an empty tokenizer if a folder has no tokenizer files.
        if len(tokenizer) <= len(tokenizer.all_special_ids):
            raise LookupError("Its vocabulary is empty.")
        if not tokenizer.chat_template:
            tokenizer.chat_template = _processor_template(source, revision)
        if isinstance(tokenizer.chat_template, str):
            tokenizer.chat_template = without_tag(tokenizer.chat_template)  # prompts get their tag before the template
    except Exception as error:  # a file of the wrong form may raise any error
        if "trust_remote_code" in str(error):
            raise _contains_code(f"the tokenizer of '{name}'") from error
        raise OSError(
            f"the tokenizer of '{name}' cannot be loaded; save it with save_pretrained. {_reason(error)}"
        ) from error
    return tokenizer


def _processor_template(source: str, revision: str | None) -> str | dict[str, str] | None:
    """Returns the chat template of a model that reads images, whose files AutoTokenizer does not read."""
    for name in ("processor_config.json", "chat_template.json"):
        path = file_of(source, name, revision)
        if path is not None and (template := json.loads(path.read_text(encoding="utf-8")).get("chat_template")):
            return template
    return None


def model_from(auto_class: Any, source: str, name: str, **settings: Any) -> tuple[PreTrainedModel, set[str]]:
    """Runs an auto class's `from_pretrained`. A pickle is loaded only if it contains nothing but tensors.

    Returns the model, and the names of the checkpoint's weights that the model does not have.
    """
    try:
        if (Path(source) / "generation_config.json").is_file():
            GenerationConfig.from_pretrained(source)  # raises errors that a model's `from_pretrained` ignores
    except (OSError, ValueError, TypeError) as error:
        raise OSError(f"generation_config.json of '{name}' is not valid; correct it. {first_line(error)}") from error
    try:
        model, loading = auto_class.from_pretrained(source, output_loading_info=True, **settings)
    except UnpicklingError as error:
        raise unsafe_weights(f"model '{name}'") from error
    except ImportError:
        raise
    except Exception as error:  # damaged or missing files may raise any error
        if is_out_of_memory(error):
            raise MemoryError(
                f"there is not enough memory to load model '{name}' ({first_line(error)}); use a machine or device "
                "with more memory, or several devices (device_map auto), start fewer processes per machine, or load "
                "the weights as bfloat16 (dtype)"
            ) from error
        raise OSError(f"the weights of '{name}' cannot be loaded; download them again. {_reason(error)}") from error
    if loading["missing_keys"]:
        raise ValueError(
            f"model '{name}' lacks the weights {', '.join(sorted(loading['missing_keys'])[:3])}, so they would be "
            "random; pass a checkpoint that contains its head"
        )
    return model, loading["unexpected_keys"]


def model_kind(config: PreTrainedConfig) -> ModelKind:
    architectures = set(config.architectures or [])
    other = [name for name in architectures if _OTHER_HEAD.search(name)]
    if other and not _has_language_head(config):
        raise _other_head(", ".join(sorted(other)))
    if config.is_encoder_decoder and config.model_type in MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES:
        return "encoder-decoder"
    # Several types, such as BERT and RoBERTa, can be masked or causal. The architectures in the checkpoint's config
    # determine which it is.
    masked = MODEL_FOR_MASKED_LM_MAPPING_NAMES.get(config.model_type)
    causal = MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.get(config.model_type)
    if masked is not None and (causal is None or causal not in architectures):
        return "masked"
    if causal is not None or any(name.endswith("ForCausalLM") for name in architectures) or _reads_images(config):
        return "causal"
    raise ValueError(
        f"a model of type '{config.model_type}' ({', '.join(sorted(architectures)) or 'no architecture'}) does not "
        "compute likelihoods of sentences; pass a causal, masked or encoder-decoder language model"
    )


def _reads_images(config: PreTrainedConfig) -> bool:
    return (
        config.model_type in MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES
        and config.model_type not in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
        and not config.is_encoder_decoder
    )


def _has_language_head(config: PreTrainedConfig) -> bool:
    known = [
        MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.get(config.model_type),
        MODEL_FOR_MASKED_LM_MAPPING_NAMES.get(config.model_type),
        MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES.get(config.model_type),
    ]
    return any(name in known or _LANGUAGE_HEAD.search(name) for name in config.architectures or [])


def _other_head(what: str) -> ValueError:
    return ValueError(f"the checkpoint of {what} has the head of another task; pass a language model")


def _reason(error: Exception) -> str:
    offline = "HF_HUB_OFFLINE (or TRANSFORMERS_OFFLINE) is set, so only earlier downloads are used."
    return f"{first_line(error)} {offline if constants.HF_HUB_OFFLINE else ''}".strip()
