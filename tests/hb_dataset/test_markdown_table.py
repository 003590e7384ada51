from itertools import pairwise

from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from hb_dataset.markdown_table import escape_markdown, markdown_table

GITHUB = MarkdownIt("commonmark").enable(["table", "strikethrough"])
TRICKS = ["|", "\\", "`", "``", "*", "_", "~~", "[a](b)", "![a](b)", "<b>", "<!--", "&amp;", "&#64;", "# ", "- ", " "]
TEXTS = st.lists(st.sampled_from(TRICKS) | st.text("ab1é", max_size=3), min_size=1, max_size=8).map("".join)


def read_table(markdown):
    """The cells of a table as a page shows them, its header first, and the alignment of its columns."""
    tokens = GITHUB.parse(markdown)
    assert [token.type for token in tokens if token.level == 0] == ["table_open", "table_close"]
    rows, alignments = [], []
    for before, token in pairwise(tokens):
        if token.type == "tr_open":
            rows.append([])
        elif token.type == "inline":
            assert all(part.type in ("text", "text_special") for part in token.children), token.children
            rows[-1].append("".join(part.content for part in token.children))
            if before.type == "th_open":
                alignments.append(before.attrs.get("style"))
    return rows, alignments


def test_a_table_is_read_as_its_cells_with_numbers_aligned_right():
    table = markdown_table(["term", "prompts", "share"], [["deaf", "1,200", "50%"], ["blind", "7", ""]], numbers=(1, 2))
    assert table.splitlines()[1] == "| --- | ---: | ---: |"
    rows, alignments = read_table(table)
    assert rows == [["term", "prompts", "share"], ["deaf", "1,200", "50%"], ["blind", "7", ""]]
    assert alignments == [None, "text-align:right", "text-align:right"]


@given(TEXTS)
@example("a | b")
@example("<i>c\n*d*\r\n")
def test_escaped_text_is_shown_as_it_is(text):
    rows, _ = read_table(markdown_table(["a", "b"], [[escape_markdown(text), "."]]))
    assert rows[1] == [text.replace("\n", " ").replace("\r", " ").strip(), "."]
