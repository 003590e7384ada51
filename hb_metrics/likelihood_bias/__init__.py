"""Provides Likelihood Bias (paper, 2.3.2) as an `evaluate` module."""
