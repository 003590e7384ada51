"""results.json → report.html: one self-contained file that opens offline."""

from pathlib import Path
from typing import Any


def write_report(results: dict[str, Any], path: Path) -> None:
    path.write_text("todo")
