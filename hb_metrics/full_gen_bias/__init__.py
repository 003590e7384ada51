"""Provides Full Gen Bias (paper, 2.3.3 and A.7) as an `evaluate` module."""
