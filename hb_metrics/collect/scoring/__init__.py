"""Computes likelihoods and perplexities of texts under a language model."""
