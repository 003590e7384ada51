"""Identity leakage: the change in a style classifier's probabilities when only the term in a text changes."""
