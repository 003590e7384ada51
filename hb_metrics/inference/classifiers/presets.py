import argparse
import textwrap
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import yaml

PRESETS_FILE = Path(__file__).parent / "presets.yaml"
_WIDTH = 100
_INDENT = 14


@cache
def presets() -> dict[str, dict[str, Any]]:
    return yaml.safe_load(PRESETS_FILE.read_text(encoding="utf-8"))


def suggested(option: str) -> str:
    return next(f"{option} {name}" for name, preset in presets().items() if preset["option"] == option)


def preset_lines() -> list[str]:
    lines = []
    for name, preset in presets().items():
        rows = {
            "id": preset["id"],
            "licence": preset["licence"],
            "labels": ", ".join(preset["labels"]),
            "offensive": ", ".join(preset.get("counts", ())),
            "clusters": preset.get("clusters", ""),
            "longest text": f"{preset['max_tokens']} tokens",
            "trained on": preset["trained_on"],
            "limits": preset["limits"],
            "read at": ", ".join(preset["read_at"]),
            "to try it": preset["try"],
        }
        lines += ["", f"{preset['option']} {name}"]
        for title, text in rows.items():
            if text:
                wrapped = textwrap.wrap(text, _WIDTH, break_on_hyphens=False, break_long_words=False)
                lines.append(f"  {title:<{_INDENT}}{wrapped[0]}")
                lines += [" " * (_INDENT + 2) + line for line in wrapped[1:]]
    return lines[1:]


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description="Lists the classifiers that have a short name. The options of `measure` accept these names, the "
        "Hub id or folder of any other sequence classifier, and a judge as judge:RUBRIC.",
    )
    parser.parse_args(argv)
    print("\n".join(preset_lines()))
