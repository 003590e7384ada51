"""Installs and publishes the dataset and the metrics. `terms` checks and freezes the vocabulary.

Only the command line imports these scripts.
"""
