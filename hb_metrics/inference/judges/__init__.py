"""Judges are language models that classify texts by a rubric. Options for classifiers accept `judge:RUBRIC`."""
