"""Perplexities of both sides of counterfactual pairs, and of a reference text (Barikeri et al., 2021, 3.1 and 3.2).

Perplexity as that paper's published figures define it: over tokens 2 … n of a text, the first being context only,
without a start token. The texts are hateful: nothing here shows or stores one; ids are in their stead.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from hb_metrics.inference.models.architecture import max_positions_of
from hb_metrics.inference.models.loading import LoadedModel
from hb_metrics.inference.scoring.perplexity import (
    MAX_POSITIONS,
    Scoring,
    perplexity_scores,
    plan_perplexity,
)
from hb_metrics.inference.scoring.prefix_tree import pack_prefix_trees
from hb_metrics.inference.scoring.scoring_paths import padded_units
from hb_metrics.inference.scoring.scoring_shards import score_units_into_shards
from hb_metrics.inference.text_checks import NO_LIST_ERROR
from hb_metrics.inference.units import ScoringPlan, distinct

TEXT_SCORE_SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("perplexity", pa.float64()),
        ("log_likelihood", pa.float64()),
        ("num_tokens", pa.int64()),
    ]
)
SIDES = ("t1", "t2")

KIND_ERROR = (
    "a {kind} language model gives no likelihood of a text's tokens after its first alone; leave reddit out of "
    "--measurements, or give a causal model"
)
UNEQUAL_LENGTHS_ERROR = "there are {num_t1} texts of t1 and {num_t2} of t2; give both of every pair, in the same order"
IDS_ERROR = "there are {num_ids} ids for {number} {what}; give each an id of its own"
NONE_LEFT_ERROR = (
    "none of {number} {what} can be scored: {one_token} of a single token or none, {too_long} longer than the model "
    "takes"
)
COUNTED = "prefix trees feed {tree:,} tokens, padded batches {padded:,}"
NO_TEXTS_ERROR = "there are no reference texts; give at least one"
TOKENS_ERROR = "text {row} has {num_tokens} predicted tokens; each needs at least one"


class TextPlan(NamedTuple):
    """Texts that the model takes, and how they are scored.

    Attributes:
        ids: [texts] of the texts; of pairs first all of t1 ("<id>:t1"), then all of t2 in the same order.
        texts: [texts] themselves.
        kept: [pairs or texts] which of those given are scored.
        num_skipped: Pairs (or texts) left out, by reason: `one_token` (a text has nothing to predict), `too_long`.
        scoring: The texts cut into units.
        tree_positions: Tokens the model would be run on as prefix trees; `None`: not counted, as the path was given.
        padded_positions: As padded batches.
    """

    ids: list[str]
    texts: list[str]
    kept: np.ndarray
    num_skipped: dict[str, int]
    scoring: ScoringPlan
    tree_positions: int | None
    padded_positions: int | None


def plan_pairs(
    texts_t1: Sequence[str],
    texts_t2: Sequence[str],
    loaded: LoadedModel,
    *,
    ids: Sequence[str] | None = None,
    scoring: Scoring = "auto",
    max_positions: int = MAX_POSITIONS,
) -> TextPlan:
    """Tokenises both sides of pairs and cuts them into units of work.

    Args:
        texts_t1: [pairs] the stereotyped side.
        texts_t2: [pairs] the other side.
        loaded: A causal language model.
        ids: [pairs] what each pair is keyed by; `None`: its row.
        scoring: `"tree"`, `"padded"`, or `"auto"`: whichever feeds the model fewer tokens, if it gives the same
            numbers on trees. The two sides of a pair begin alike: on the published test pairs trees feed 28 to 32 %
            fewer (embedded model's tokenizer).
        max_positions: Tokens fed to the model at once; bounds the memory.

    Returns:
        The plan; pairs that the model cannot score are counted in it, never cut.

    Raises:
        ValueError: The model is not causal or does not fit its tokenizer, the sides differ in length, ids are not one
            for each pair, or no pair can be scored.
    """
    if isinstance(texts_t1, str) or isinstance(texts_t2, str):
        raise ValueError(NO_LIST_ERROR)
    if len(texts_t1) != len(texts_t2):
        raise ValueError(UNEQUAL_LENGTHS_ERROR.format(num_t1=len(texts_t1), num_t2=len(texts_t2)))
    return _plan([texts_t1, texts_t2], loaded, ids, scoring, max_positions, what="pairs", sides=SIDES)


def plan_reference(
    texts: Sequence[str],
    loaded: LoadedModel,
    *,
    ids: Sequence[str] | None = None,
    scoring: Scoring = "auto",
    max_positions: int = MAX_POSITIONS,
) -> TextPlan:
    """As `plan_pairs`, of single texts: those that `language_model_perplexity` is about."""
    if isinstance(texts, str):
        raise ValueError(NO_LIST_ERROR)
    return _plan([texts], loaded, ids, scoring, max_positions, what="reference texts", sides=None)


def language_model_perplexity(
    log_likelihoods: Sequence[float] | np.ndarray, num_tokens: Sequence[int] | np.ndarray
) -> float:
    """LMP (paper, 3.2): exp of the mean over sentences of each sentence's mean negative log-likelihood.

    Args:
        log_likelihoods: [texts] summed over the predicted tokens, natural log.
        num_tokens: [texts] how many tokens were predicted.

    Returns:
        The perplexity. Every sentence counts the same, however long it is.

    Raises:
        ValueError: There are no texts, or nothing was predicted of one.
    """
    total, number = np.asarray(log_likelihoods, dtype=float), np.asarray(num_tokens)
    if not len(total):
        raise ValueError(NO_TEXTS_ERROR)
    if (number < 1).any():
        row = int(np.flatnonzero(number < 1)[0])
        raise ValueError(TOKENS_ERROR.format(row=row, num_tokens=number[row]))
    return float(np.exp(np.mean(-total / number)))


def texts_into_shards(
    plan: TextPlan, loaded: LoadedModel, folder: Path, *, label: str, progress: bool = True
) -> pa.Table | None:
    """Scores the texts of a plan that are not on disk yet, and reads all of them.

    Args:
        plan: What is to be scored.
        loaded: The model it was planned for.
        folder: Where the shards are; made if it is not there.
        label: What the progress bar shows.
        progress: Whether the main process shows it.

    Returns:
        A table with the columns of `TEXT_SCORE_SCHEMA` in the order of the plan, on the main process; `None` on all
        others.

    Raises:
        ValueError: The model gives NaN or infinity for a text.
    """
    return score_units_into_shards(
        plan.scoring,
        plan.ids,
        TEXT_SCORE_SCHEMA,
        lambda nll, rows: _table(plan, nll, rows),
        folder,
        loaded.model,
        label=label,
        unit="text",
        inputs=plan.texts,
        progress=progress,
    )


def _plan(
    columns: Sequence[Sequence[str]],
    loaded: LoadedModel,
    ids: Sequence[str] | None,
    scoring: Scoring,
    max_positions: int,
    *,
    what: str,
    sides: Sequence[str] | None,
) -> TextPlan:
    if loaded.kind != "causal":
        raise ValueError(KIND_ERROR.format(kind=loaded.kind))
    number = len(columns[0])
    names = [str(row) for row in range(number)] if ids is None else list(ids)
    if len(set(names)) != number or len(names) != number:
        raise ValueError(IDS_ERROR.format(num_ids=len(set(names)), number=number, what=what))
    kept, num_skipped, sequences = _fitting(columns, loaded)
    if not len(kept):
        raise ValueError(NONE_LEFT_ERROR.format(number=number, what=what, **num_skipped))
    texts = [column[row] for column in columns for row in kept]
    tree_positions, padded_positions = None, None
    chosen = scoring
    if scoring == "auto":
        unique, _ = distinct([sequences[column][row] for column in range(len(columns)) for row in kept])
        tree_positions = sum(len(tree.tokens) for tree in pack_prefix_trees(unique, max_positions))
        padded_positions = padded_units(unique, max_positions)[1]
        chosen = "auto" if tree_positions < padded_positions else "padded"
    plan = plan_perplexity(
        texts, loaded.model, loaded.tokenizer, scoring=chosen, max_positions=max_positions, add_start_token=False
    )
    if scoring == "auto":
        reason = COUNTED.format(tree=tree_positions, padded=padded_positions)
        reason = reason if chosen == "padded" else f"{reason}; {plan.scoring_reason}"
        plan = replace(plan, scoring_reason=reason)
    marks = [""] if sides is None else [f":{side}" for side in sides]
    return TextPlan(
        ids=[f"{names[row]}{mark}" for mark in marks for row in kept],
        texts=texts,
        kept=kept,
        num_skipped=num_skipped,
        scoring=plan,
        tree_positions=tree_positions,
        padded_positions=padded_positions,
    )


def _fitting(
    columns: Sequence[Sequence[str]], loaded: LoadedModel
) -> tuple[np.ndarray, dict[str, int], list[list[tuple[int, ...]]]]:
    """The rows of which every text can be scored, how many others there are and why, and all tokens by column.

    Sorted out here, by number, since errors of planning would show the text that does not fit.
    """
    sequences = [
        [
            tuple(tokens)
            for tokens in (loaded.tokenizer(list(column), add_special_tokens=False)["input_ids"] if len(column) else [])
        ]
        for column in columns
    ]
    lengths = np.array([[len(tokens) for tokens in column] for column in sequences], dtype=np.int64)
    limits = (max_positions_of(loaded.model), loaded.tokenizer.model_max_length)
    limit = min(limit for limit in limits if limit is not None and limit > 0)
    short = (lengths < 2).any(axis=0)
    long = (lengths > limit).any(axis=0) & ~short
    num_skipped = {"one_token": int(short.sum()), "too_long": int(long.sum())}
    return np.flatnonzero(~short & ~long), num_skipped, sequences


def _table(plan: TextPlan, nll: np.ndarray, rows: np.ndarray) -> pa.Table:
    scores = perplexity_scores(plan.scoring, plan.ids, nll, rows)
    return pa.table(
        {
            "id": [plan.ids[row] for row in rows],
            "perplexity": scores.perplexities,
            "log_likelihood": scores.log_likelihoods,
            "num_tokens": scores.num_tokens,
        },
        schema=TEXT_SCORE_SCHEMA,
    )
