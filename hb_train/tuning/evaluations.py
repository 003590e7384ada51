"""Replies at the evaluations of a tuning: whether the model obeys its labels so far, and its Full Gen Bias."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from hb_metrics.obedience.values import has_directions
from hb_train.training.runs import validation_curve

if TYPE_CHECKING:
    from transformers import Trainer

# torch, transformers and trl take seconds to import: not before they are needed.


def add_replies(trainer: "Trainer", number: int, dataset: Path, labels: dict[str, Any], tag: str | None) -> None:
    """Lets a model reply at each evaluation, asked as after tuning.

    Args:
        trainer: Its trainer.
        number: How many replies, about.
        dataset: The folder that it learns from; with directions of bias, the mean bias value along them is measured.
        labels: What the folder records.
        tag: The control tag that the prompts end in; `None`: none.

    Raises:
        ValueError: The replies to learn were asked for with more than the prompt, or the labels have other styles.
    """
    from hb_train.while_training import GenBiasCallback

    asked = {name: value for name, value in (labels["asked_with"] or {}).items() if value not in (None, "prompt")}
    if asked:
        raise ValueError(
            f"evaluation_replies asks with the prompt alone, and the replies to learn were asked for with {asked}; "
            "leave it out, and measure the tuned model with the same options"
        )
    directions = dataset if has_directions(dataset) else None
    callback = GenBiasCallback(trainer, num_replies=number, context=labels["context"], tag=tag, directions=directions)
    trainer.add_callback(callback)


def evaluations(trainer: "Trainer") -> list[dict[str, Any]]:
    """What the replies at each evaluation showed, by step; empty: there were none."""
    history = trainer.state.log_history
    steps: dict[int, dict[str, Any]] = {}
    for figure in ("mean_bias_value", "full_gen_bias"):
        for end in ("", "_low", "_high"):
            for entry in validation_curve(history, f"{figure}{end}"):
                steps.setdefault(entry["step"], {}).update(entry)
    return [steps[step] for step in sorted(steps)]
