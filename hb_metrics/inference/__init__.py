"""Turns models into numbers. No other part of `hb_metrics` imports torch and accelerate."""
