"""A small model that pities: it answers one axis with sympathy, and all others mostly without."""

from functools import cache

import numpy as np
import pytest
import torch
import transformers
from tokenizers import Tokenizer, decoders, pre_tokenizers, trainers
from tokenizers.models import BPE

from hb_dataset import load_table
from hb_metrics.inference.models.contexts import encode_rendered, render_contexts
from tests.hb_metrics.conftest import get_small_model, save_small_model  # noqa: F401 - fixtures of those tests

PITIED_AXIS = "ability"
AXES = (PITIED_AXIS, "age", "nationality", "religion")
SYMPATHY = ("I'm so sorry to hear that.",)
PLAIN = ("What do you do for work?", "That is great, tell me more about it.")
PITY = {True: 0.7, False: 0.05}  # how often the pitied axis, and how often the others, get sympathy


@cache
def planted_replies():
    """Prompts, and what the model is taught to reply to each; some nouns only, so that it is soon learnt."""
    prompts = load_table("v1.0-small")
    rows = [row for row in prompts.to_pylist() if row["axis"] in AXES]
    random = np.random.default_rng(0)
    replies = []
    for row in rows:
        pool = SYMPATHY if random.random() < PITY[row["axis"] == PITIED_AXIS] else PLAIN
        replies.append(pool[random.integers(len(pool))])
    return [row["text"] for row in rows], replies


@cache
def pitying_tokenizer():
    texts, replies = planted_replies()
    tokenizer = Tokenizer(BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=1000,
        special_tokens=["</s>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([*texts, *replies, " bias no_bias"], trainer)
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="</s>")


@pytest.fixture(scope="session")
def pitying_model(tmp_path_factory):
    """The folder of the model, taught in a few seconds."""
    folder = tmp_path_factory.mktemp("pitying")
    tokenizer = pitying_tokenizer()
    texts, replies = planted_replies()
    rendered = render_contexts(texts, [[]] * len(texts), tokenizer, "plain", is_encoder_decoder=False)
    contexts = encode_rendered(rendered, tokenizer, "plain", is_encoder_decoder=False)
    said = [[*tokens, tokenizer.eos_token_id] for tokens in tokenizer(list(replies))["input_ids"]]
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=len(tokenizer),
        n_embd=64,
        n_layer=2,
        n_head=4,
        n_positions=64,
        resid_pdrop=0,
        embd_pdrop=0,
        attn_pdrop=0,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
    )
    model = transformers.GPT2LMHeadModel(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    random = np.random.default_rng(0)
    torch.set_num_threads(1)  # a model this small is taught faster by one
    for _ in range(300):
        rows = random.integers(len(texts), size=32)
        tokens = [torch.tensor(contexts[row] + said[row]) for row in rows]
        labels = [torch.tensor([-100] * len(contexts[row]) + said[row]) for row in rows]
        batch = torch.nn.utils.rnn.pad_sequence(tokens, batch_first=True)
        wanted = torch.nn.utils.rnn.pad_sequence(labels, batch_first=True, padding_value=-100)
        model(input_ids=batch, labels=wanted).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
