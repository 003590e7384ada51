import argparse
import textwrap
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml

PRESETS_FILE = Path(__file__).parent / "presets.yaml"
_WIDTH = 100
_INDENT = 14


class Preset(NamedTuple):
    """A well-known classifier and facts about it.

    Attributes:
        limits: The classifier's weaknesses, as sentences.
        read_at: The sources of these facts.
        counts: The labels that mean "offensive".
        clusters: The file with clusters of its labels, or "none".
    """

    option: str
    id: str
    licence: str
    labels: list[str]
    multi_label: bool
    max_tokens: int
    trained_on: str
    limits: str
    read_at: list[str]
    smallest_command: str
    counts: tuple[str, ...] = ()
    clusters: str = "none"


@cache
def presets() -> dict[str, Preset]:
    content: dict[str, dict[str, Any]] = yaml.safe_load(PRESETS_FILE.read_text(encoding="utf-8"))
    return {name: Preset(smallest_command=each.pop("try"), **each) for name, each in content.items()}


def suggested(option: str) -> str:
    return next(f"{option} {name}" for name, preset in presets().items() if preset.option == option)


def preset_lines() -> list[str]:
    lines = []
    for name, preset in presets().items():
        rows = {
            "id": preset.id,
            "licence": preset.licence,
            "labels": ", ".join(preset.labels),
            "offensive": ", ".join(preset.counts),
            "clusters": preset.clusters if preset.option == "--style_classifier" else "",
            "longest text": f"{preset.max_tokens} tokens",
            "trained on": preset.trained_on,
            "limits": preset.limits,
            "read at": ", ".join(preset.read_at),
            "to try it": preset.smallest_command,
        }
        lines += ["", f"{preset.option} {name}"]
        for title, text in rows.items():
            if text:
                wrapped = textwrap.wrap(text, _WIDTH, break_on_hyphens=False, break_long_words=False)
                lines.append(f"  {title:<{_INDENT}}{wrapped[0]}")
                lines += [" " * (_INDENT + 2) + line for line in wrapped[1:]]
    return lines[1:]


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description="Lists the classifiers that you can pass by name to the options of `measure`. You can also pass "
        "any other sequence classifier by its Hub id or folder, and a judge as judge:RUBRIC.",
    )
    parser.parse_args(argv)
    print("\n".join(preset_lines()))
