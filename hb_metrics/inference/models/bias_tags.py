"""The control tags of bias tuning, and the file that records a tuned model's tag (Smith et al., 2022, C.1).

A model was tuned on contexts that end in "bias" or "no_bias". The tag is the last word of the prompt, before the tokens
that end the turn. At inference, the context ends in "no_bias".
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from huggingface_hub import hf_hub_download
from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

from hb_dataset.whole_files import write_text
from hb_metrics.inference.models.contexts import CONTEXTS, ContextFormat

Tag = Literal["bias", "no_bias"]
BIAS, NO_BIAS = TAGS = get_args(Tag)
TUNING_FILE = "bias_tuning.json"
# The options in run.json that affect replies, besides the context format and the tag.
ASKED_WITH = ("system_prompt", "chat_template_kwargs", "cue")
_METHODS = {"kto": "KTO", "distill": "baseline distillation", "counterfactual": "counterfactual distillation"}
POSITION = "the last word of the prompt, after a space and before what ends the turn"


@dataclass(frozen=True, kw_only=True)
class BiasTuning:
    """The tag and context format of a tuned model, and the record of its tuning.

    Attributes:
        tag: The tag at the end of contexts, or `None` if the model was tuned without tags (the paper's self-chat
            tuning).
        beta: The threshold β above which a reply was tagged "bias". Like the exponent α, it is `None` if there are no
            labels.
        labels: The run, model and style classifier from which the labels (for baseline distillation, the replies) were
            made.
        asked_with: The options `ASKED_WITH` of the run that generated the training replies, or `None` if not recorded.
    """

    tag: Tag | None
    context: ContextFormat
    alpha: int | None
    beta: float | None
    labels: dict[str, Any]
    training: dict[str, Any]
    place: str = POSITION
    asked_with: dict[str, Any] | None = None

    @property
    def method(self) -> str:
        return str(self.training["method"])


def write_bias_tuning(folder: Path, tuning: BiasTuning) -> None:
    write_text(folder / TUNING_FILE, json.dumps(asdict(tuning), indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def read_bias_tuning(name: str, revision: str | None = None) -> BiasTuning | None:
    """Reads the record in a tuned model's folder or repository. Returns `None` if there is none."""
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
        tuning = BiasTuning(**json.loads(path.read_text(encoding="utf-8")))
        if tuning.tag not in (*TAGS, None) or tuning.context not in CONTEXTS or not isinstance(tuning.training, dict):
            raise TypeError(f"tag {tuning.tag!r}, context {tuning.context!r}, training {tuning.training!r}")
    except (ValueError, TypeError, AttributeError) as error:
        raise ValueError(
            f"'{path}' is not the record of a tuning ({error}); tune the model again with hb_train/tune.py, or remove "
            "the file and pass --tag"
        ) from error
    return tuning


def choose_tag(tag: str, tuning: BiasTuning | None) -> tuple[Tag | None, str]:
    if tag == "auto":
        if tuning is None:
            return None, "the model has no record of a tuning with tags"
        if tuning.tag is None:
            by = "" if tuning.method == "sft" else f"by {_METHODS.get(tuning.method, tuning.method)}, "
            return None, f"the model was tuned {by}without tags"
        return tuning.tag, "the model was tuned with it"
    if tag == "none":
        return None, "--tag none was given"
    return (BIAS if tag == BIAS else NO_BIAS), f"--tag {tag} was given"
