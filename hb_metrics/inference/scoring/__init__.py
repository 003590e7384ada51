"""Scores texts by their likelihood under a model: perplexities of sentences, pairs and dialogue."""
