"""Checks of texts before a model is given any, and how error messages show a text."""

from collections.abc import Sequence

NO_LIST_ERROR = "texts is a single string; give a list of texts"
NOT_TEXT_ERROR = "text {row} is {text!r}, not a string; give texts only"
EMPTY_ERROR = "text {row} is empty; there is nothing to score"
BLANK_ERROR = "text {row} is blank; leave blank texts out and count them"
SURROGATE_ERROR = (
    "text {row} ({text!r}) has {character} at character {position}, half a character that is no text by itself; read "
    "the text in its own encoding, or leave it out"
)
MISMATCH_ERROR = (
    "the tokenizer gives token {token} and the model knows {size} tokens: they do not belong together; "
    "load the tokenizer that the model was trained with"
)


def shown(text: str, width: int = 60) -> str:
    """The text, shortened for an error message."""
    return text if len(text) <= width else text[: width - 1] + "…"


def check_texts(texts: Sequence[str]) -> None:
    """Raises a ValueError that names the first text that is empty, not a string, or has half a character."""
    if isinstance(texts, str):
        raise ValueError(NO_LIST_ERROR)
    for row, text in enumerate(texts):
        if not isinstance(text, str):
            raise ValueError(NOT_TEXT_ERROR.format(row=row, text=text))
        if not text:
            raise ValueError(EMPTY_ERROR.format(row=row))
        try:
            text.isascii() or text.encode()
        except UnicodeEncodeError as error:
            character, position = f"U+{ord(text[error.start]):04X}", error.start + 1
            message = SURROGATE_ERROR.format(row=row, text=shown(text), character=character, position=position)
            raise ValueError(message) from error


def check_nonblank_texts(texts: Sequence[str]) -> None:
    """As `check_texts`, and refuses texts of white space alone, which a classifier has nothing to read in."""
    for row, text in enumerate(texts):
        if isinstance(text, str) and not text.strip():
            raise ValueError(BLANK_ERROR.format(row=row))
    check_texts(texts)
