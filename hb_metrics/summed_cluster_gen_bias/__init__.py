"""Provides Summed-Cluster Gen Bias (paper, A.7) as an `evaluate` module."""
