"""Output of commands that nobody reads, or that its encoding cannot show; and their help."""

import io
import os

import pytest

from hb_dataset.command_line import CommandParser, safe_terminal


def test_a_command_goes_on_if_nobody_reads_its_output(monkeypatch):
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as stream:
        monkeypatch.setattr("sys.stdout", stream)
        with safe_terminal():
            print("a line\n" * 10_000)
            print("another line", flush=True)
    monkeypatch.setattr("sys.stdout", None)  # as after `>&-`
    with safe_terminal():
        print("a line")


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_characters_that_the_encoding_lacks_are_escaped(monkeypatch, encoding):
    stream = io.TextIOWrapper(io.BytesIO(), encoding)
    monkeypatch.setattr("sys.stdout", stream)
    with safe_terminal():
        print("\N{MINUS SIGN}1.6")
    assert stream.buffer.getvalue() == b"\\u22121.6\n"


def test_only_a_description_of_several_lines_keeps_its_lines(monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    laid_out = "Counts words.\n\n    python -m count --output a/file/of/a/long/name.csv\n"
    assert laid_out in CommandParser(description=laid_out).format_help()
    assert "\nword word\n" in CommandParser(description="word " * 9).format_help()
