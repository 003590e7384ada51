"""Computes perplexities of sentences under a causal or an encoder–decoder language model.

The perplexity of a sentence is exp(mean negative log-likelihood per predicted token), with natural logarithms. A causal
model reads its start tokens first (see `text_start`), so that it predicts all tokens of the sentence. If the model has
no start token, the sentence's first token is not predicted.

Sentences are scored on prefix trees if the model supports them (see `scoring_paths`), and otherwise in batches of
sentences with the same number of tokens. Both methods give the same results.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from hb_dataset.reddit_bias import SIDES
from hb_metrics.collect.scoring.reply_scoring import reply_nlls, reply_scoring
from hb_metrics.collect.scoring.scoring_paths import check_causal, on_trees
from hb_metrics.collect.scoring.scoring_shards import PerplexityScores, perplexity_scores, run_plan
from hb_metrics.collect.units import ScoringPlan, check_texts, distinct
from hb_metrics.models.architecture import check_token_ids, decoder_prefix, max_positions_of, text_start
from hb_metrics.models.loading import LoadedModel


def score_perplexity(
    texts: Sequence[str],
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    *,
    trees: bool = True,
    add_start_token: bool = True,
) -> PerplexityScores:
    """Computes the perplexity of each text.

    Under `accelerate launch`, the processes share the work, and every process gets the result.

    Args:
        texts: The sentences.
        model: A causal or an encoder–decoder language model. An encoder reads an empty text.
        tokenizer: The model's tokenizer.
        trees: Whether to use prefix trees if a trial shows that the model supports them.
        add_start_token: Whether a causal model reads its start tokens first, if it has any.

    Raises:
        ValueError: A text is empty, has no token to predict, or is too long. The message states the text's row. Also
            raised if the tokenizer does not match the model, or if the model returns NaN.
        MemoryError: There is not enough memory even for a single text.
    """
    plan = plan_perplexity(texts, model, tokenizer, trees=trees, add_start_token=add_start_token)
    return perplexity_scores(plan, run_plan(plan, model))


def plan_perplexity(
    texts: Sequence[str],
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    *,
    trees: bool = True,
    add_start_token: bool = True,
) -> ScoringPlan:
    """Tokenizes and checks texts, and divides them into units of work. See `score_perplexity`."""
    check_texts(texts)
    unique, sequence_of_text = distinct(texts)
    encoded = tokenizer(unique, add_special_tokens=False, return_attention_mask=False)["input_ids"] if unique else []
    decoder = decoder_prefix(model, tokenizer)
    start = decoder or (text_start(tokenizer, max(unique, key=len, default="")) if add_start_token else [])
    sequences = [(*start, *tokens) for tokens in encoded]
    num_read = max(len(start), 1)
    check_sequences(sequences, sequence_of_text, model, tokenizer, needed=num_read + 1)
    if decoder:  # it writes the sentence as a reply to an empty text
        empty = tokenizer("")["input_ids"]
        pairs = [(empty, tokens) for tokens in encoded]
    else:
        pairs = [(list(sequence[:num_read]), list(sequence[num_read:])) for sequence in sequences]
    shapes = [(len(sequence) - 1,) for sequence in sequences]
    plan = replace(
        reply_scoring(pairs, decoder, shapes, reply_nlls, model, tokenizer),
        start_token=" ".join(tokenizer.convert_ids_to_tokens(start)) or None,
        sequence_of_text=sequence_of_text,
    )
    if decoder or not sequences:
        return plan
    check_causal(model, sequences)
    return on_trees(plan, model, pairs) if trees else plan


def check_sequences(
    sequences: Sequence[Sequence[int]],
    sequence_of_text: np.ndarray,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    *,
    needed: int,
) -> None:
    limit = most_tokens(model, tokenizer)
    for row, which in enumerate(sequence_of_text):
        length = len(sequences[which])
        if not needed <= length <= limit:
            raise ValueError(f"text {row} has {length} tokens, but the model accepts {needed} to {limit}; omit it")
    check_token_ids(model, sequences)


def most_tokens(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> int:
    """Returns the maximum number of tokens in a text, or about 10³⁰ if it is unknown."""
    limits = (max_positions_of(model), tokenizer.model_max_length)
    return min(limit for limit in limits if limit is not None and limit > 0)


class TextPlan(NamedTuple):
    """The texts to score, and the plan for scoring them.

    Attributes:
        ids: [texts] For pairs, the ids of all first texts ("<id>:t1") and then of all second texts ("<id>:t2").
        num_skipped: How many texts or pairs cannot be scored, by reason: `one_token` or `too_long`.
    """

    ids: list[str]
    texts: list[str]
    num_skipped: dict[str, int]
    scoring: ScoringPlan


def plan_texts(columns: Sequence[Sequence[str]], loaded: LoadedModel, *, ids: Sequence[str]) -> TextPlan:
    """Tokenizes texts or pairs of RedditBias (Barikeri et al., 2021, 3.1 and 3.2), and divides them into units of work.

    As in the paper's figures, the first token of a text is not scored. The texts are hateful, so they are never printed
    or stored, and results contain only their ids.

    `columns` contains one column of texts or, for pairs, two columns. Texts that are too short or too long are counted
    and left out. The other text of their pair is also left out.
    """
    if loaded.kind != "causal":
        raise ValueError(f"RedditBias needs a causal model, and '{loaded.name}' is {loaded.kind}; remove reddit")
    sequences = []
    for column in columns:
        encoded = loaded.tokenizer(list(column), add_special_tokens=False)["input_ids"] if len(column) else []
        sequences.append([tuple(tokens) for tokens in encoded])
    lengths = np.array([[len(tokens) for tokens in column] for column in sequences], dtype=np.int64)
    short = (lengths < 2).any(axis=0)
    long = (lengths > most_tokens(loaded.model, loaded.tokenizer)).any(axis=0) & ~short
    num_skipped = {"one_token": int(short.sum()), "too_long": int(long.sum())}
    rows: list[int] = np.flatnonzero(~short & ~long).tolist()
    if not rows:
        raise ValueError(
            f"none of the {len(ids)} texts can be scored: {num_skipped['one_token']} have at most one token, and "
            f"{num_skipped['too_long']} are too long; pass texts of at least 2 tokens that are short enough"
        )
    texts = [column[row] for column in columns for row in rows]
    plan = plan_perplexity(texts, loaded.model, loaded.tokenizer, add_start_token=False)
    marks = [f":{side}" for side in SIDES] if len(columns) == len(SIDES) else [""]
    return TextPlan(
        ids=[f"{ids[row]}{mark}" for mark in marks for row in rows],
        texts=texts,
        num_skipped=num_skipped,
        scoring=plan,
    )
