import argparse
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import yaml

PRESETS_FILE = Path(__file__).parent / "presets.yaml"


@cache
def presets() -> dict[str, dict[str, Any]]:
    return yaml.safe_load(PRESETS_FILE.read_text(encoding="utf-8"))


def suggested(option: str) -> str:
    return next(f"{option} {name}" for name, preset in presets().items() if preset["option"] == option)


def main(argv: Sequence[str] | None = None) -> None:
    argparse.ArgumentParser(description="Lists the classifiers that have a short name.").parse_args(argv)
    print(PRESETS_FILE.read_text(encoding="utf-8"), end="")
