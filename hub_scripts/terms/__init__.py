"""Checks changes to the vocabulary, and freezes its versions."""
