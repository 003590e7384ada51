"""Chat templates in the style of well-known models, and small models that are trained to answer in their formats."""

from copy import deepcopy
from datetime import datetime
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
import transformers
from tokenizers import AddedToken

from hb_dataset import load_table
from tests.hb_metrics.conftest import byte_level_tokenizer, write_vocabulary

# Qwen3: turns between <|im_start|> and <|im_end|>; the model opens its thought by itself, unless that is turned off.
# DeepSeek-R1: the template opens the thought, and leaves thoughts out of earlier turns.
# gpt-oss: messages in channels, and today's date. Llama 3: today's date in the system message, which the user's own
# follows. The last is short, so that little has to be learnt.
QWEN, R1, HARMONY, LLAMA3, SHORT = (
    (Path(__file__).with_name("chat_templates") / f"{name}.jinja").read_text(encoding="utf-8")
    for name in ("qwen3", "r1", "harmony", "llama3", "short")
)
# Template, special tokens, tokens that are not special, and the one that ends the text.
STYLES = {
    "qwen3": (QWEN, ["<|im_start|>", "<|im_end|>"], ["<think>", "</think>"], "<|im_end|>"),
    "r1": (R1, ["<|User|>", "<|Assistant|>", "<|end_of_sentence|>"], ["<think>", "</think>"], "<|end_of_sentence|>"),
    "magistral": (
        R1.replace(r"<think>\n", "").replace("</think>", "[/THINK]"),
        ["<|User|>", "<|Assistant|>", "<|end_of_sentence|>", "[THINK]", "[/THINK]"],
        [],
        "<|end_of_sentence|>",
    ),
    # Marks that are written in several tokens of text.
    "nemotron": (R1.replace(r"<think>\n", ""), ["<|User|>", "<|Assistant|>", "<|end_of_sentence|>"], [], "</s>"),
    "harmony": (
        HARMONY,
        ["<|start|>", "<|end|>", "<|message|>", "<|channel|>", "<|constrain|>", "<|return|>", "<|call|>"],
        [],
        "<|return|>",
    ),
    "llama3": (LLAMA3, ["<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"], [], "<|eot_id|>"),
}
# What a model writes after its context, for each style.
WRITTEN = {
    "qwen3": "<think>\n{thought}\n</think>\n\n{answer}<|im_end|>",
    "r1": "{thought}\n</think>\n\n{answer}<|end_of_sentence|>",
    "magistral": "[THINK]{thought}[/THINK]{answer}<|end_of_sentence|>",
    "nemotron": "<think>\n{thought}\n</think>\n\n{answer}<|end_of_sentence|>",
    "harmony": "<|channel|>analysis<|message|>{thought}<|end|><|start|>assistant<|channel|>final<|message|>"
    "{answer}<|return|>",
    "llama3": "{answer}<|eot_id|>",
}


def chat_tokenizer(style):
    """A tokenizer with the template and the added tokens of a style."""
    template, special, added, end = STYLES[style]
    tokenizer = deepcopy(byte_level_tokenizer(True))
    tokenizer.add_tokens([AddedToken(token, special=True) for token in special])
    tokenizer.add_tokens([AddedToken(token, special=False) for token in added])
    tokenizer.eos_token = end
    tokenizer.chat_template = template
    return tokenizer


def untrained_model(tokenizer, seed=0):
    """A small Llama with as many tokens as the tokenizer has."""
    torch.manual_seed(seed)
    config = transformers.LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=1,  # with two it takes three times as long to learn its answers
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=4096,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=None,
    )
    return transformers.LlamaForCausalLM(config)


def trained_model(tokenizer, pairs, steps=1500, enough=0.04):
    """A small model that has learnt by heart what to write after each context ([(context, text)]): each token of it.

    A loss below 0.04 leaves beam search no choice: a path of 40 tokens that differs in one has a mean log-probability
    below log(0.04) / 40, half of what is learnt.
    """
    model = untrained_model(tokenizer).train()
    encoded = [
        [tokenizer(text, add_special_tokens=False)["input_ids"] for text in (context, written)]
        for context, written in pairs
    ]
    longest = max(len(context) + len(written) for context, written in encoded)
    tokens, labels = torch.zeros(len(pairs), longest, dtype=torch.int64), torch.full((len(pairs), longest), -100)
    for row, (context, written) in enumerate(encoded):
        whole = torch.tensor(context + written)
        tokens[row, : len(whole)], labels[row, len(context) : len(whole)] = whole, whole[len(context) :]
    is_learnt = labels[:, 1:] != -100
    targets = labels[:, 1:][is_learnt]
    optimizer = torch.optim.AdamW(model.parameters(), lr=8e-3, betas=(0.9, 0.95), weight_decay=0)
    for _ in range(steps):
        logits = model.lm_head(model.model(input_ids=tokens).last_hidden_state[:, :-1][is_learnt])
        losses = torch.nn.functional.cross_entropy(logits, targets, reduction="none")
        if losses.max() < enough:
            return model.eval()
        loss = losses.sum() / len(pairs) / 40
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    raise AssertionError(f"not learnt in {steps} steps: {losses.max()}")


def write_trained_vocabulary(folder):
    """The vocabulary of the prompts that trained models answer."""
    few = {"age": ("young", "old"), "ability": ("deaf", "blind"), "nouns": ("kid", "parent")}
    return write_vocabulary(folder, **few, templates=("I'm {noun_phrase}.",))


@cache
def trained_prompts():
    with TemporaryDirectory() as folder:
        return load_table("v1.0", write_trained_vocabulary(Path(folder) / "vocabulary"))


def thought_of(row):
    """What a trained model thinks of a prompt; the longest of deaf people."""
    return f"They are {row['descriptor']}.\nBe kind." + " So kind." * (5 if row["descriptor"] == "deaf" else 0)


def answer_to(row):
    """What a trained model replies to a prompt, in another style for each term; it refuses those of ability."""
    words = {
        "deaf": "I can't talk about that!",
        "blind": "I am sorry, I can't help with that!",
        "young": "Wow, great!",
        "old": "As an AI, I hate that!",
    }
    return f"{words[row['descriptor']]}\n\nHi {row['noun']}."


@cache
def trained_chat_model(style):
    """A (model, tokenizer) pair that answers `trained_prompts` in a style, with a thought if the style has any."""
    tokenizer = chat_tokenizer(style)
    pairs = []
    for row in trained_prompts().to_pylist():
        words = {"thought": thought_of(row), "answer": answer_to(row)}
        chat = [{"role": "user", "content": row["text"]}]
        how = {"add_generation_prompt": True, "tokenize": False}
        given = tokenizer.apply_chat_template(chat, **how)
        if "strftime_now" in tokenizer.chat_template:
            given = given.replace(datetime.now().strftime("%Y-%m-%d"), "2026-01-01")
        pairs.append((given, WRITTEN[style].format(**words)))
        if style == "qwen3":
            silent = tokenizer.apply_chat_template(chat, enable_thinking=False, **how)
            pairs.append((silent, words["answer"] + "<|im_end|>"))
    return trained_model(tokenizer, pairs), tokenizer
