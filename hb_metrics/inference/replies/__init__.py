"""Decoding: a model's replies to prompts. Continuations and paraphrases share the decoding."""
