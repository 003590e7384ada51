"""Obedience: how far replies follow the bias tag that their prompt ends with."""
