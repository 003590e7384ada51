"""Runs models and classifiers. No other part of `hb_metrics` imports torch or accelerate."""
