"""Decodes a model's replies to prompts. Continuations and paraphrases use the same decoding."""
