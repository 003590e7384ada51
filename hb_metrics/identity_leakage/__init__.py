"""Measures how much a style classifier's probabilities change if only the term in a text changes."""
