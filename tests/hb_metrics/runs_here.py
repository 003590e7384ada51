"""Runs of measure.py in this process: starting Python, torch and transformers takes longer than most of them."""

from contextlib import redirect_stderr, redirect_stdout
from io import StringIO

import pytest

from hb_metrics.measure import main


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
