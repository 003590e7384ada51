"""Loads language models, talks to servers, and turns prompts into model inputs and outputs into replies."""
