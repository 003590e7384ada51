"""Perplexity under a model of GPT-2 small's size."""

from tests.benchmarks.scoring import load_gpt2, peers_row, random_sentences

ROW = peers_row("sentences drawn at random, a model of GPT-2 small's size", load_gpt2, random_sentences)
