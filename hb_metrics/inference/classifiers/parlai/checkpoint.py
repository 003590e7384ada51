"""Reads a ParlAI checkpoint: its options, labels and weights, without ParlAI and without running code in it."""

import json
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, NamedTuple

import torch


class Checkpoint(NamedTuple):
    """The content of a checkpoint's files.

    Attributes:
        path: The file with its weights.
        opt: Its options.
        weights: Name → tensor.
        style: Whether it is a `style_gen` classifier (an encoder and a decoder); else a `transformer/classifier`.
    """

    path: Path
    opt: dict[str, Any]
    weights: dict[str, torch.Tensor]
    style: bool

    @property
    def agent(self) -> str:
        """The ParlAI agent that its options name."""
        return str(self.opt.get("model", "unknown"))

    @property
    def kind(self) -> str:
        """Its subject: "style" or "safety"."""
        return "style" if self.style else "safety"

    @property
    def option(self) -> str:
        """The option of `measure` that takes the converted classifier."""
        return "style_classifier" if self.style else "offensiveness_classifier"

    @property
    def head(self) -> str:
        """The name of its last layer's weights."""
        return f"{'classifier_head' if self.style else 'additional_linear_layer'}.weight"


@contextmanager
def reading(path: Path | str) -> Iterator[None]:
    """Turns any error in reading a file into one that names the file."""
    try:
        yield
    except OSError as error:
        raise OSError(
            f"{path} does not exist or cannot be read ({error.strerror}); pass the file of a ParlAI checkpoint with "
            "all of its files beside it, or their folder"
        ) from error
    except Exception as error:  # a file of another form may raise anything
        raise ValueError(
            f"{path} is damaged or does not belong to a ParlAI checkpoint ({one_line(error)}); download it again"
        ) from error


def one_line(error: BaseException) -> str:
    """The beginning of an error's message, in one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"


def read_checkpoint(path: str | Path) -> Checkpoint:
    """Reads a checkpoint's options and weights.

    Args:
        path: Its file, such as `data/models/style_gen/curr_only_classifier/model`, or the folder with the file `model`.

    Raises:
        ValueError: The file is no checkpoint of a convertible classifier, or contains more than weights.
        OSError: The file does not exist.
    """
    path = Path(path)
    if path.is_dir():
        path /= "model"
    with reading(f"{path}.opt"):
        opt = dict(json.loads(Path(f"{path}.opt").read_text(encoding="utf-8")))
    weights = _read_weights(path)
    parts = {name.partition(".")[0] for name in weights}
    checkpoint = Checkpoint(path, opt, weights, {"classifier_head", "encoder", "decoder"} <= parts)
    if checkpoint.head not in weights or not (checkpoint.style or "transformer" in parts):
        raise ValueError(
            f"{path} is of the agent '{checkpoint.agent}', whose weights are not those of a classifier that can be "
            "converted: projects.style_gen.classifier (classifier_head and decoder) or transformer/classifier "
            "(additional_linear_layer)"
        )
    _check_options(checkpoint)
    return checkpoint


def _read_weights(path: Path) -> dict[str, torch.Tensor]:
    with reading(path):
        try:
            states = torch.load(path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(path))
        except UnpicklingError as error:
            # torch's message says how to load the file nevertheless, over many lines.
            raise ValueError(
                f"it contains Python objects beside its weights, or is not a pickle; objects are not unpickled "
                f"because they may run any code: remove them with `parlai vacuum -mf {path}`, in a separate environment"
            ) from error
        weights: dict[str, torch.Tensor] = dict(states["model"])
    return weights


def _check_options(checkpoint: Checkpoint) -> None:
    """Raises for options whose tokens or head in ParlAI differ from `ParlaiTokenizer` and `ParlaiClassifier`."""
    opt, encoder = checkpoint.opt, not checkpoint.style
    absent = ("person_tokens", "history_reversed", "special_tok_lst", "add_p1_after_newln", "dict_lower")
    fits = {option: not opt.get(option) for option in absent}
    variant = opt.get("variant", "aiayn")
    fits["variant"] = variant == "prelayernorm" or (variant == "xlm" and encoder)
    fits["n_heads"] = opt["embedding_size"] % opt["n_heads"] == 0
    fits["activation"] = opt.get("activation", "relu") in ("relu", "gelu")
    fits["reduction_type"] = not encoder or opt.get("reduction_type", "first") == "first"
    fits["dict_tokenizer"] = opt.get("dict_tokenizer", "re") == "bytelevelbpe"
    for option, is_fit in fits.items():
        if not is_fit:
            raise ValueError(
                f"{checkpoint.path}.opt: {option} is {opt.get(option)!r}; classifiers with the paper's settings can be "
                "converted (variant prelayernorm or xlm, activation relu or gelu, reduction_type first, dict_tokenizer "
                "bytelevelbpe, no tokens for persons)"
            )


def read_labels(checkpoint: Checkpoint, labels_file: str | Path | None) -> list[str]:
    """Reads the labels of a checkpoint's outputs, in their order.

    Args:
        checkpoint: The checkpoint; a `transformer/classifier` names its classes in its options.
        labels_file: A file with one label per line, such as ParlAI's `personality_list.txt`; `None`: there is none.

    Raises:
        ValueError: There are no labels, a label occurs twice, or their number is not that of the outputs.
        OSError: The file does not exist.
    """
    path, opt = checkpoint.path, checkpoint.opt
    outputs, classes = len(checkpoint.weights[checkpoint.head]), list(opt.get("classes") or [])
    if labels_file is not None:
        with reading(labels_file):
            labels = Path(labels_file).read_text(encoding="utf-8-sig").splitlines()  # as ParlAI splits it
    elif classes and (checkpoint.style or opt.get("ref_class") not in classes[1:]):
        labels = [str(label) for label in classes]
    else:  # ParlAI moves its ref_class before the other classes
        raise ValueError(
            f"{path}.opt does not tell the order of the labels (classes {classes}, ref_class {opt.get('ref_class')!r}, "
            f"classes_from_file {opt.get('classes_from_file')!r}); pass them with --labels FILE, one label per line "
            f"in the order of the classifier's outputs"
        )
    known = sorted(map(str, classes)) if classes else sorted(labels)
    if len(set(labels)) != outputs or len(labels) != outputs or sorted(labels) != known:
        raise ValueError(
            f"{labels_file or path}: the classifier has {outputs} outputs, its options name the classes {classes}, and "
            f"the labels are {labels}; pass one label per output, none twice, in the order of the outputs"
        )
    return labels
