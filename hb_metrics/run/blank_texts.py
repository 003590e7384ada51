from unicodedata import category

# The categories of controls, formats, separators and marks on other characters; and blank letters and symbols.
_INVISIBLE = {"Cc", "Cf", "Mn", "Me", "Zs", "Zl", "Zp"}
_FILLERS = "\u115f\u1160\u2800\u3164\uffa0"


def is_blank(text: str) -> bool:
    """Returns whether all characters are invisible, such as white space, U+200B, U+FEFF and variation selectors."""
    return all(category(letter) in _INVISIBLE or letter in _FILLERS for letter in text)
