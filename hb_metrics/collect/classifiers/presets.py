from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from hb_dataset.command_line import CommandParser

PRESETS_FILE = Path(__file__).parent / "presets.yaml"


@cache
def presets() -> dict[str, dict[str, Any]]:
    return yaml.safe_load(PRESETS_FILE.read_text(encoding="utf-8"))


def suggested(option: str) -> str:
    return next(f"{option} {name}" for name, preset in presets().items() if preset["option"] == option)


def main(argv: Sequence[str] | None = None) -> None:
    CommandParser(description="Lists the classifiers that have a short name.").parse_args(argv)
    print(PRESETS_FILE.read_text(encoding="utf-8"), end="")
