from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from hb_dataset.command_line import CommandParser

if TYPE_CHECKING:
    from hb_metrics.collect.classifiers.classifier import Classifier

PRESETS_FILE = Path(__file__).parent / "presets.yaml"


@cache
def presets() -> dict[str, dict[str, Any]]:
    return yaml.safe_load(PRESETS_FILE.read_text(encoding="utf-8"))


def suggested(option: str) -> str:
    return next(f"{option} {name}" for name, preset in presets().items() if preset["option"] == option)


def main(argv: Sequence[str] | None = None) -> None:
    CommandParser(description="Lists the classifiers that have a short name.").parse_args(argv)
    print(PRESETS_FILE.read_text(encoding="utf-8"), end="")


JUDGE_PREFIX = "judge:"


def load_named_classifier(
    name: str, *, judge: "Callable[..., Classifier] | None" = None, **options: Any
) -> "Classifier":
    """Loads a classifier with its original labels.

    `name` is a preset, a judge (`judge:RUBRIC`), a Hub id or a folder. `judge` is a function that loads a judge by the
    name of its rubric. `options` are the options of `load_sequence_classifier`.

    Raises:
        ValueError: The classifier or the judge cannot be loaded, or the labels of a preset's checkpoint differ from
            those in presets.yaml.
    """
    from hb_metrics.collect.classifiers.sequence_classifier import load_sequence_classifier

    if name.startswith(JUDGE_PREFIX):
        if judge is None:
            raise ValueError(f"'{name}' is a judge, which cannot run here; pass a preset, Hub id or folder")
        return judge(name.removeprefix(JUDGE_PREFIX))
    preset = presets().get(name)
    if preset is None:
        return load_sequence_classifier(name, **options)
    identifier, labels, multi_label = preset["id"], preset["labels"], preset["multi_label"]
    classifier = load_sequence_classifier(identifier, **options)
    if {*classifier.labels} != {*labels} or classifier.multi_label != multi_label:
        raise ValueError(
            f"'{identifier}' now has the labels {', '.join(classifier.labels)}, or kinds of probabilities other than "
            f"those recorded for '{name}'; to use it as it is, pass '{identifier}'"
        )
    return classifier
