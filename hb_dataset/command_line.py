"""Reads the options of a command, and makes texts from other people safe for a terminal.

A terminal would execute the control characters in such a text, which may be the name of a model, a label of a
classifier, or a message from the Hub.
"""

import argparse
import difflib
import io
import os
import sys
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from typing import Any, NoReturn, TextIO

AXIS_CUTOFF = 0.75  # for names of axes, which must be more alike, so that no term is taken for an axis


def did_you_mean(name: str, allowed: Iterable[str], *, cutoff: float = 0.6) -> str:
    """Returns `"did you mean 'ability'? "` if an allowed name is similar, otherwise `""`."""
    close = difflib.get_close_matches(name, list(allowed), n=1, cutoff=cutoff)
    return f"did you mean '{close[0]}'? " if close else ""


def check_known(name: str, allowed: Collection[str], fault: str, *, cutoff: float = 0.6) -> None:
    """Raises a ValueError if a name is not allowed. `fault` is the first part of its message."""
    if name not in allowed:
        raise ValueError(f"{fault}; {did_you_mean(name, allowed, cutoff=cutoff)}allowed: {', '.join(allowed)}")


_UNSAFE = ("Cc", "Cf", "Cs", "Zl", "Zp")  # the Unicode categories of control, invisible and line-breaking characters


def printable(text: str) -> str:
    """Replaces control and invisible characters, except line feeds and tabs."""
    return "".join(
        "�" if unicodedata.category(letter) in _UNSAFE and letter not in "\n\t" else letter for letter in text
    )


@contextmanager
def safe_terminal() -> Iterator[None]:
    """Makes everything that is printed printable, and also the message of `SystemExit`.

    If nobody reads the output any more, as after `| head`, or the output is closed, the command still does its work.
    """
    output = _Printable(sys.stdout or io.StringIO())
    try:
        with redirect_stdout(output):
            yield
            output.flush()
    except SystemExit as error:
        if isinstance(error.code, str):
            error.code = printable(error.code)
        raise


class _Printable(io.TextIOBase):
    """A stream that is not a terminal for other packages, so they write no colours into it."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        # A terminal's encoding may lack characters of replies, and the minus sign.
        encoding = self._stream.encoding or "utf-8"
        written = printable(text).encode(encoding, "backslashreplace").decode(encoding)
        with self._until_nobody_reads():
            self._stream.write(written)
        return len(text)

    def flush(self) -> None:
        with self._until_nobody_reads():
            self._stream.flush()

    @contextmanager
    def _until_nobody_reads(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._stream.fileno())  # also for what the stream still holds
            os.close(nowhere)


class CommandParser(argparse.ArgumentParser):
    """A parser whose errors are one line, with a suggestion for a mistyped option. Options cannot be abbreviated.

    A description of several lines keeps its line breaks.
    """

    def __init__(self, **settings: Any) -> None:
        has_lines = "\n" in (settings.get("description") or "")
        formatter = argparse.RawDescriptionHelpFormatter if has_lines else argparse.HelpFormatter
        super().__init__(**{"allow_abbrev": False, "formatter_class": formatter, **settings})

    def parse_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:  # type: ignore[override]
        parsed, unknown = self.parse_known_args(args, namespace)
        if unknown:
            name = unknown[0].partition("=")[0]
            hint = did_you_mean(name, [option for action in self._actions for option in action.option_strings])
            kind = "option" if name.startswith("-") else "argument"
            self.error(f"the {kind} {name} is unknown; {hint}--help lists the options")
        return parsed

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}\n")
