"""Classifiers of ParlAI as models of transformers: reads, converts and runs them."""
