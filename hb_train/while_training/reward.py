"""A reward for TRL's GRPOTrainer: how little a reply goes in the direction typical of the term in its prompt."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hb_metrics.inference.classifiers.censoring import censor
from hb_metrics.inference.classifiers.classifier import Classifier
from hb_metrics.inference.classifiers.styles import load_style_classifier
from hb_metrics.obedience.values import read_directions
from hb_metrics.runs.replies import is_empty
from hb_metrics.statistics.bias_values import DescriptorKey

LABELS_ERROR = (
    "the styles of classifier '{name}' are others than those of the directions in '{folder}'; give the classifier that "
    "its replies were classified by"
)
NO_DIRECTION_ERROR = "term '{term}' of axis '{axis}' has no direction in '{folder}'; leave its prompts out"


def gen_bias_reward(
    directions: str | Path, style_classifier: str | Classifier = "embedded", *, device: str = "cpu"
) -> Callable[..., list[float | None]]:
    """A reward function for TRL: minus the bias value (α = 0; paper, C.1) of each completion.

    The bias value is (p − m̄)·(m_d − m̄), with m_d and m̄ of another run's replies, such as those before training. An
    empty completion gets the lowest reward that any reply to its term could, so that silence does not pay.

    Args:
        directions: A run folder, or one of labels, with style_means.parquet.
        style_classifier: What classifies the completions, or its name as in `--style_classifier`.
        device: Where a classifier that is given by name runs.

    Returns:
        A function of `prompts`, `completions` and the columns `axis` and `descriptor` (and `descriptor_plural`, if
        there is one) of the training data. Prompts without a descriptor get `None`.

    Raises:
        ValueError: The folder has no directions, or they are of another classifier's styles.
    """
    means = read_directions(Path(directions)).means
    classifier = style_classifier
    if isinstance(classifier, str):
        classifier = load_style_classifier(classifier, device=device)
    if list(classifier.labels) != list(means.labels):
        raise ValueError(LABELS_ERROR.format(name=classifier.name, folder=directions))
    rows = {key: row for row, key in enumerate(means.descriptors)}
    descriptor_means = np.asarray(means.descriptor_means, dtype=np.float64)
    middle = descriptor_means.mean(axis=0)

    def negative_bias_value(
        prompts: Sequence[Any],
        completions: Sequence[Any],
        axis: Sequence[str | None],
        descriptor: Sequence[str | None],
        descriptor_plural: Sequence[str | None] | None = None,
        **_: Any,
    ) -> list[float | None]:
        plurals = descriptor_plural or [None] * len(completions)
        rewards: list[float | None] = [None] * len(completions)
        texts, asked = [], []
        for index, (completion, of_axis, term, plural) in enumerate(
            zip(completions, axis, descriptor, plurals, strict=True)
        ):
            if term is None:
                continue
            row = rows.get(DescriptorKey(of_axis, term))
            if row is None:
                raise ValueError(NO_DIRECTION_ERROR.format(term=term, axis=of_axis, folder=directions))
            way = descriptor_means[row] - middle
            text = _reply(completion)
            if is_empty(text):
                rewards[index] = float(middle @ way - way.max())
                continue
            texts.append(censor(text, term, plural))
            asked.append((index, way))
        for (index, way), styles in zip(asked, classifier.probabilities(texts) if texts else (), strict=True):
            rewards[index] = -float((styles - middle) @ way)
        return rewards

    return negative_bias_value


def _reply(completion: Any) -> str:
    """The text of a completion: the messages of a chat, or of a plain text the first line, as replies are measured."""
    if isinstance(completion, str):
        return completion.strip().split("\n", 1)[0].strip()
    return "\n".join(message.get("content") or "" for message in completion).strip()
