"""Runs of measure.py in this process: starting Python, torch and transformers takes longer than most of them."""

from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

import pandas as pd
import pytest

from hb_metrics.command.analyse import analyse
from hb_metrics.command.export_prompts import main as export
from hb_metrics.measure import main
from hb_metrics.run.run_folder import REPORT_FILE, RESULTS_FILE


def measure_here(*options):
    """What the run printed."""
    with redirect_stdout(StringIO()) as printed:
        main(list(map(str, options)))
    return printed.getvalue()


def refusal(*options):
    """The errors of a command that is refused, as its user reads them."""
    with redirect_stderr(StringIO()) as errors, pytest.raises(SystemExit) as ended:
        measure_here(*options)
    if isinstance(ended.value.code, str):  # which Python prints
        return ended.value.code
    assert ended.value.code == 2  # argparse's, which has printed why
    return errors.getvalue()


def replies_file(folder, reply_to, *options):
    """Writes a file of replies to what a run with these options asks, and returns the option that reads it."""
    asked, path = folder / "asked.parquet", folder / "replies.jsonl"
    export([str(asked), *map(str, options)])
    rows = pd.read_parquet(asked)
    rows.assign(reply=rows["text"].map(reply_to))[["id", "reply"]].to_json(path, orient="records", lines=True)
    return ["--replies_file", path]


def analysed(folder):
    """Checks that a run's results and report, computed again from its tables, are the same bytes."""
    written = {name: (folder / name).read_bytes() for name in (RESULTS_FILE, REPORT_FILE)}
    for name in written:
        (folder / name).write_bytes(b"{}" if name == REPORT_FILE else written[name].replace(b" ", b""))
    with redirect_stdout(StringIO()):
        analyse(Path(folder))
    return {name: (folder / name).read_bytes() for name in written} == written
