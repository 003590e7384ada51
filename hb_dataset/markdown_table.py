from collections.abc import Iterable, Sequence

_SPECIAL = str.maketrans({character: f"\\{character}" for character in "\\`*_[]<>|&~"} | {"\n": " ", "\r": " "})


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: Iterable[int] = ()) -> str:
    """Writes a table in GitHub's Markdown, without a final line break.

    Each cell is one line of Markdown. `escape_markdown` converts plain text to such a line. `numbers` contains the
    indices of right-aligned columns.
    """
    right = set(numbers)
    rule = ["---:" if column in right else "---" for column in range(len(header))]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (header, rule, *rows))


def escape_markdown(text: str) -> str:
    return text.translate(_SPECIAL)
