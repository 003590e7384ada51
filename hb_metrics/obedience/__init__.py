"""Measures obedience, which is how closely replies follow the bias tag at the end of their prompt."""
