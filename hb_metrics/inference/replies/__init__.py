"""Decodes a model's replies to prompts. The same code decodes continuations and paraphrases."""
