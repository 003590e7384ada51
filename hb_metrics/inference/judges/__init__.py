"""Judges: language models that classify texts by a rubric."""
