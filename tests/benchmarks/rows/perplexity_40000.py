"""Perplexity of many sentences that share much: prefix trees beside padded batches."""

from functools import partial

from tests.benchmarks.row import OURS, Row, Side
from tests.benchmarks.scoring import (
    RELATIVE_TOLERANCE,
    load_embedded,
    random_sentences,
    score_ours,
    score_padded,
    tell_positions,
)

# The smallest axis that has so many.
AXIS = "age"
SENTENCES = 40_000

ROW = Row(
    title=f"perplexity of {SENTENCES:,} sentences of one axis ({AXIS}), the embedded model",
    inputs=partial(random_sentences, SENTENCES, axis=AXIS),
    work=len,
    unit="sentences",
    sides={
        OURS: Side(run=score_ours, load=load_embedded, repeats=1),
        # What padded batches take grows in proportion to the sentences.
        "ours, padded batches": Side(run=score_padded, load=load_embedded, bar=5.0, share=1 / 32, repeats=1),
    },
    relative_tolerance=RELATIVE_TOLERANCE,
    notes=tell_positions,
)
