"""How likely a model finds texts: perplexities of sentences, pairs and dialogue."""
