"""Perplexity under the embedded model."""

from tests.benchmarks.scoring import peers_row, random_sentences

ROW = peers_row("sentences drawn at random, the embedded model", random_sentences)
