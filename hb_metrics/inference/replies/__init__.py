"""Decoding: a model's replies to prompts, and what continuations and paraphrases share with them."""
