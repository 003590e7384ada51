"""Identity leakage: how much a style classifier's probabilities change when only the term in a text changes."""
