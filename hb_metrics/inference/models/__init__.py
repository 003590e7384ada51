"""Loads language models, and turns prompts into model inputs."""
