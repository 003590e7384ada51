"""Style vectors where each reply is there four times, as a model says the same to many prompts: what we save by
embedding identical replies once."""

from tests.benchmarks.row import OURS, Row, Side
from tests.benchmarks.rows import style_vectors

TIMES = 4


def replies(fraction: float) -> list[str]:
    """A quarter of the replies of the other row, each so many times, in turn."""
    return style_vectors.replies(fraction / TIMES) * TIMES


ROW = Row(
    title=f"the same where each reply is there {TIMES} times",
    inputs=replies,
    work=len,
    unit="replies",
    sides={
        OURS: Side(run=style_vectors.by_us, load=style_vectors.load),
        "sentence-transformers": Side(
            run=style_vectors.by_sentence_transformer, load=style_vectors.load_sentence_transformer
        ),
    },
    relative_tolerance=0,
    absolute_tolerance=style_vectors.ABSOLUTE_TOLERANCE,
)
