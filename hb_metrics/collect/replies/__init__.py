"""Decodes a model's replies to prompts, and also continuations."""
