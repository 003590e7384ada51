"""Provides Language Model Bias (Barikeri et al., 2021, 3.1) as an `evaluate` module."""
