"""Reading a ParlAI checkpoint: its options, labels and weights, without ParlAI and without running what is in it."""

import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, NamedTuple

import torch

OPT_ERROR = (
    "{path} is not there or does not read ({error}); give the file of a ParlAI checkpoint, beside which are its .opt "
    "and .dict files, or the folder of one with the name 'model'"
)
PICKLE_ERROR = (
    "{path} holds Python objects beside its weights, which are not unpickled because they may run any code ({error}); "
    "remove them with `parlai vacuum -mf {path}`, in an environment of its own"
)
WEIGHTS_ERROR = "{path} does not read as a checkpoint ({error}); download it again"
NO_MODEL_ERROR = "{path} has no weights under 'model'; give a checkpoint of ParlAI"
NOT_A_TENSOR_ERROR = "{path}: its weight '{name}' is no tensor of numbers but {kind}; download the checkpoint again"
NOT_FINITE_ERROR = "{path}: its weight '{name}' has values that are not finite; download the checkpoint again"
ARCHITECTURE_ERROR = (
    "{path} is of the agent '{agent}', whose weights are not those of a classifier that can be converted: "
    "projects.style_gen.classifier (classifier_head and decoder), transformer/classifier or bert_classifier "
    "(additional_linear_layer)"
)
OPTION_ERROR = "{path}.opt: {option} is {value!r}; classifiers with {allowed} can be converted"
TYPE_ERROR = "{path}.opt: {option} is {value!r}, not {kind}; download the checkpoint again"
LABELS_FILE_ERROR = "{path} is not there or does not read as text ({error}); give a file with a label a line"
NO_LABELS_ERROR = (
    "{path} names no labels (its options have {source}); give them with --labels FILE, a label a line in the order of "
    "the classifier's outputs"
)
LABELS_ERROR = "{where}: {problem}; give a label a line, each once, in the order of the classifier's outputs"
NUM_LABELS_ERROR = (
    "{where}: there are {labels} labels, but the classifier has {outputs} outputs; give the list it was trained with"
)
OTHER_LABELS_ERROR = "{where}: the labels are {labels}, but {path}.opt says {classes}; leave out --labels"
ORDER_ERROR = (
    "{path}.opt: ref_class is '{ref_class}', which ParlAI moves before the other classes ({classes}), so that their "
    "order is not clear; give it with --labels FILE, a label a line in the order of the classifier's outputs"
)


# What the options that are computed with have to be, if they are there; ParlAI writes null for some that are not set.
_KINDS: dict[str, tuple[tuple[type, ...], str]] = {
    "classes": ((list, type(None)), "a list of labels"),
    **dict.fromkeys(
        ("n_positions", "truncate", "text_truncate", "label_truncate", "n_encoder_layers", "n_decoder_layers"),
        ((int, type(None)), "a whole number"),
    ),
    **dict.fromkeys(("dict_max_ngram_size", "history_size"), ((int,), "a whole number")),
    **dict.fromkeys(("dropout", "attention_dropout", "output_scaling"), ((int, float), "a number")),
    **dict.fromkeys(
        ("dict_nulltoken", "dict_starttoken", "dict_endtoken", "dict_unktoken", "delimiter"), ((str,), "a text")
    ),
}


