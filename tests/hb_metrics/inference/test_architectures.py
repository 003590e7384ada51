"""Scores and replies of every architecture family against one text at a time, the model called plainly."""

import copy

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES,
)

from hb_metrics.inference.models.contexts import EndTokens
from hb_metrics.inference.replies.decoding import Decoding, decode, takes_padding
from hb_metrics.inference.scoring.perplexity import score_perplexity
from tests.hb_metrics.conftest import byte_level_tokenizer
from tests.hb_metrics.inference.small_architectures import small_model

LOW_PRECISION = torch.bfloat16
ENDS = EndTokens(dropped=(1,))
GREEDY = Decoding(max_new_tokens=8)
# Those whose states or windows the ways of scoring and decoding treat apart.
APART = []


def texts_of(prompts):
    return prompts[::20] + prompts[3::100]


def log_perplexities_of_one_text_at_a_time(model, tokenizer, texts):
    log_perplexities = []
    for text in texts:
        tokens = torch.tensor([[tokenizer.bos_token_id, *tokenizer(text, add_special_tokens=False)["input_ids"]]])
        if model.config.is_encoder_decoder:
            context = tokenizer("", return_tensors="pt")["input_ids"]
        with torch.inference_mode():
            logits = model(input_ids=tokens[:, :-1], use_cache=False).logits[0].float()
        log_perplexities.append(torch.nn.functional.cross_entropy(logits, tokens[0, 1:]).item())
    return np.array(log_perplexities)


def replies_of_one_context_at_a_time(model, contexts):
    replies = []
    for context in contexts:
        tokens = list(context)
        for _ in range(GREEDY.max_new_tokens):
            with torch.inference_mode():
                logits = model(input_ids=torch.tensor([tokens]), use_cache=False).logits[0, -1].float()
            tokens.append(int(logits.argmax()))
        replies.append(tokens[len(context) :])
    return replies
