"""Output of commands that nobody reads, or that its encoding cannot show."""

import io
import os

import pytest

from hb_dataset.command_line import safe_terminal


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
