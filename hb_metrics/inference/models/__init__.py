"""Loads language models, and turns prompts into the input of a model."""
