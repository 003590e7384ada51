"""Bias metrics of language models. `import hb_metrics` is fast, because this file imports nothing until it is used."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from hb_metrics.run_tables import RunTables


def load_run(folder: "str | Path") -> "RunTables":
    """Reads a finished run of `holistic-bias measure` as pandas frames (see `RunTables`).

    Args:
        folder: The run's folder, such as "runs/gpt2-v1.0".

    Raises:
        ValueError: The folder contains no finished run, or one of its files is missing or damaged.
    """
    from hb_metrics.run_tables import RunTables

    return RunTables(folder)
