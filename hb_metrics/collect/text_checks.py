"""Checks texts before a model reads them. Errors state a text's row, but never quote the text."""

from collections.abc import Sequence


def check_texts(texts: Sequence[str], *, blank: bool = True) -> None:
    """Raises `ValueError` if a text is not a string, is empty, or contains an unpaired surrogate.

    If `blank` is false, as for classifiers, texts that consist of white space are also invalid.
    """
    if isinstance(texts, str):
        raise ValueError("texts is a single string; pass a list of texts")
    for row, text in enumerate(texts):
        if not isinstance(text, str) or not (text if blank else text.strip()):
            fault = f"of type {type(text).__name__}" if not isinstance(text, str) else "blank" if text else "empty"
            raise ValueError(
                f"text {row} is {fault}; pass only strings that contain words, and count the texts that you omit"
            )
        try:
            text.isascii() or text.encode()
        except UnicodeEncodeError as error:
            raise ValueError(
                f"text {row} contains an unpaired surrogate (U+{ord(text[error.start]):04X}) at position "
                f"{error.start + 1}; decode the text with the encoding in which it was written, or omit the text"
            ) from None  # the original error message contains the text
