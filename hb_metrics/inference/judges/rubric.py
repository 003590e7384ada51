"""Rubrics: what a judge, or a person, is asked about a reply.

A rubric is a YAML file:

    question: Does the reply talk down to the person?
    figure: condescending                # the label whose share is the figure; may be missing
    labels:
    - label: condescending
      definition: It explains the obvious, praises the ordinary, or decides for the person.
      examples:                          # two or more texts that have the label
      - Well done, you bought a ticket all by yourself!
      - Let me put it in simple words, so that you can follow.
    - label: not condescending
      …

Its name is that of the file. A run with `--judge NAME` keeps

* in run.json, under `judge` and the rubric's name: the rubric (`recorded_rubric` reads it) and the judge's model;
* in `judge/NAME/*.parquet`: a row for each non-empty reply, with `id` (the reply's, as in `finished_run`) and
  `probabilities`, a list of float32: one for each label of the rubric, in its order, and a last one that is 1 where
  the judge's answer was none of the letters, and 0 elsewhere (`finished_run.StyleShards` reads them).
"""

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import yaml

from hb_dataset.hints import did_you_mean
from hb_dataset.yaml_lines import Fault, load_with_lines, unreadable

RUBRICS = Path(__file__).parent / "rubrics"
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
CLASSIFIERS = OFFENSIVENESS, REFUSALS = "offensiveness", "refusals"  # that people's labels correct as judges
NO_ANSWER = "no answer"  # after a rubric's labels: the judge's answer was none of the letters
_MIN_EXAMPLES = 2
_KEYS = {"question", "figure", "labels"}
_LABEL_KEYS = {"label", "definition", "examples"}


class Rubric(NamedTuple):
    """A rubric.

    Attributes:
        name: Its name.
        question: The question about a reply.
        labels: The possible answers.
        definitions: [labels] the meaning of each.
        examples: [labels] two or more texts that have each label.
        figure: The label whose share of the replies is the figure; `None`: there is none.
    """

    name: str
    question: str
    labels: tuple[str, ...]
    definitions: tuple[str, ...]
    examples: tuple[tuple[str, ...], ...]
    figure: str | None

    @property
    def digest(self) -> str:
        """SHA-256 (hex) of its content."""
        return hashlib.sha256(json.dumps(self).encode()).hexdigest()

    def description(self) -> dict[str, Any]:
        """The record in run.json, which `recorded_rubric` reads."""
        return json.loads(json.dumps({"rubric": self._asdict(), "rubric_digest": self.digest}))


def shipped_rubrics() -> list[str]:
    """The names of the rubrics that come with the package."""
    return sorted(path.stem for path in RUBRICS.glob("*.yaml"))


def read_rubric(name: str | Path) -> Rubric:
    """Reads a rubric.

    Args:
        name: The name of a shipped rubric, or the path of a YAML file.

    Raises:
        ValueError: There is no such rubric, or it is not valid.
    """
    shipped = shipped_rubrics()
    path = RUBRICS / f"{name}.yaml" if name in shipped else Path(name)
    if not path.is_file():
        raise ValueError(
            f"rubric '{name}' does not exist; {did_you_mean(str(name), shipped)}pass the path of a YAML file, or one "
            f"of {', '.join(shipped)}"
        )
    faults: list[Fault] = []
    try:
        content, lines = load_with_lines(path, faults)
    except (yaml.YAMLError, UnicodeDecodeError, OSError) as error:
        raise ValueError(f"rubric {path}: {unreadable(path, error)}") from error
    faults += _faults(path.name, content, lines) if not faults else []
    if faults:
        raise ValueError("\n".join([f"the rubric {path} is not valid:", *map(str, faults)]))
    own = re.sub(r"\W+", "_", path.stem)
    if own in CLASSIFIERS:
        raise ValueError(
            f"rubric {path} has the name of the classifier '{own}', which can also be calibrated; rename the file"
        )
    return _rubric(own, content)


def recorded_rubric(section: Mapping[str, Any]) -> Rubric:
    """Reads a rubric back from `results["run"]["judge"][name]`, so that a run needs no other file."""
    content = section["rubric"]
    return Rubric(
        content["name"],
        content["question"],
        tuple(content["labels"]),
        tuple(content["definitions"]),
        tuple(tuple(examples) for examples in content["examples"]),
        content["figure"],
    )


def verdicts(probabilities: np.ndarray) -> np.ndarray:
    """[texts] The number of the likeliest label; -1: several are the likeliest, as all are where there is no answer.

    Args:
        probabilities: [texts, labels] of the labels alone, without that of no answer.
    """
    likeliest = probabilities == probabilities.max(axis=1, keepdims=True)
    return np.where(likeliest.sum(axis=1) == 1, likeliest.argmax(axis=1), -1)


def _rubric(name: str, content: Mapping[str, Any]) -> Rubric:
    labels = content["labels"]
    return Rubric(
        name,
        content["question"],
        tuple(each["label"] for each in labels),
        tuple(each["definition"] for each in labels),
        tuple(tuple(each["examples"]) for each in labels),
        content.get("figure"),
    )


def _faults(file: str, content: Any, lines: Mapping[tuple, int]) -> list[Fault]:
    """The faults of a rubric's content."""
    if not isinstance(content, Mapping) or not {"question", "labels"} <= {*content} <= _KEYS:
        return [Fault(file, 1, "write the keys question, labels and, if a label's share is the figure, figure")]
    faults = []
    if not _is_text(content["question"]):
        faults.append(Fault(file, lines["question",], "the question is not a text; write one sentence"))
    labels = content["labels"]
    if not isinstance(labels, list) or not 2 <= len(labels) <= len(LETTERS):
        return [*faults, Fault(file, lines["labels",], f"labels are not a list of 2 to {len(LETTERS)} labels")]
    for row, each in enumerate(labels):
        line = lines["labels", row]
        if not isinstance(each, Mapping) or {*each} != _LABEL_KEYS:
            faults.append(Fault(file, line, "write label, definition and examples for each label"))
        elif not (_is_text(each["label"]) and _is_text(each["definition"])) or "\n" in each["label"]:
            faults.append(Fault(file, line, "label and definition are texts, and a label is one line; write both"))
        elif not isinstance(each["examples"], list) or not all(map(_is_text, each["examples"])):
            faults.append(Fault(file, line, "examples are a list of texts"))
        elif len(each["examples"]) < _MIN_EXAMPLES:
            faults.append(Fault(file, line, f"a label has {_MIN_EXAMPLES} examples or more"))
    if faults:
        return faults
    names = [each["label"] for each in labels]
    spelt = [NO_ANSWER, *(" ".join(name.split()).casefold() for name in names)]
    for name, spelling in zip(names, spelt[1:], strict=True):
        if spelt.count(spelling) > 1:
            faults.append(Fault(file, lines["labels",], f"label '{name}' is here twice or reserved; rename it"))
    if "figure" in content and content["figure"] not in names:
        faults.append(Fault(file, lines["figure",], f"the figure is none of the labels: {', '.join(names)}"))
    return faults


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())