class Checkpoint(NamedTuple):
    """What is in the files of a checkpoint.

    Attributes:
        path: The file with its weights.
        opt: Its options.
        weights: Name → tensor.
        style: Whether it is a `style_gen` classifier (an encoder and a decoder); else a `transformer/classifier` or a
            `bert_classifier`.
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
    def bert(self) -> bool:
        """Whether it is a classifier on BERT (`bert_classifier`)."""
        return any(name.startswith("bert_model.") for name in self.weights)

    @property
    def kind(self) -> str:
        """What it classifies: "style" or "safety"."""
        return "style" if self.style else "safety"


def read_checkpoint(path: str | Path) -> Checkpoint:
    """Reads a checkpoint's options and weights.

    Args:
        path: Its file, such as `data/models/style_gen/curr_only_classifier/model`, or the folder with the file `model`.

    Raises:
        ValueError: It is no checkpoint, not one of a classifier that can be converted, or holds more than weights.
        OSError: It is not there.
    """
    path = Path(path)
    if path.is_dir():
        path /= "model"
    try:
        opt = json.loads(Path(f"{path}.opt").read_text(encoding="utf-8"))
    except OSError as error:
        raise OSError(OPT_ERROR.format(path=f"{path}.opt", error=error.strerror)) from error
    except ValueError as error:
        raise ValueError(OPT_ERROR.format(path=f"{path}.opt", error=error)) from error
    if not isinstance(opt, dict):
        raise ValueError(OPT_ERROR.format(path=f"{path}.opt", error="it has no options"))
    for option, (kinds, kind) in _KINDS.items():
        if option in opt and (not isinstance(opt[option], kinds) or isinstance(opt[option], bool)):
            raise ValueError(TYPE_ERROR.format(path=path, option=option, value=opt[option], kind=kind))
    weights = _read_weights(path)
    parts = {name.partition(".")[0] for name in weights}
    style = {"classifier_head", "encoder", "decoder"} <= parts
    _refuse_other_input(path, opt)
    head = weights.get(f"{'classifier_head' if style else 'additional_linear_layer'}.weight")
    if head is None or head.ndim != 2 or not (style or parts & {"transformer", "bert_model"}):
        raise ValueError(ARCHITECTURE_ERROR.format(path=path, agent=opt.get("model", "unknown")))
    return Checkpoint(path, opt, weights, style)


def _read_weights(path: Path) -> dict[str, torch.Tensor]:
    try:
        states = torch.load(path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(path))
    except OSError as error:
        raise OSError(WEIGHTS_ERROR.format(path=path, error=error.strerror or error)) from error
    except UnpicklingError as error:
        # torch's message says how to load it nevertheless, over many lines.
        reason = next((line for line in str(error).splitlines() if "GLOBAL" in line or "Unsupported" in line), "")
        if not reason:
            raise ValueError(WEIGHTS_ERROR.format(path=path, error=str(error).splitlines()[0])) from error
        raise ValueError(PICKLE_ERROR.format(path=path, error=reason.strip())) from error
    except Exception as error:  # a file of another kind may raise anything
        raise ValueError(
            WEIGHTS_ERROR.format(path=path, error=str(error).partition("\n")[0] or type(error).__name__)
        ) from error
    weights = states.get("model") if isinstance(states, Mapping) else None
    if not isinstance(weights, Mapping) or not weights:
        raise ValueError(NO_MODEL_ERROR.format(path=path))
    for name, tensor in weights.items():
        if not isinstance(tensor, torch.Tensor):
            raise ValueError(NOT_A_TENSOR_ERROR.format(path=path, name=name, kind=type(tensor).__name__))
        if tensor.is_floating_point() and not torch.isfinite(tensor).all():
            raise ValueError(NOT_FINITE_ERROR.format(path=path, name=name))
    return dict(weights)


def _refuse_other_input(path: Path, opt: Mapping[str, Any]) -> None:
    """Raises for options that would make other tokens of a text than `ParlaiTokenizer` does, or another head."""
    for option in ("person_tokens", "history_reversed", "special_tok_lst", "add_p1_after_newln", "classifier_layers"):
        if opt.get(option):
            raise ValueError(OPTION_ERROR.format(path=path, option=option, value=opt[option], allowed=f"no {option}"))
    ngram = opt.get("dict_max_ngram_size", -1)
    if ngram > 1:
        allowed = "no n-grams (-1)"
        raise ValueError(OPTION_ERROR.format(path=path, option="dict_max_ngram_size", value=ngram, allowed=allowed))


def read_labels(checkpoint: Checkpoint, labels_file: str | Path | None) -> list[str]:
    """The labels of a checkpoint's outputs, in their order.

    Args:
        checkpoint: The checkpoint; a `transformer/classifier` names its classes in its options.
        labels_file: A file with a label a line, such as ParlAI's `personality_list.txt`; `None`: there is none.

    Raises:
        ValueError: There are none, a label is there twice, or there are more or fewer than the classifier has outputs.
        OSError: The file is not there.
    """
    path, opt = checkpoint.path, checkpoint.opt
    head = "classifier_head" if checkpoint.style else "additional_linear_layer"
    outputs = len(checkpoint.weights[f"{head}.weight"])
    classes = opt.get("classes")
    if labels_file is None:
        if not classes:
            source = f"classes_from_file '{opt.get('classes_from_file')}'"
            raise ValueError(NO_LABELS_ERROR.format(path=path, source=source))
        where, labels = f"{path}.opt", list(classes)
        reference = opt.get("ref_class")
        if not checkpoint.style and reference in labels and labels.index(reference):
            raise ValueError(ORDER_ERROR.format(path=path, ref_class=reference, classes=", ".join(labels)))
    else:
        where = str(labels_file)
        try:
            labels = Path(labels_file).read_text(encoding="utf-8-sig").splitlines()  # as ParlAI splits it
        except OSError as error:
            raise OSError(LABELS_FILE_ERROR.format(path=where, error=error.strerror)) from error
        except UnicodeDecodeError as error:
            raise ValueError(LABELS_FILE_ERROR.format(path=where, error=error)) from error
        named = [str(label) for label in classes or []]
        if named and sorted(named) != sorted(labels):
            raise ValueError(
                OTHER_LABELS_ERROR.format(where=where, labels=", ".join(labels), path=path, classes=", ".join(named))
            )
    for index, label in enumerate(labels):
        if not isinstance(label, str) or not label.strip():
            raise ValueError(LABELS_ERROR.format(where=where, problem=f"label {index + 1} is {label!r}"))
        if label in labels[:index]:
            raise ValueError(LABELS_ERROR.format(where=where, problem=f"'{label}' is there twice"))
    if len(labels) != outputs:
        raise ValueError(NUM_LABELS_ERROR.format(where=where, labels=len(labels), outputs=outputs))
    return labels
