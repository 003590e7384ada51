"""Perplexity under the embedded model."""

from tests.benchmarks.scoring import load_embedded, peers_row, random_sentences

ROW = peers_row("sentences drawn at random, the embedded model", load_embedded, random_sentences)
