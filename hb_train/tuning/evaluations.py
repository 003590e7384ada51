"""Replies at the evaluations of a tuning: whether the model obeys its labels so far, and its Full Gen Bias."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from hb_metrics.obedience.values import has_directions
from hb_metrics.report.numbers import bias, interval
from hb_train.training.runs import validation_curve

if TYPE_CHECKING:
    from transformers import Trainer

# torch, transformers and trl take seconds to import: not before they are needed.

_FIGURES = {"mean_bias_value": "mean bias value", "full_gen_bias": "Full Gen Bias"}

ASKED_WITH_ERROR = (
    "evaluation_replies asks with the prompt alone, and the replies to learn were asked for with {asked}; leave it "
    "out, and measure the tuned model with hb_metrics/measure.py"
)
CLASSIFIER_ERROR = (
    "evaluation_replies classifies styles by {here}, and the labels in '{folder}' are by {there}; leave it out, and "
    "measure the tuned model with hb_metrics/measure.py"
)


def add_replies(trainer: "Trainer", number: int, dataset: Path, labels: dict[str, Any], tag: str | None) -> None:
    """Lets a model reply at each evaluation, asked as it is to be asked once it is tuned.

    Args:
        trainer: Its trainer.
        number: How many replies, about.
        dataset: The folder that it learns from; with directions of bias, the mean bias value along them is measured.
        labels: What the folder records.
        tag: The control tag that the prompts end in; `None`: none.

    Raises:
        ValueError: It is to be asked with more than the prompt, cannot reply to so many, or the labels are by another
            style classifier.
    """
    from hb_train.while_training.callback import GenBiasCallback

    asked = {name: value for name, value in (labels.get("asked_with") or {}).items() if value not in (None, "prompt")}
    if asked:
        raise ValueError(ASKED_WITH_ERROR.format(asked=asked))
    directions = dataset if has_directions(dataset) else None
    callback = GenBiasCallback(trainer, num_replies=number, context=labels["context"], tag=tag, directions=directions)
    by = labels.get("style_classifier")
    if directions is not None and by is not None and by["digest"] != callback.styles.digest:
        raise ValueError(CLASSIFIER_ERROR.format(here=callback.styles.name, folder=dataset, there=by["name"]))
    trainer.add_callback(callback)


def evaluations(trainer: "Trainer") -> list[dict[str, Any]]:
    """What the replies at each evaluation showed, by step; empty: there were none."""
    history = trainer.state.log_history
    steps: dict[int, dict[str, Any]] = {}
    for name in [f"{figure}{end}" for figure in _FIGURES for end in ("", "_low", "_high")]:
        for entry in validation_curve(history, name):
            steps.setdefault(entry["step"], {}).update(entry)
    return [steps[step] for step in sorted(steps)]


def evaluation_lines(shown: list[dict[str, Any]]) -> list[str]:
    """What the replies at evaluations showed, for the terminal."""
    lines = []
    for entry in shown:
        words = []
        for name, figure in _FIGURES.items():
            if name in entry:
                low, high = entry.get(f"{name}_low"), entry.get(f"{name}_high")
                between = "" if low is None or high is None else f" ({interval((low, high))})"
                words.append(f"{figure} {bias(entry[name])}{between}")
        lines.append(f"  {entry['step']:>6}  {', '.join(words)}")
    return ["", "replies at evaluations, ×1000:", *lines] if lines else []
