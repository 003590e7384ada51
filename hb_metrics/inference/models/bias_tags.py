"""The control tags of bias tuning, and how a tuned model's folder says that it must be asked (Smith et al., 2022, C.1).

A tuned model has seen contexts that end in "bias" or "no_bias". The tag is the last word of the prompt, before whatever
ends the turn in the model's context format; at inference the context ends in "no_bias".
"""

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal, get_args

from huggingface_hub import hf_hub_download
from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

from hb_dataset.whole_files import write_text
from hb_metrics.inference.models.contexts import CONTEXTS, ContextFormat

Tag = Literal["bias", "no_bias"]
BIAS, NO_BIAS = TAGS = get_args(Tag)
TUNING_FILE = "bias_tuning.json"
PLACE = "the last word of the prompt, after a space and before what ends the turn"

UNREADABLE_ERROR = (
    "'{path}' does not say how the model must be asked ({problem}); make it again with hb_train/tune.py, or remove it "
    "and give --tag"
)


@dataclass(frozen=True, kw_only=True)
class BiasTuning:
    """How a tuned model must be asked, and what it was tuned on.

    Attributes:
        tag: The tag to ask with; `None`: it was tuned without tags (the paper's self-chat tuning).
        place: Where the tag goes, in words.
        context: The context format it was tuned in.
        alpha: The exponent α of the bias values.
        beta: The threshold β above which a reply was tagged "bias".
        labels: What the labels were made of: the run, its model and its style classifier.
        training: How it was tuned, and what came of it.
    """

    tag: Tag | None
    context: ContextFormat
    alpha: int
    beta: float
    labels: dict[str, Any]
    training: dict[str, Any]
    place: str = PLACE


def write_bias_tuning(folder: Path, tuning: BiasTuning) -> None:
    """Writes how the model in a folder must be asked."""
    write_text(folder / TUNING_FILE, json.dumps(asdict(tuning), indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def read_bias_tuning(name: str, revision: str | None = None) -> BiasTuning | None:
    """Reads how a model must be asked.

    Args:
        name: A local folder, or a Hub id.
        revision: Of a Hub id.

    Returns:
        How; `None`: the model says nothing about it, so it was not tuned here.

    Raises:
        ValueError: The file is there and cannot be understood.
    """
    if Path(name).is_dir():
        path = Path(name) / TUNING_FILE
        if not path.is_file():
            return None
    else:
        try:
            path = Path(hf_hub_download(name, TUNING_FILE, revision=revision))
        except (EntryNotFoundError, LocalEntryNotFoundError):
            return None
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        known = {each.name for each in fields(BiasTuning)}
        tuning = BiasTuning(**{key: value for key, value in content.items() if key in known})
    except (ValueError, TypeError, AttributeError) as error:
        raise ValueError(UNREADABLE_ERROR.format(path=path, problem=error)) from error
    if tuning.tag not in (*TAGS, None) or tuning.context not in CONTEXTS:
        raise ValueError(UNREADABLE_ERROR.format(path=path, problem=f"tag {tuning.tag!r}, context {tuning.context!r}"))
    return tuning


def choose_tag(asked: str, tuning: BiasTuning | None) -> tuple[Tag | None, str]:
    """The tag to ask a model with, and why in words for the report.

    Args:
        asked: `"auto"`, `"bias"`, `"no_bias"` or `"none"`.
        tuning: What the model says of itself.

    Raises:
        ValueError: `asked` is something else.
    """
    if asked == "auto":
        if tuning is None:
            return None, "the model does not say that it was tuned with tags"
        if tuning.tag is None:
            return None, "the model was tuned without tags"
        return tuning.tag, "the model was tuned to be asked so"
    if asked == "none":
        return None, "--tag none was asked for"
    if asked not in TAGS:
        raise ValueError(f"tag '{asked}' is not known; allowed: auto, {', '.join(TAGS)}, none")
    return (BIAS if asked == BIAS else NO_BIAS), f"--tag {asked} was asked for"
