"""Perplexity of sentences as they are measured: terms in templates, each with all its nouns."""

from tests.benchmarks.scoring import peers_row, random_groups

ROW = peers_row(
    "sentences of terms and templates drawn at random, with all their nouns, the embedded model", random_groups
)
