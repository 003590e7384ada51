"""Computes perplexities of sentences under a causal or an encoder–decoder language model.

The perplexity of a sentence is exp(mean negative log-likelihood per predicted token), with natural logarithms. A causal
model reads its start tokens first (see `text_start`), so that it predicts all tokens of the sentence. If the model has
no start token, the sentence's first token is not predicted.

Sentences are scored on prefix trees if the model supports them (see `prefix_tree`), and otherwise in batches of
sentences with the same number of tokens. Both methods give the same results.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
from accelerate.utils import gather_object
from tqdm.auto import tqdm
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from hb_metrics.collect.scoring import scoring_paths
from hb_metrics.collect.scoring.prefix_tree import halved_tree, pack_prefix_trees
from hb_metrics.collect.scoring.reply_scoring import MAX_POSITIONS, reply_nlls, reply_scoring
from hb_metrics.collect.text_checks import check_texts
from hb_metrics.collect.units import ScoringPlan, Unit, alike_units, distinct, run_units
from hb_metrics.models.architecture import check_token_ids, decoder_prefix, max_positions_of, text_start
from hb_metrics.models.memory import halved
from hb_metrics.models.processes import process_state


class PerplexityScores(NamedTuple):
    """The scores of texts.

    Attributes:
        perplexities: [texts] exp(mean negative log-likelihood per predicted token).
        log_likelihoods: [texts] The sum of the natural log-probabilities of the predicted tokens.
        scoring: The method: `"tree"`, `"batches"` or `"encoder-decoder"`.
        scoring_reason: The reason for this method.
        start_token: The tokens that the model reads before each sentence, separated by spaces, or `None`.
        positions: The number of tokens that the model read for all texts.
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
    trees: bool = True,
    max_positions: int = MAX_POSITIONS,
    add_start_token: bool = True,
    progress: bool = True,
) -> PerplexityScores:
    """Computes the perplexity of each text.

    Under `accelerate launch`, the processes share the work, and every process gets the result.

    Args:
        texts: The sentences.
        model: A causal or an encoder–decoder language model. An encoder reads an empty text.
        tokenizer: The model's tokenizer.
        trees: Whether to use prefix trees if a trial shows that the model supports them.
        max_positions: The maximum number of tokens that the model reads at once. It limits the memory needed.
        add_start_token: Whether a causal model reads its start tokens first, if it has any.
        progress: Whether to display a progress bar.

    Raises:
        ValueError: A text is empty, has no token to predict, or is too long. The message states the text's row. Also
            raised if the tokenizer does not match the model, or if the model returns NaN.
        MemoryError: There is not enough memory even for a single text.
    """
    plan = plan_perplexity(
        texts, model, tokenizer, trees=trees, max_positions=max_positions, add_start_token=add_start_token
    )
    return perplexity_scores(plan, run_plan(plan, model, progress=progress))


def run_plan(plan: ScoringPlan, model: PreTrainedModel, *, progress: bool) -> np.ndarray:
    """Returns, on all processes, the negative log-likelihood of each of a plan's sequences: [sequences] float64."""
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
    plan: ScoringPlan, nll: np.ndarray, rows: np.ndarray | None = None, ids: Sequence[str] | None = None
) -> PerplexityScores:
    """Returns the scores of a plan's texts.

    `nll` contains the negative log-likelihood of each of the plan's sequences. `rows` selects some of the texts. Error
    messages state a text's row or, if `ids` is set, its id.
    """
    rows = np.arange(len(plan.sequence_of_text)) if rows is None else rows
    sequences = plan.sequence_of_text[rows]
    bad = np.flatnonzero(~np.isfinite(nll[sequences]))
    if len(bad):
        row = rows[bad[0]]
        raise ValueError(
            f"the model returns {nll[sequences[bad[0]]]} as the negative log-likelihood of text "
            f"{row if ids is None else ids[row]}; set --dtype float32, or check the model's weights"
        )
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
    trees: bool = True,
    max_positions: int = MAX_POSITIONS,
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
        shapes = [(len(sequence) - 1,) for sequence in sequences]
        plan = reply_scoring(pairs, decoder, shapes, reply_nlls, model, tokenizer, max_positions)
        return replace(plan, sequence_of_text=sequence_of_text)

    alone, on_trees = (
        partial(method, model, num_read=num_read) for method in (scoring_paths.batch_nlls, scoring_paths.tree_nlls)
    )
    packed = [Unit(tree.sequences, tree) for tree in pack_prefix_trees(sequences, max_positions)]
    fault: str | None = "batches were requested"
    if sequences:
        scoring_paths.check_causal(model, sequences)
        if trees:
            fault = scoring_paths.tree_fault(model, sequences, packed, on_trees, alone, max_positions)
    lengths = [len(sequence) - 1 for sequence in sequences]
    return ScoringPlan(
        scoring="batches" if fault else "tree",
        scoring_reason=fault or scoring_paths.SAME_ON_TREES,
        start_token=" ".join(tokenizer.convert_ids_to_tokens(start)) or None,
        sequence_of_text=sequence_of_text,
        num_tokens=np.array([len(sequence) - num_read for sequence in sequences], dtype=np.int64),
        positions=sum(lengths) if fault else sum(len(unit.payload.tokens) for unit in packed),
        units=alike_units(sequences, [(length,) for length in lengths], max_positions) if fault else packed,
        score=alone if fault else on_trees,
        halve=halved if fault else halved_tree,
    )


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
            raise ValueError(
                f"text {row} has {length} tokens including special tokens, but the model accepts {needed} to {limit} "
                "tokens; change or omit the text"
            )
    check_token_ids(model, sequences)


def most_tokens(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> int:
    """Returns the maximum number of tokens in a text, or about 10³⁰ if it is unknown."""
    limits = (max_positions_of(model), tokenizer.model_max_length)
    return min(limit for limit in limits if limit is not None and limit > 0)
