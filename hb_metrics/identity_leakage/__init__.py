"""Identity leakage: how far a style classifier's probabilities move when only the term in a text changes."""
