"""Measures obedience: the degree to which replies follow the bias tag at the end of their prompt."""
