"""Perplexities of sentences under a causal or an encoder–decoder language model.

Perplexity is exp of the mean negative log-likelihood per predicted token, natural log. A causal model with a start
(BOS) token is fed that first, so that every token of the sentence is predicted; without one the first token is context
only. Sentences are scored on prefix trees where the model allows it, else in padded batches: the same numbers.
"""

from collections.abc import Sequence
from functools import partial
from typing import Literal, NamedTuple

import numpy as np
from accelerate.utils import gather_object
from tqdm.auto import tqdm
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from hb_metrics.inference.memory import halved
from hb_metrics.inference.models.architecture import decoder_start_id, max_positions_of, num_known_tokens
from hb_metrics.inference.processes import process_state
from hb_metrics.inference.scoring import scoring_paths
from hb_metrics.inference.scoring.prefix_tree import halved_tree, pack_prefix_trees
from hb_metrics.inference.text_checks import MISMATCH_ERROR, check_texts, shown
from hb_metrics.inference.units import ScoringPlan, Unit, distinct, run_units

Scoring = Literal["auto", "tree", "padded"]
SCORINGS = ("auto", "tree", "padded")
# Positions fed at once. Measured on two CPU cores with the embedded model and the small config, trees of 256 and of 512
# positions take the same time, 128 and 1,024 about a fifth more; a GPU is better filled by the larger. A tree's logits
# ([positions, vocabulary]) are the largest thing in memory, 100 MB at 49,152 tokens in float32, once for each core at
# work.
MAX_POSITIONS = 512

NO_TOKEN_ERROR = "the tokenizer makes no token of text {row} ({text!r}); leave it out"
NOTHING_TO_PREDICT_ERROR = (
    "text {row} ({text!r}) is a single token and the model is given no start token, so nothing is predicted; "
    "leave it out, or set add_start_token=True if the tokenizer has one"
)
TOO_LONG_ERROR = (
    "text {row} ({text!r}) is {length} tokens long with its special tokens; the model takes at most {limit}: shorten "
    "it, or leave it out"
)
LONG_CONTEXT_ERROR = "encoder_context is {length} tokens long; the model takes at most {limit}: give a shorter one"
NO_START_TOKEN_ERROR = "add_start_token=True, but the tokenizer has no BOS token; set one, or add_start_token=False"
NOT_FINITE_ERROR = (
    "the model gives {value} as negative log-likelihood of text {row} ({text!r}); try dtype float32, "
    "or check the weights"
)
TREE_ERROR = "scoring='tree' does not work for this model: {reason}; use scoring='auto' or 'padded'"


ONE_AT_A_TIME = "padding changes its numbers, so texts are scored one at a time"


class PerplexityScores(NamedTuple):
    """Scores of texts; arrays are [texts].

    Attributes:
        perplexities: exp of the mean negative log-likelihood per predicted token.
        log_likelihoods: Summed over the predicted tokens, natural log.
        num_tokens: How many tokens were predicted.
        scoring: The path taken, `"tree"`, `"padded"` or `"encoder-decoder"`.
        scoring_reason: Why.
        start_token: The token fed before each sentence, or `None`.
        positions: Tokens the model was run on, over all texts.
    """

    perplexities: np.ndarray
    log_likelihoods: np.ndarray
    num_tokens: np.ndarray
    scoring: str
    scoring_reason: str
    start_token: str | None
    positions: int


def score_perplexity(
    texts: Sequence[str],
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    *,
    scoring: Scoring = "auto",
    max_positions: int = MAX_POSITIONS,
    add_start_token: bool | None = None,
    encoder_context: str = "",
    progress: bool = True,
) -> PerplexityScores:
    """Scores the perplexity of each text.

    Identical texts are scored once. Under `accelerate launch` the processes share the work and all get the result.

    Args:
        texts: The sentences.
        model: A causal language model, or an encoder–decoder one (`texts` are then what its decoder writes).
        tokenizer: Its tokenizer.
        scoring: `"tree"`, `"padded"`, or `"auto"`: trees if a trial run gives the padded numbers.
        max_positions: Tokens fed to the model at once; bounds the memory.
        add_start_token: Whether a causal model is fed the BOS token first; `None`: if the tokenizer has one.
        encoder_context: What the encoder of an encoder–decoder model is given.
        progress: Whether to show a progress bar.

    Returns:
        The perplexities in the order of `texts`.

    Raises:
        ValueError: A text is empty, has nothing to predict or is too long; the tokenizer does not fit the model; the
            model gives NaN; or `scoring="tree"` and the model cannot.
        MemoryError: Memory does not suffice for one text alone; batches that are too large are run in halves.
    """
    plan = plan_perplexity(
        texts,
        model,
        tokenizer,
        scoring=scoring,
        max_positions=max_positions,
        add_start_token=add_start_token,
        encoder_context=encoder_context,
    )
    return perplexity_scores(plan, texts, run_plan(plan, model, progress=progress))


