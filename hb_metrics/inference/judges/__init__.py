"""Judges: language models as classifiers, by a rubric."""
