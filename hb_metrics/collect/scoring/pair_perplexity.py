"""Computes perplexities of texts, and of pairs of texts, for RedditBias (Barikeri et al., 2021, 3.1 and 3.2).

As in the paper's figures, the first token of a text is not scored. The texts are hateful, so they are never printed or
stored, and results contain only their ids.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from hb_dataset.reddit_bias import SIDES
from hb_metrics.collect.scoring.perplexity import most_tokens, plan_perplexity
from hb_metrics.collect.scoring.reply_scoring import MAX_POSITIONS
from hb_metrics.collect.scoring.scoring_shards import score_into_shards
from hb_metrics.collect.units import ScoringPlan
from hb_metrics.models.loading import LoadedModel


class TextPlan(NamedTuple):
    """The texts to score, and the plan for scoring them.

    Attributes:
        ids: [texts] For pairs, the ids of all first texts ("<id>:t1") and then of all second texts ("<id>:t2").
        kept: The row numbers of the texts or pairs that can be scored.
        num_skipped: How many texts or pairs cannot be scored, by reason: `one_token` or `too_long`.
    """

    ids: list[str]
    texts: list[str]
    kept: np.ndarray
    num_skipped: dict[str, int]
    scoring: ScoringPlan


def plan_texts(
    columns: Sequence[Sequence[str]], loaded: LoadedModel, *, ids: Sequence[str], max_positions: int = MAX_POSITIONS
) -> TextPlan:
    """Tokenizes texts or pairs, and divides them into units of work.

    `columns` contains one column of texts or, for pairs, two columns. Texts that are too short or too long are counted
    and left out. The other text of their pair is also left out.
    """
    if loaded.kind != "causal":
        raise ValueError(
            f"RedditBias needs a causal language model, but '{loaded.name}' is a {loaded.kind} model; remove reddit "
            "from --measurements, or pass a causal model"
        )
    sequences = []
    for column in columns:
        encoded = loaded.tokenizer(list(column), add_special_tokens=False)["input_ids"] if len(column) else []
        sequences.append([tuple(tokens) for tokens in encoded])
    lengths = np.array([[len(tokens) for tokens in column] for column in sequences], dtype=np.int64)
    short = (lengths < 2).any(axis=0)
    long = (lengths > most_tokens(loaded.model, loaded.tokenizer)).any(axis=0) & ~short
    num_skipped = {"one_token": int(short.sum()), "too_long": int(long.sum())}
    kept = np.flatnonzero(~short & ~long)
    rows: list[int] = kept.tolist()
    if not rows:
        raise ValueError(
            f"none of the {len(ids)} texts or pairs can be scored: {num_skipped['one_token']} have at most one "
            f"token, and {num_skipped['too_long']} are too long for the model; pass texts that have at least 2 tokens "
            "and are short enough for the model"
        )
    texts = [column[row] for column in columns for row in rows]
    plan = plan_perplexity(texts, loaded.model, loaded.tokenizer, max_positions=max_positions, add_start_token=False)
    marks = [f":{side}" for side in SIDES] if len(columns) == len(SIDES) else [""]
    return TextPlan(
        ids=[f"{ids[row]}{mark}" for mark in marks for row in rows],
        texts=texts,
        kept=kept,
        num_skipped=num_skipped,
        scoring=plan,
    )


def texts_into_shards(plan: TextPlan, loaded: LoadedModel, folder: Path, *, label: str) -> pa.Table | None:
    return score_into_shards(plan.scoring, {"id": plan.ids}, folder, loaded.model, inputs=plan.texts, label=label)