def run_plan(plan: ScoringPlan, model: PreTrainedModel, *, progress: bool) -> np.ndarray:
    """Scores all of a plan, shared among the processes; returns [sequences] summed negative log-likelihoods to all."""
    state = process_state()
    mine = plan.units[state.process_index :: state.num_processes]
    scored: list[tuple[np.ndarray, np.ndarray]] = []
    total = sum(len(unit.sequences) for unit in mine)
    with tqdm(total=total, unit="text", desc=plan.scoring, disable=not (progress and state.is_main_process)) as bar:
        for unit, nlls in run_units(plan, mine, model):
            scored.append((unit.sequences, nlls))
            bar.update(len(unit.sequences))
    nll = np.empty(len(plan.num_tokens))
    for sequences, nlls in gather_object(scored):
        nll[sequences] = nlls
    return nll


def perplexity_scores(
    plan: ScoringPlan, texts: Sequence[str], nll: np.ndarray, rows: np.ndarray | None = None
) -> PerplexityScores:
    """Spreads the scores of a plan's distinct sequences over its texts.

    Args:
        plan: The plan.
        texts: The texts it was made of.
        nll: [sequences] summed negative log-likelihoods.
        rows: Which texts; `None`: all.

    Returns:
        The scores of these texts.

    Raises:
        ValueError: One is NaN or infinite; the message names the text.
    """
    rows = np.arange(len(texts)) if rows is None else rows
    sequences = plan.sequence_of_text[rows]
    bad = np.flatnonzero(~np.isfinite(nll[sequences]))
    if len(bad):
        row = rows[bad[0]]
        raise ValueError(NOT_FINITE_ERROR.format(value=nll[sequences[bad[0]]], row=row, text=shown(texts[row])))
    return PerplexityScores(
        perplexities=np.exp(nll[sequences] / plan.num_tokens[sequences]),
        log_likelihoods=-nll[sequences],
        num_tokens=plan.num_tokens[sequences],
        scoring=plan.scoring,
        scoring_reason=plan.scoring_reason,
        start_token=plan.start_token,
        positions=plan.positions,
    )


def plan_perplexity(
    texts: Sequence[str],
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    *,
    scoring: Scoring = "auto",
    max_positions: int = MAX_POSITIONS,
    add_start_token: bool | None = None,
    encoder_context: str = "",
) -> ScoringPlan:
    """Tokenises and checks the texts and cuts them into units. Arguments and errors as `score_perplexity`."""
    if scoring not in SCORINGS:
        raise ValueError(f"scoring '{scoring}' is not known; allowed: {', '.join(SCORINGS)}")
    if max_positions < 1:
        raise ValueError(f"max_positions is {max_positions}; give at least 1 (the default is {MAX_POSITIONS})")
    check_texts(texts)
    unique, sequence_of_text = distinct(texts)
    encoded = tokenizer(unique, add_special_tokens=False, return_attention_mask=False)["input_ids"] if unique else []
    if model.config.is_encoder_decoder:
        return _plan_encoder_decoder(
            texts, encoded, sequence_of_text, model, tokenizer, scoring, max_positions, encoder_context
        )
    start_id = tokenizer.bos_token_id
    if add_start_token and start_id is None:
        raise ValueError(NO_START_TOKEN_ERROR)
    if add_start_token is False:
        start_id = None
    sequences = [tuple(tokens) if start_id is None else (start_id, *tokens) for tokens in encoded]
    check_sequences(texts, sequences, sequence_of_text, model, tokenizer, needed=2)

    if sequences:
        scoring_paths.check_causal(model, sequences)
    reason = f"--scoring {scoring} was given"
    if scoring != "padded" and sequences:
        fault = scoring_paths.tree_fault(model, sequences, max_positions, requested=scoring == "tree")
        if fault is not None and scoring == "tree":
            raise ValueError(TREE_ERROR.format(reason=fault))
        if scoring == "auto":
            scoring = "padded" if fault else "tree"
            reason = fault or "in a trial run prefix trees gave the padded path's numbers"
    if scoring == "tree":
        units = [Unit(tree.sequences, tree) for tree in pack_prefix_trees(sequences, max_positions)]
        positions = sum(len(unit.payload.tokens) for unit in units)
    else:
        scoring = "padded"
        score = partial(scoring_paths.padded_nlls, model)
        if sequences and scoring_paths.padding_changes(score, sequences, model):
            max_positions, reason = 1, f"{reason}; {ONE_AT_A_TIME}"
        units, positions = scoring_paths.padded_units(sequences, max_positions)
    return ScoringPlan(
        scoring=scoring,
        scoring_reason=reason,
        start_token=None if start_id is None else tokenizer.convert_ids_to_tokens(start_id),
        sequence_of_text=sequence_of_text,
        num_tokens=np.array([len(sequence) - 1 for sequence in sequences], dtype=np.int64),
        positions=positions,
        longest=max(map(len, sequences), default=0),
        units=units,
        score=partial(scoring_paths.tree_nlls if scoring == "tree" else scoring_paths.padded_nlls, model),
        halve=halved_tree if scoring == "tree" else halved,
    )


