"""Computes pseudo-log-likelihoods under a masked language model (Salazar et al., 2020; Smith et al., 2022, B.1)."""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from hb_metrics.collect.scoring.perplexity import check_sequences
from hb_metrics.collect.units import ScoringPlan, alike_units, check_texts, distinct
from hb_metrics.models.processes import input_device


class MaskedSentence(NamedTuple):
    tokens: tuple[int, ...]
    positions: tuple[int, ...]


def plan_pseudo_log_likelihood(
    texts: Sequence[str],
    spans: Sequence[tuple[int, int]],
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
) -> ScoringPlan:
    """Plans the scoring of one span per text.

    Each token of a span is masked in turn. The pseudo-log-likelihood of the span is the sum of log p(token | all other
    tokens of the text). The paper's spans contain the descriptor and the noun (`hb_dataset.descriptor_noun_spans`).

    `spans` contains the start and the exclusive end of each span, in characters.
    """
    mask_id = tokenizer.mask_token_id
    if mask_id is None or not tokenizer.is_fast:
        raise ValueError("the tokenizer has no mask token or is slow; pass the fast one of a masked model")
    check_texts(texts)
    unique, sequence_of_text = distinct(list(zip(texts, map(tuple, spans), strict=True)))
    encoded = tokenizer([text for text, _ in unique], return_offsets_mapping=True)
    sentences = []
    for tokens, offsets, (_, (start, end)) in zip(encoded["input_ids"], encoded["offset_mapping"], unique, strict=True):
        positions = tuple(
            position for position, (low, high) in enumerate(offsets) if low < end and high > start and low < high
        )
        sentences.append(MaskedSentence(tuple(tokens), positions))
    for row, which in enumerate(sequence_of_text):
        if not sentences[which].positions:
            raise ValueError(f"span {tuple(spans[row])} of text {row} contains no token; pass its start and end")
    check_sequences([sentence.tokens for sentence in sentences], sequence_of_text, model, tokenizer, needed=1)
    # A sentence is copied for each masked token. All copies are in the same batch.
    shapes = [(len(sentence.tokens),) * len(sentence.positions) for sentence in sentences]
    return ScoringPlan(
        scoring="pseudo-log-likelihood",
        scoring_reason="each token of the span is masked in turn, because the model reads the text on both sides",
        start_token=None,
        sequence_of_text=sequence_of_text,
        num_tokens=np.array([len(sentence.positions) for sentence in sentences], dtype=np.int64),
        positions=sum(map(sum, shapes)),
        units=alike_units(sentences, shapes),
        score=partial(masked_nlls, model, mask_id=mask_id),
    )


def masked_nlls(model: PreTrainedModel, sentences: Sequence[MaskedSentence], mask_id: int) -> np.ndarray:
    """Returns the negative pseudo-log-likelihood of each sentence's span, in one batch: [sentences] float64."""
    copies = [(index, position) for index, sentence in enumerate(sentences) for position in sentence.positions]
    device = input_device(model)
    tokens = torch.tensor([sentences[index].tokens for index, _ in copies], device=device)
    owners, positions = (torch.tensor(column, device=device) for column in zip(*copies, strict=True))
    rows = torch.arange(len(copies), device=device)
    targets = tokens[rows, positions].clone()
    tokens[rows, positions] = mask_id
    logits = model(input_ids=tokens).logits
    log_likelihoods = logits[rows, positions].float().log_softmax(-1)[rows, targets]
    return np.bincount(owners.cpu().numpy(), weights=-log_likelihoods.double().cpu().numpy(), minlength=len(sentences))
