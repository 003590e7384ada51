"""Scores the likelihood of texts under a model: perplexities of sentences, pairs and dialogue."""