def check_sequences(
    texts: Sequence[str],
    sequences: Sequence[Sequence[int]],
    sequence_of_text: np.ndarray,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    *,
    needed: int,
) -> None:
    """Raises a ValueError that names the first text with fewer than `needed` tokens, too many, or unknown ones."""
    limit = _most_tokens(model, tokenizer)
    size = num_known_tokens(model)
    for row, which in enumerate(sequence_of_text):
        length = len(sequences[which])
        if length < needed and not tokenizer.tokenize(texts[row]):
            raise ValueError(NO_TOKEN_ERROR.format(row=row, text=shown(texts[row])))
        if length < needed:
            raise ValueError(NOTHING_TO_PREDICT_ERROR.format(row=row, text=shown(texts[row])))
        if length > limit:
            raise ValueError(TOO_LONG_ERROR.format(row=row, text=shown(texts[row]), length=length, limit=limit))
    largest = max((max(sequence) for sequence in sequences), default=0)
    if largest >= size:
        raise ValueError(MISMATCH_ERROR.format(token=largest, size=size))


def _most_tokens(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> int:
    """How many tokens the model takes; a tokenizer that knows no limit has 10³⁰."""
    limits = (max_positions_of(model), tokenizer.model_max_length)
    return min(limit for limit in limits if limit is not None and limit > 0)


def _plan_encoder_decoder(
    texts: Sequence[str],
    encoded: Sequence[Sequence[int]],
    sequence_of_text: np.ndarray,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    scoring: Scoring,
    max_positions: int,
    encoder_context: str,
) -> ScoringPlan:
    if scoring == "tree":
        raise ValueError(TREE_ERROR.format(reason="it is an encoder-decoder model"))
    context = tokenizer(encoder_context, return_tensors="pt")["input_ids"].long()
    if context.numel() == 0:
        raise ValueError("the tokenizer makes no token of the empty encoder context; give encoder_context some words")
    limit = _most_tokens(model, tokenizer)
    if context.numel() > limit:
        raise ValueError(LONG_CONTEXT_ERROR.format(length=context.numel(), limit=limit))
    start_id = decoder_start_id(model)
    if start_id is None:
        raise ValueError("the model's config has no decoder_start_token_id, so its decoder cannot start; set it")
    sequences = [(start_id, *tokens) for tokens in encoded]
    check_sequences(texts, sequences, sequence_of_text, model, tokenizer, needed=2)
    reason = "the sentence is what the decoder writes"
    score = partial(scoring_paths.decoder_nlls, model, context=context)
    if sequences and scoring_paths.padding_changes(score, sequences, model):
        max_positions, reason = 1, f"{reason}; {ONE_AT_A_TIME}"
    units, positions = scoring_paths.padded_units(sequences, max_positions)
    return ScoringPlan(
        scoring="encoder-decoder",
        scoring_reason=reason,
        start_token=tokenizer.convert_ids_to_tokens(start_id),
        sequence_of_text=sequence_of_text,
        num_tokens=np.array([len(sequence) - 1 for sequence in sequences], dtype=np.int64),
        positions=positions,
        longest=max(map(len, sequences), default=0),
        units=units,
        score=score,
    )
