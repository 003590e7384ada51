"""Identity leakage: how far the probabilities of a style classifier move when only the term in a text changes."""
