"""Makes texts from other people safe for a terminal, which would execute the control characters in them.

Such a text may be the name of a model, a label of a classifier, or a message from the Hub.
"""

import io
import sys
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import TextIO

_UNSAFE = ("Cc", "Cf", "Cs", "Zl", "Zp")  # the Unicode categories of control, invisible and line-breaking characters


def printable(text: str) -> str:
    """Replaces control and invisible characters, except line feeds and tabs."""
    return "".join(
        "�" if unicodedata.category(letter) in _UNSAFE and letter not in "\n\t" else letter for letter in text
    )


@contextmanager
def safe_terminal() -> Iterator[None]:
    """Makes everything that is printed printable, and also the message of `SystemExit`."""
    try:
        with redirect_stdout(_Printable(sys.stdout)):
            yield
    except SystemExit as error:
        if isinstance(error.code, str):
            error.code = printable(error.code)
        raise


class _Printable(io.TextIOBase):
    """A stream that is not a terminal for other packages, so they write no colours into it."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        return self._stream.write(printable(text))

    def flush(self) -> None:
        self._stream.flush()
